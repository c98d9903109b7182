"""Ceph's kernel client: its debugfs files, parsed."""
