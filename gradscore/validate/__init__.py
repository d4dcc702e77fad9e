"""Faults planted in the user's own rows, and which columns of their score table find them."""
