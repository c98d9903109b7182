"""Steps and throughput in what a training job prints: bytes in, records out, nothing opened.

:class:`slurm_io.joblog.tail.LogTail` is the way in. One file in ``forms/`` for each printer.
"""
