"""Tests of slurm_io; the labs and the grid are importable from here."""
