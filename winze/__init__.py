"""Shape and measure what a neural network represents at every depth."""
