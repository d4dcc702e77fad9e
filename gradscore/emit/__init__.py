"""The kept rows in the dataset's own format, the dropped rows with reasons, and a manifest."""
