"""Proof that a copy of a dataset is whole and current, in levels from a glance to a full read."""
