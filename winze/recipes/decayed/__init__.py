"""Shortcuts that fade with depth (S4)."""
