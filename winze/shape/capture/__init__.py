"""Forwards of other libraries as programs: traced, and cut into shortcuts and branches that can be run apart."""
