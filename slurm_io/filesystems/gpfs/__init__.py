"""GPFS (IBM Storage Scale): what its monitoring commands print, parsed."""
