"""Feature erosion (Masarczyk et al., 2023, arXiv 2310.19537)."""
