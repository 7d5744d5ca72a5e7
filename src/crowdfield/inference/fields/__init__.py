"""q(f) given Gaussian sites: one protocol, one file an engine."""
