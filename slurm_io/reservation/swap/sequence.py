"""The steps of a swap, in order."""

from __future__ import annotations

from slurm_io.reservation.swap.step import Step
from slurm_io.reservation.swap.steps.checkpoint import Checkpoint
from slurm_io.reservation.swap.steps.choose import Choose
from slurm_io.reservation.swap.steps.clear import Clear
from slurm_io.reservation.swap.steps.evidence import Evidence
from slurm_io.reservation.swap.steps.fence import Fence
from slurm_io.reservation.swap.steps.finish import Finish, Record
from slurm_io.reservation.swap.steps.requeue import Requeue
from slurm_io.reservation.swap.steps.reserve import Reserve
from slurm_io.reservation.swap.steps.start import Start
from slurm_io.reservation.swap.steps.target import Target
from slurm_io.reservation.swap.steps.verify import Verify

STEPS: tuple[Step, ...] = (
    Evidence(), Target(), Choose(), Verify(), Fence(), Clear(), Reserve(), Requeue(), Start(),
    Checkpoint(), Finish(), Record(),
)  # fmt: skip
AGAIN_FROM = "choose"
"""Where it goes on when a spare turns out unfit."""
KEPT = ("fence", "requeue")
"""Steps that are not taken back for another spare: the bad node stays bad, the job waits."""
