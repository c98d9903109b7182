"""The resident process, one per node and job."""
