"""One source per file; see :mod:`slurm_io.collectors.base`."""
