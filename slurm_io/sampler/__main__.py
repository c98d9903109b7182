"""``python -m slurm_io.sampler SPOOL_DIR``"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

if __name__ == "__main__":
    if len(sys.argv) != 2:
        print("usage: python -m slurm_io.sampler SPOOL_DIR", file=sys.stderr)
        sys.exit(2)
    # Held back until the handler stands: a job of a second must not lose its record to imports.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    from slurm_io.sampler.main import run

    sys.exit(run(Path(sys.argv[1])))
