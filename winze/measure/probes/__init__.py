"""Probes of features: linear ones (Adam, ridge, softmax regression), and the nearest neighbours."""
