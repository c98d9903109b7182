"""The job of a drill: steps in a known form, one process on each node, no GPU and no data."""

from __future__ import annotations

import pwd
from collections.abc import Sequence

from slurm_io.slurm.base import NewJob

MARK = "slurm_io-drill"
LONGEST_S = 1800
_SCRIPT = """#!/bin/sh
#SBATCH --exclusive
# The training of a rehearsal (slurm-io spare drill).
srun --ntasks-per-node=1 --kill-on-bad-exit=0 sleep 3600 >/dev/null 2>&1 &
step=0
while [ $step -lt 3600 ]; do
    step=$((step + 1))
    echo "iter $step: loss 2.0000, time 500.00ms, mfu 40.00%"
    sleep 0.5
done
"""


def drill_job(
    reservation: str, nodes: Sequence[str], account: pwd.struct_passwd, folder: str
) -> NewJob:
    """It ends by itself after half an hour, should nobody end it."""
    return NewJob(
        name=f"drill-{reservation}",
        script=_SCRIPT,
        user=account.pw_name,
        work_dir=folder,
        nodes=tuple(nodes),
        reservation=reservation,
        comment=f"{MARK} {reservation}",
        time_limit_s=LONGEST_S,
        requeue=True,
    )
