"""Places of a network at which features are read, and their pooling."""
