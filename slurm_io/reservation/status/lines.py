"""The words of the spare screen: the same for the text and for the page."""

from __future__ import annotations

import time
from shlex import quote

from slurm_io.reservation.status.model import Estimate, JobOn, Phase, SpareStatus, Status
from slurm_io.reservation.status.words import age, between, short_id, size, some
from slurm_io.slurm.hostlist import compress

PHASE_WORDS = {
    "mend": "mend the node",
    "stage": "bring its copy up",
    "detect": "detect",
    "decide": "decide",
    "clear": "clear the spare",
    "reservation": "reservation",
    "requeue": "requeue delay",
    "prolog": "prolog",
    "init": "start and init",
    "load": "load checkpoint",
    "first_step": "first step",
}
_LISTED = 8


def headline(status: Status) -> str:
    """One line: are there enough."""
    fleet = status.fleet
    needed = "?" if fleet.needed is None else str(fleet.needed)
    unknown = sum(spare.state == "unknown" for spare in status.spares)
    untold = f", {unknown} not known" if unknown else ""
    promised = f" (waiting jobs will take {fleet.promised} nodes)" if fleet.promised else ""
    return (
        f"{fleet.ready} of {fleet.spares} spares ready{untold}{promised}, {fleet.wanted} wanted, "
        f"{needed} needed for 99 %"
    )


def about(status: Status) -> list[tuple[str, str]]:
    """What the reservation is, as (label, text)."""
    ends = "end unknown" if status.ends_in_s is None else f"ends in {age(status.ends_in_s)}"
    active = {True: "active", False: "not active now", None: "activity unknown"}[status.is_active]
    lines = [("reservation", f"{status.reservation}, {active}, {ends}")]
    if status.dataset:
        version = status.content_id or "not known"
        lines.append(("dataset", status.dataset.partition("@")[0]))
        lines.append(("run's version", f"{version} ({status.content_base})"))
    stale = [spare.node for spare in status.spares if spare.state == "stale"]
    if stale and status.dataset:
        name = status.dataset.partition("@")[0]
        where = f"--to {quote(compress(stale))} --reservation {status.reservation}"
        lines.append(("do", f"slurm-io dataset stage {name} {where}"))
    lines.append(("looked at", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(status.at_s))))
    return lines


def data_words(spare: SpareStatus) -> str:
    """``same version, level 4, 2 h ago``."""
    if spare.content_id is None and spare.level is None:
        return "no copy" if spare.state == "stale" else "?"
    same = {True: "same version", False: f"{short_id(spare.content_id)}, another version",
            None: short_id(spare.content_id)}[spare.same_content]  # fmt: skip
    level = "never verified" if spare.level is None else f"level {spare.level}"
    when = "" if spare.verified_age_s is None else f", {age(spare.verified_age_s)} ago"
    return f"{same}, {level}{when}"


def behind_words(spare: SpareStatus) -> str:
    """Bytes behind and how long they take."""
    if spare.bytes_behind is None:
        return "?"
    if spare.bytes_behind == 0:
        return "nothing"
    eta = "no rate known" if spare.eta_s is None else f"about {age(spare.eta_s)}"
    least = "at least " if spare.same_content is False else ""
    return f"{least}{size(spare.bytes_behind)} in {spare.files_behind} files, {eta}"


def health_words(spare: SpareStatus) -> str:
    """``OK, 3 s ago``."""
    if spare.health is None:
        return "?"
    skipped = f", {len(spare.skipped)} skipped" if spare.skipped else ""
    return f"{spare.health}, {age(spare.health_age_s)} ago{skipped}"


def job_words(job: JobOn) -> str:
    """``8 of ada (filler), 3 h left, can be requeued``; its name is the user's and not shown."""
    left = "no known end" if job.left_s is None else f"{age(job.left_s)} left"
    requeue = {True: "can be requeued", False: "cannot be requeued", None: "requeue unknown"}
    return f"{job.job_id} of {job.user or '?'} ({job.kind}), {left}, {requeue[job.may_requeue]}"


def jobs_words(spare: SpareStatus) -> str:
    """All jobs there."""
    return some([job_words(job) for job in spare.jobs], "; ") if spare.jobs else "nothing"


def swap_words(estimate: Estimate) -> str:
    """The whole time."""
    return between(estimate.low_s, estimate.high_s)


def swap_line(spare: SpareStatus) -> str:
    """All phases in a line; a base only where a phase cannot be done."""
    if spare.state == "unknown":  # its title says why
        return "?"
    parts = []
    for phase in spare.estimate.phases:
        name, took, base = phase_words(phase)
        parts.append(f"{name} {took}" if phase.high_s is not None else f"{name} ? ({base})")
    return f"{swap_words(spare.estimate)}: {', '.join(parts)}" if parts else "?"


def bases(status: Status) -> list[tuple[str, str]]:
    """Where the times of the phases are from, each once."""
    found: dict[str, list[str]] = {}
    for spare in status.spares:
        for phase in spare.estimate.phases:
            told = found.setdefault(PHASE_WORDS.get(phase.name, phase.name), [])
            if phase.high_s is not None and phase.base not in told:
                told.append(phase.base)
    note = next((spare.estimate.note for spare in status.spares if spare.estimate.note), "")
    lines = [(name, some(told, "; ")) for name, told in found.items() if told]
    return [*lines, ("note", note)] if note else lines


def phase_words(phase: Phase) -> tuple[str, str, str]:
    """Name, time, base."""
    return PHASE_WORDS.get(phase.name, phase.name), between(phase.low_s, phase.high_s), phase.base


def details(spare: SpareStatus) -> list[tuple[str, str]]:
    """Everything else about a spare, as (label, text); empty things are left out."""
    slurm = f"{spare.slurm_state}, {_member(spare)}"
    lines = [("Slurm", slurm + (f", reason: {spare.slurm_reason}" if spare.slurm_reason else ""))]
    lines += [("missing", behind_words(spare))] if spare.bytes_behind != 0 else []
    lines += [("copy", spare.data_text)] if spare.data_text else []
    lines += [("health", text) for text in spare.health_texts]
    lines += [("skipped", text) for text in spare.skipped[:_LISTED]]
    lines += [("unread", text) for text in spare.unread[:_LISTED]]
    lines.append(("network", f"{_switch(spare)} ({spare.switch_text})"))
    lines.append(("software", drift_words(spare)))
    lines += [("GPU", note) for note in spare.gpu_notes[:_LISTED]]
    if spare.strays:
        lines.append(("strays", "processes of users without a job: " + some(spare.strays, ", ")))
    lines.append(("free", size(spare.free_bytes)))
    lines.append(("last swapped in", last_words(spare)))
    return lines


def drift_words(spare: SpareStatus) -> str:
    """How it differs from the run."""
    if not spare.drift:
        alike = spare.drift_text.startswith("compared")
        return f"as the run's ({spare.drift_text})" if alike else spare.drift_text
    differs = some([f"{one.what} {one.spare}, the run {one.run}" for one in spare.drift], "; ")
    return f"{differs} ({spare.drift_text})"


def last_words(spare: SpareStatus) -> str:
    """When it last took over."""
    if spare.last_swapped_s is None:
        return "never, as far as the history reaches"
    day = time.strftime("%Y-%m-%d", time.localtime(spare.last_swapped_s))
    return f"{day} ({spare.last_swapped_kind})"


def _member(spare: SpareStatus) -> str:
    inside = spare.membership == "reservation"
    return "in the reservation" if inside else "standby, outside the reservation"


def _switch(spare: SpareStatus) -> str:
    words = {True: "same switch as the run", False: "another switch than the run",
             None: "switch unknown"}  # fmt: skip
    return words[spare.same_switch]
