"""One spare as the screen shows it, from its node's answer and everything around."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from slurm_io.reservation.history import DONE, HistoryRecord
from slurm_io.reservation.model import DataSays, NodeSays, Pool
from slurm_io.reservation.pool import is_filler, jobs_on
from slurm_io.reservation.status import gpu_ledger
from slurm_io.reservation.status.before import before, rate_of
from slurm_io.reservation.status.estimate import Settings, estimate
from slurm_io.reservation.status.judge import judge
from slurm_io.reservation.status.likeness import drift_of, switch_of
from slurm_io.reservation.status.model import JobKind, JobOn, SpareStatus
from slurm_io.reservation.status.run import Run
from slurm_io.reservation.status.words import printable
from slurm_io.slurm.infos import JobInfo, NodeInfo
from slurm_io.slurm.topology import Topology

_RANK = {"OK": 0, "UNKNOWN": 1, "DEGRADED": 2, "FAIL": 3}
_TEXT_CHARS = 300


@dataclass(frozen=True)
class Around:
    """What is the same for all spares. `rate_bytes_s`: of copies made before, None = not known."""

    pool: Pool
    run: Run
    history: Sequence[HistoryRecord]
    ledger: gpu_ledger.Ledger
    topology: Topology | None
    no_topology: str
    settings: Settings
    rate_bytes_s: float | None
    now_s: float


def spare_status(node: str, says: NodeSays | None, around: Around) -> SpareStatus:
    """Everything about one spare."""
    info = around.pool.nodes[node]
    state, reason = judge(around.pool, node, says, around.run.content_id)
    jobs = tuple(_job(job, around) for job in jobs_on(around.pool, node))
    drift, drift_text = drift_of(says, around.run)
    same_switch, switch_text = switch_of(node, around.run, around.topology, around.no_topology)
    inside = node in around.pool.reservation.nodes
    copy = _data(says, around)
    data = says.data if says is not None else None
    lacking = before(state, _line(reason), data, copy.get("same_content"), around.rate_bytes_s)
    return SpareStatus(
        node=node,
        state=state,
        reason=_line(reason),
        membership="reservation" if inside else "standby",
        slurm_state="+".join((info.base, *info.flags)),
        slurm_reason=_reason(info),
        jobs=jobs,
        estimate=estimate(around.settings, around.history, jobs, lacking),
        same_switch=same_switch,
        switch_text=switch_text,
        drift=drift,
        drift_text=drift_text,
        **_said(says, around),
        **copy,
        **_last_swapped(node, around.history),
    )


def _said(says: NodeSays | None, around: Around) -> dict[str, Any]:
    """What the node told of itself; nothing where it told nothing."""
    if says is None or says.problem is not None:
        return {}
    found = sorted(says.health.items())
    worst = max((answer for _, (answer, _) in found), key=_RANK.__getitem__, default=None)
    return {
        "health": worst,
        "health_age_s": max(0.0, around.now_s - says.asked_at_s) if worst is not None else None,
        "health_texts": tuple(
            f"{answer} {check}: {text}" for check, (answer, text) in found if answer != "OK"
        ),
        "skipped": says.skipped,
        "unread": tuple(f"{what}: {why}" for what, why in sorted(says.unread.items())),
        "gpu_notes": gpu_ledger.notes_on(says, around.ledger, around.history),
        "strays": says.strays,
        "free_bytes": says.free_bytes,
    }


def _data(says: NodeSays | None, around: Around) -> dict[str, Any]:
    data = says.data if says is not None else None
    if data is None:
        return {}
    wanted = around.run.content_id or data.wanted_id
    known = wanted is not None and data.content_id is not None
    return {
        "content_id": data.content_id,
        "same_content": data.content_id == wanted if known else None,
        "bytes_behind": data.bytes_behind,
        "files_behind": data.files_behind,
        "eta_s": _eta_s(data, around.rate_bytes_s),
        "level": data.level if data.level >= 0 else None,
        "verified_age_s": data.age_s,
        "data_text": data.problem or "",
    }


def _eta_s(data: DataSays, usual_bytes_s: float | None) -> float | None:
    if data.bytes_behind is None:
        return None
    if data.bytes_behind == 0:
        return 0.0
    rate = rate_of(data, usual_bytes_s)
    return data.bytes_behind / rate if rate else None


def _job(job: JobInfo, around: Around) -> JobOn:
    kind: JobKind = "foreign"
    if is_filler(job, around.pool.settings):
        kind = "filler"
    elif job in around.pool.protected:
        kind = "protected"
    left_s = None
    if job.end_s is not None and not job.no_time_limit:
        left_s = max(0.0, job.end_s - around.now_s)
    user = None if job.user is None else _line(job.user)
    return JobOn(job.job_id, user, kind, left_s, job.may_requeue)


def _reason(info: NodeInfo) -> str:
    if info.reason is None:
        return ""
    by = f" (by {info.reason.user[:32]})" if info.reason.user else ""
    return _line(info.reason.text) + printable(by)


def _last_swapped(node: str, history: Iterable[HistoryRecord]) -> dict[str, Any]:
    done = [
        each
        for each in history
        if each.kind in ("swap", "drill") and each.spare == node and each.outcome == DONE
    ]
    if not done:
        return {}
    last = max(done, key=lambda each: each.at_s)
    return {"last_swapped_s": last.at_s, "last_swapped_kind": last.kind}


def _line(text: str) -> str:
    """One printable line of bearable length."""
    return printable(text[:_TEXT_CHARS])
