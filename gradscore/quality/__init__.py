"""From a few columns of a score table to the probability that a row is sound."""
