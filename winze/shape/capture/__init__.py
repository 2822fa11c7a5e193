"""Forwards of other libraries: find their residual sums, and run them with rules."""
