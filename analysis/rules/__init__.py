"""One rule per file; see :mod:`slurm_io.analysis.rules.base`."""
