"""One file per category of the demo dataset; each writes one sound example from a random generator."""
