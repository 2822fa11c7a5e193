"""Networks cut at a place: costs, savings and files."""
