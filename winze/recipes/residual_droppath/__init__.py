"""ResidualDroppath: feature reuse over residual connections (2024, arXiv 2411.09475)."""
