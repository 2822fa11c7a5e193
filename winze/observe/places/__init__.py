"""Where in a network features are read, and how they are pooled."""
