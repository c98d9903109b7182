"""Jobs in JSON, of every schema from v0.0.38 (squeue of 22.05) to v0.0.45.

Never from ``scontrol show job`` as text: the job's name stands at its front and is the user's own
text, so ``-J "x UserId=root(0) JobState=RUNNING"`` could say anything. In JSON it cannot.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from slurm_io.errors import SlurmError
from slurm_io.slurm.gres import Gpus, gpus_of_tres, parse_tres
from slurm_io.slurm.hostlist import expand
from slurm_io.slurm.infos import JobInfo
from slurm_io.slurm.job_resources import shares_of
from slurm_io.slurm.json_fields import JsonFields
from slurm_io.slurm.version import records_in
from slurm_io.slurm.words import is_infinite

_FLAGS = frozenset(
    {"COMPLETING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESIZING",
     "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED", "LAUNCH_FAILED", "RESV_DEL_HOLD",
     "REVOKED", "UPDATE_DB", "RECONFIG_FAIL", "POWER_UP_NODE", "EXPEDITING"}
)  # fmt: skip
_WORD = re.compile(r"[A-Z][A-Z_]{1,31}")
_HELD = frozenset(
    {"JobHeldUser", "JobHeldAdmin", "launch_failed_requeued_held", "job_requeued_in_held_state"}
)


def jobs_from_json(answer: Mapping[str, Any]) -> tuple[JobInfo, ...]:
    """Every job of an answer. Raises SlurmError."""
    return tuple(job_from(each) for each in records_in(answer, "jobs"))


def job_from(job: Mapping[str, Any]) -> JobInfo:
    """One job. Raises SlurmError for what is no job."""
    number = JsonFields(job, "a job").count("job_id")
    if not number:
        raise SlurmError("JSON with a job that has no number")
    of = JsonFields(job, f"job {number}")
    state, flags = _state(of.names("job_state"))
    minutes = of.count("time_limit")
    return JobInfo(
        job_id=str(number),
        state=state,
        flags=flags,
        name=of.text("name"),
        user=of.name("user_name"),
        uid=of.count("user_id"),
        reason=of.name("state_reason"),
        partition=of.name("partition"),
        account=of.name("account"),
        qos=of.name("qos"),
        reservation=of.name("resv_name"),
        nodes=expand(of.text("nodes")),
        # v0.0.40 has a list where the others have a node list.
        pinned_to=expand(",".join(_whole(job, of, "required_nodes"))),
        excludes=expand(",".join(_whole(job, of, "excluded_nodes"))),
        batch=of.yes_no("batch_flag"),
        may_requeue=of.yes_no("requeue"),
        restarts=of.count("restart_cnt"),
        is_held=_held(of),
        node_count=of.count("node_count"),
        submit_s=of.epoch("submit_time"),
        eligible_s=of.epoch("eligible_time"),
        start_s=of.epoch("start_time"),
        end_s=of.epoch("end_time"),
        time_limit_s=None if minutes is None else minutes * 60,
        no_time_limit=is_infinite(job.get("time_limit")),
        features=of.text("features"),
        dependency=of.text("dependency"),
        comment=of.text("comment"),
        admin_comment=of.text("admin_comment"),
        extra=of.text("extra"),
        work_dir=of.text("current_working_directory"),
        failed_node=of.name("failed_node"),
        gpus=_gpus(of.text("tres_alloc_str") or of.text("tres_req_str")),
        shares=tuple(shares_of(job.get("job_resources")).items()),
        waiting_tasks=of.text("array_task_string"),
        array=_pair(of.count("array_job_id"), of.count("array_task_id")),
        het=_pair(of.count("het_job_id"), of.count("het_job_offset")),
    )


def _state(words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """22.05 says COMPLETING and nothing of what the job ended as."""
    upper = [each.upper() for each in words]
    if not upper or not all(_WORD.fullmatch(each) for each in upper):
        raise SlurmError(f"{', '.join(words)[:60]!a} is no state of a job")
    base = next((each for each in upper if each not in _FLAGS), upper[0])
    return base, tuple(each for each in upper if each != base)


def _whole(job: Mapping[str, Any], of: JsonFields, key: str) -> tuple[str, ...]:
    """Node lists; a text is one, whatever commas are in its brackets."""
    return of.names(key) if isinstance(job.get(key), list) else (of.text(key),)


def _gpus(tres: str) -> Gpus | None:
    """None where Slurm contradicts itself: one job's counts must not hide all the others."""
    try:
        return gpus_of_tres(parse_tres(tres)) if tres else None
    except SlurmError:
        return None


def _held(of: JsonFields) -> bool | None:
    """From v0.0.40 on it is told; before, a held job has priority 0."""
    told, priority = of.yes_no("hold"), of.count("priority")
    if told or of.text("state_reason") in _HELD:
        return True
    return priority == 0 if priority is not None else told


def _pair(job: int | None, part: int | None) -> tuple[str, int] | None:
    return (str(job), part) if job and part is not None else None
