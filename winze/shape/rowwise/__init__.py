"""Some samples of a batch, taken out of a stream and added back."""
