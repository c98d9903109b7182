"""One report format per file; see :mod:`slurm_io.analysis.reports.base`."""
