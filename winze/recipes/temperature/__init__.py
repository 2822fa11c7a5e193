"""Softmax temperature and the rank of what is learnt (S9)."""
