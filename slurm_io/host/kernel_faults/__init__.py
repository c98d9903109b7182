"""What the kernel log says of faults: one module per family of messages.

A family has `STARTS` (how its messages begin), `parse` (message -> event or None) and `judge`
(events of the family -> findings). :mod:`slurm_io.host.kernel_faults.families` joins them.
"""
