"""Which rows of a score table are kept, and the reason for each."""
