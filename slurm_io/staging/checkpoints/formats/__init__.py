"""One checkpoint format per file; see :mod:`slurm_io.staging.checkpoints.formats.base`."""
