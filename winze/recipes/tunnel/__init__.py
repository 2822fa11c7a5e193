"""The tunnel effect (Masarczyk et al., 2023, arXiv 2305.19753)."""
