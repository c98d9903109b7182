"""One printer per file; see :mod:`slurm_io.joblog.forms.base`."""
