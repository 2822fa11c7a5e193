"""Claims of papers, questions of our own, and their verdicts."""
