"""Rules, one per file."""
