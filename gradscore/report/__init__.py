"""What a finished score table says, as a page, as pictures, in a notebook, and beside another table."""
