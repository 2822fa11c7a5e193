"""Mergeable accumulators that take in features batch by batch."""
