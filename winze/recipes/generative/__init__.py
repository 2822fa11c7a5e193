"""Generative and discriminative representations in continual learning (S6)."""
