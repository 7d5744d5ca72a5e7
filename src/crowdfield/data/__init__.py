"""Frozen types: reports, grids, heatmaps. Validated once, immutable ever after."""
