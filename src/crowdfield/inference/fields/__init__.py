"""q(f) given Gaussian sites: one protocol, one file per engine."""
