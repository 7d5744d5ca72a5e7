"""Against peers and against size, in one run on one machine: `python -m benchmarks --help`."""
