"""Foreign descriptions of a dataset, one format per file, read into a manifest."""
