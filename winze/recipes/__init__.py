"""Published experiments: one file a table or a family of figures, named system/table."""
