"""Whether one spare could take over now: its state, and why."""

from __future__ import annotations

from slurm_io.reservation.model import DataSays, NodeSays, Pool, SpareState
from slurm_io.reservation.pool import is_filler, jobs_on
from slurm_io.reservation.status.words import age, size
from slurm_io.reservation.watch.signs import sign_of

_SYNCING = frozenset({"copying", "copied", "verifying"})


def judge(
    pool: Pool, node: str, says: NodeSays | None, wanted_id: str | None
) -> tuple[SpareState, str]:
    """The first that holds of: unhealthy, unknown, syncing, stale, busy, ready.

    `wanted_id`: the run's version, None where nobody could tell; then the node's own view counts.
    """
    sign = sign_of(pool.nodes[node], {})
    if sign is not None:
        return "unhealthy", sign.text
    if says is None:
        return "unknown", "it was not asked"
    if says.problem is not None:
        return "unknown", says.problem
    failed = [f"{check}: {text}" for check, (answer, text) in _sorted(says) if answer == "FAIL"]
    if failed:
        return "unhealthy", failed[0]
    if pool.settings.dataset:
        judged = judge_data(says.data, wanted_id, says.unread.get("data"))
        if judged is not None:
            return judged
    return _judge_jobs(pool, node, says)


def judge_data(
    data: DataSays | None, wanted_id: str | None, unread: str | None
) -> tuple[SpareState, str] | None:
    """Why the copy will not do now; None when it will."""
    if data is None:
        return "unknown", f"its copy could not be looked at: {unread or 'no word of it'}"
    if data.state in _SYNCING:
        missing = "" if data.bytes_behind is None else f", {size(data.bytes_behind)} missing"
        return "syncing", f"its copy is {data.state}{missing}"
    if data.state == "absent":
        return "stale", "it has no verified copy of the dataset"
    wanted = wanted_id or data.wanted_id
    if wanted is not None and data.content_id != wanted:
        return "stale", f"it holds version {data.content_id}, the run {wanted}"
    if data.state != "ready":
        return "stale", f"its copy is {data.state}" + (f": {data.problem}" if data.problem else "")
    if data.problem is not None:
        return "stale", data.problem
    if data.bytes_behind:
        return "stale", f"{size(data.bytes_behind)} in {data.files_behind} files are missing"
    if data.level < 1:
        return "stale", "its copy was never verified"
    return None


def _judge_jobs(pool: Pool, node: str, says: NodeSays) -> tuple[SpareState, str]:
    holding = jobs_on(pool, node)
    for job in holding:
        if not is_filler(job, pool.settings):
            return "busy", f"job {job.job_id} of {job.user or '?'} runs there and does not give way"
    works = f"; filler job {holding[0].job_id} gives way" if holding else ""
    if says.data is None:
        return "ready", "well" + works
    verified = "" if says.data.age_s is None else f", {age(says.data.age_s)} ago"
    return "ready", f"verified to level {says.data.level}{verified}{works}"


def _sorted(says: NodeSays) -> list[tuple[str, tuple[str, str]]]:
    return sorted(says.health.items())
