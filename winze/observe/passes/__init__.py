"""Passes over data: hooks, probes, reductions, CUDA graphs, shards."""
