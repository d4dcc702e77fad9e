"""Open a dataset, render its rows, mark the target tokens, make batches."""
