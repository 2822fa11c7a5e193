"""Rules: one small file each."""
