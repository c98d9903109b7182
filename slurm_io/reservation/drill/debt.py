"""What a drill has borrowed, on disk before it is taken: so that it can be given back after a kill.

``<state_dir>/reservations/<name>/drill.json``.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass

from slurm_io.errors import HostError, SlurmError, SlurmNotFound
from slurm_io.host.root_folders import read_file, write_file
from slurm_io.reservation.drill.job import MARK
from slurm_io.reservation.history import reservation_folder
from slurm_io.reservation.pool import is_on_nodes, is_waiting
from slurm_io.slurm.base import Slurm

REASON = "slurm_io: drill"
"""What the reason of our drain begins with: only such a drain is ever taken back."""
_FILE = "drill.json"


@dataclass(frozen=True)
class Debt:
    """`before`: the reservation's nodes; `bad`: the one that was fenced; `job` "" = none yet."""

    bad: str
    before: tuple[str, ...]
    job: str = ""


def keep_debt(state_dir: str, reservation: str, debt: Debt) -> None:
    """Durable enough for a kill of the process. Raises HostError."""
    with reservation_folder(state_dir, reservation, create=True) as folder:
        assert folder is not None
        write_file(folder, _FILE, json.dumps(asdict(debt)).encode())


def debt_of(state_dir: str, reservation: str) -> Debt | None:
    """None = nothing is owed. Raises HostError for a damaged file."""
    with reservation_folder(state_dir, reservation) as folder:
        raw = None if folder is None else read_file(folder, _FILE)
    if raw is None:
        return None
    try:
        data = json.loads(raw)
        return Debt(str(data["bad"]), tuple(map(str, data["before"])), str(data["job"]))
    except (ValueError, TypeError, KeyError):
        raise HostError(
            f"{_FILE} of reservation {reservation} cannot be read: look for a job called "
            f"drill-{reservation} and a node drained with {REASON!a}, end and resume them, and "
            "remove the file"
        ) from None


def pay_back(slurm: Slurm, state_dir: str, reservation: str, debt: Debt) -> list[str]:
    """End the job, resume the node when the drain is ours, put the reservation back as it was.

    What somebody else has changed since is left alone, and told. Raises SlurmError when Slurm does
    not answer; then it is still owed.
    """
    done = [
        _end_job(slurm, reservation, debt),
        _resume(slurm, debt),
        _restore(slurm, reservation, debt),
    ]
    with reservation_folder(state_dir, reservation) as folder:
        if folder is not None:
            os.unlink(_FILE, dir_fd=folder)
    return [each for each in done if each]


def _end_job(slurm: Slurm, reservation: str, debt: Debt) -> str:
    """Found by its mark, should it have been submitted and its number lost."""
    ended = []
    for job in slurm.jobs():
        ours = job.job_id == debt.job or job.comment == f"{MARK} {reservation}"
        if ours and job.comment.startswith(MARK) and (is_on_nodes(job) or is_waiting(job)):
            slurm.cancel(job.job_id)
            ended.append(job.job_id)
    return f"ended job {', '.join(ended)}" if ended else ""


def _resume(slurm: Slurm, debt: Debt) -> str:
    node = slurm.node(debt.bad)
    if not node.is_drained:
        return ""
    if node.reason is None or not node.reason.text.startswith(REASON):
        said = node.reason.text[:120] if node.reason is not None else "no reason"
        return f"{debt.bad} stays drained: {said}"
    slurm.resume(debt.bad)
    return f"{debt.bad} is back in service"


def _restore(slurm: Slurm, reservation: str, debt: Debt) -> str:
    try:
        now = slurm.reservation(reservation)
    except SlurmNotFound:
        return f"reservation {reservation} is gone"
    missing = set(debt.before) - set(now.nodes)
    extra = set(now.nodes) - set(debt.before)
    if not missing and not extra:
        return ""
    if missing - {debt.bad} or len(extra) > 1:
        return f"reservation {reservation} was changed by somebody else: left alone"
    try:
        slurm.change_reservation(reservation, tuple(missing), tuple(extra), expected=now)
    except SlurmError as error:
        return f"reservation {reservation} is not as before: {error}"
    return f"reservation {reservation} has its nodes again"
