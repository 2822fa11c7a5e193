"""Networks cut at a place: what a cut costs and saves, and its file."""
