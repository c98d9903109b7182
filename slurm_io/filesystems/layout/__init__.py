"""Lustre file layouts: how many storage targets a file or directory uses, and whether that fits."""
