"""Work that gives way, kept running on ready spares: an idle spare costs more than it saves.

The site's own script runs as its own account (never root), one job for each spare, only where no
protected job is about to start. A job that ends at once is not submitted again at once.
"""

from __future__ import annotations

from slurm_io.reservation.model import Pool
from slurm_io.reservation.pool import is_waiting, jobs_on
from slurm_io.reservation.watch.memory import Filler, Memory
from slurm_io.reservation.watch.model import Fill, Look, StopFiller, Tell, Wish
from slurm_io.reservation.watch.upkeep import is_spare_now
from slurm_io.slurm.infos import JobInfo

MARK = "slurm_io-filler"
"""Comment of each filler job. No ``slurm-io:``, which would be a request to the prolog."""
AT_ONCE_S = 60.0
FIRST_PAUSE_S = 300.0
LONGEST_PAUSE_S = 86400.0


def fillings(look: Look, memory: Memory) -> list[Wish]:
    """Fillers to submit and fillers to stop."""
    settings = look.pool.settings
    if not settings.filler_script:
        return []
    if not (settings.filler_qos or settings.filler_partitions):
        text = "filler_script is not run: without filler_qos or filler_partitions its jobs would be"
        return [Tell("filler unmarked", f"{text} protected ones", person=True)]
    wishes: list[Wish] = []
    waits = any(is_waiting(job) for job in look.pool.protected)
    for node in look.spares:
        ours = own_filler(look.pool, node)
        _notice_end(node, ours, look, memory)
        if ours is not None:
            wishes += _harm(node, ours, look, memory)
        elif not waits and _may_be_filled(node, look, memory):
            wishes.append(Fill(node))
    return wishes


def own_filler(pool: Pool, node: str) -> JobInfo | None:
    """The filler job that we gave this node, running or waiting."""
    for job in pool.filler:
        pinned = job.pinned_to == (node,) or node in job.nodes
        ours = job.user == pool.settings.filler_user  # anybody may write our comment
        if ours and job.comment == f"{MARK} {pool.name}" and pinned:
            return job
    return None


def _may_be_filled(node: str, look: Look, memory: Memory) -> bool:
    before = memory.fillers.get(node, Filler())
    return (
        node in look.pool.reservation.nodes
        and node not in memory.bad
        and is_spare_now(node, look, memory)
        and not jobs_on(look.pool, node)
        and look.at_s >= before.not_before_s
        and not any(task.pid and key.endswith(f" {node}") for key, task in memory.tasks.items())
    )


def _notice_end(node: str, ours: JobInfo | None, look: Look, memory: Memory) -> None:
    """A job that is gone and did not last doubles the pause before the next one."""
    before = memory.fillers.get(node)
    if before is None or not before.job_id or ours is not None:
        return
    lasted_s = look.at_s - before.submitted_s
    before.failures = before.failures + 1 if lasted_s < AT_ONCE_S else 0
    if before.failures:
        pause_s = min(FIRST_PAUSE_S * 2 ** min(before.failures - 1, 20), LONGEST_PAUSE_S)
        before.not_before_s = look.at_s + pause_s
    before.job_id = ""


def _harm(node: str, ours: JobInfo, look: Look, memory: Memory) -> list[Wish]:
    """A spare that was ready when the filler came and is not while it runs."""
    if ours.state != "RUNNING" or node not in memory.fillers:
        return []
    state = look.spares[node]
    if state not in ("stale", "unhealthy"):
        return []
    text = f"it became {state} under filler job {ours.job_id}: the job is ended, none for a day"
    return [StopFiller(node, ours.job_id, text)]
