"""Checks of what a job needs, one per file: the dataset, the node's mounts, disks and links."""
