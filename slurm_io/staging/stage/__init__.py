"""Copying a dataset to this node: planned, resumable, verified before files get their names."""
