"""Forwards that somebody else wrote: read, and run with rules at their residual sums."""
