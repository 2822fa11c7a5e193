"""Networks that winze builds itself."""
