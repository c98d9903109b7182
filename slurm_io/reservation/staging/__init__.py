"""Copying a dataset to nodes of a reservation, from healthy ones, through Slurm."""
