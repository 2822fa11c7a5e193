"""Softmax temperature and the rank of features (S9)."""
