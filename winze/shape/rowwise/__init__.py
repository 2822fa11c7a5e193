"""Gather some samples of a batch and add their results back."""
