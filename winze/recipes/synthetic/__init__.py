"""Synthetic data by meta-gradients (S5)."""
