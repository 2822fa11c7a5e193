"""Claims of papers, questions of our own, and what the readings say about them."""
