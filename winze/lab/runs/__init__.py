"""Runs on disk: jobs, folders, sweeps, and the readings in results/."""
