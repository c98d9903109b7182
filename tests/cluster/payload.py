"""A job's program for tests that only ask whether its data comes home: no torch, a tenth of a core.

A plain loop over batches, told to the hook by `watch` where the hook is there. Usage: SECONDS.
"""

import sys
import time

try:
    from slurm_io_hook import watch
except ImportError:
    watch = iter


def batches(seconds):
    """A batch every 50 ms or so, of which 20 ms are waiting."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.02)
        yield b"batch"


for _ in watch(batches(float(sys.argv[1]))):
    time.sleep(0.03)
print("trained to the end")
