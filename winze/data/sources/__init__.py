"""File formats, and where data is searched."""
