"""The report object, schema 1: what every format renders and other programs read.

Shares are fractions 0..1 of ``idle.base`` (``startup_share``: of start-up and training together).
Unknown is null. Times are UTC, ISO 8601. Keys that are there only when the job's own log told of
steps (docs/joblog.md): ``coverage.log``, and without a hook ``time.source``. Only where a hooked
process used CUDA: ``coverage.gpu_side`` (:mod:`.gpu_side`). Only where a job was attached to and no
hook timed a batch: ``outside``. Only where the processes' reads were counted:
``reads`` (:mod:`.read_report`). Only where the hook timed batches: ``stalls``
(:mod:`.stalls`) and ``alignment`` (:mod:`.alignment.told`). Only where checkpoints were
saved in training: ``checkpoints`` (:mod:`.checkpoints.told`). Only where ranks held one another and
lost 1 % of training and more: ``holder`` (:mod:`.holding`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurm_io.analysis.alignment.told import alignment_report
from slurm_io.analysis.asked import Asked, asked_of
from slurm_io.analysis.checkpoints.told import checkpoints_report
from slurm_io.analysis.checks import merged_checks
from slurm_io.analysis.coverage import Missing, coverage, silenced, unanswered
from slurm_io.analysis.facts import whole
from slurm_io.analysis.holding import holder_report
from slurm_io.analysis.inputs import StoreView
from slurm_io.analysis.log_check import LogCheck, check_log, time_by_log
from slurm_io.analysis.outside import is_attached, outside, ranks_told
from slurm_io.analysis.overhead import overhead
from slurm_io.analysis.picture import Picture, take_picture
from slurm_io.analysis.read_report import read_report
from slurm_io.analysis.rules.base import RULES, Answer, Finding, LostBase, ask, iso
from slurm_io.analysis.similar import mount_types, similar
from slurm_io.analysis.site_rules.folder import read_rules
from slurm_io.analysis.site_rules.judge import judge_all
from slurm_io.analysis.stalls import stalls_of
from slurm_io.analysis.thresholds import Thresholds
from slurm_io.analysis.verdict import decide
from slurm_io.analysis.worth import training_base, worth

REPORT_SCHEMA = 1
_CONFIDENCE_ORDER = ("proven", "likely", "not-proven")
_SEVERITY_ORDER = ("bad", "warn", "info")


def build_report(store: StoreView, thresholds: Thresholds) -> dict[str, Any]:
    """Measure, judge, and put together."""
    return report_of(take_picture(store, thresholds))


def report_of(picture: Picture) -> dict[str, Any]:
    """Judge what was measured, and put together."""
    store = picture.store
    answers = {name: ask(rule(), picture) for name, rule in RULES.discover().items()}
    verdict = decide(picture, answers)
    asked = asked_of(store)
    log = check_log(picture)
    seen, reads = outside(picture), read_report(picture.reads, picture.witnesses)
    limits = picture.thresholds.rules.straggler
    holder = holder_report(picture.losses, picture.causes.rows, picture.timeline, limits)
    report = {
        "schema": REPORT_SCHEMA,
        "job": _job(picture),
        "coverage": coverage(picture, answers, asked.silence, log),
        "time": _time(picture, log),
        "idle": _idle(picture),
        "verdict": verdict.word,
        "verdict_reason": verdict.reason,
        "findings": _findings(picture, answers, asked),
        "checks": merged_checks(store),
        "overhead": overhead(store),
        **_of_steps(picture),
        **_checkpoints(picture),
        **({} if holder is None else {"holder": holder}),
        **({} if seen is None else {"outside": seen}),
        **({} if reads is None else {"reads": reads}),
    }
    return _with_site_rules(report, picture, answers, asked)


def _with_site_rules(
    report: dict[str, Any], picture: Picture, answers: Mapping[str, Answer], asked: Asked
) -> dict[str, Any]:
    """The site's own rules look at the finished report; the verdict is none of theirs."""
    rules = read_rules(picture.thresholds.site.rule_dir)
    if not rules.rules and not rules.broken:
        return report
    theirs = judge_all(rules, picture, report)
    told = [*unanswered(theirs), *silenced(theirs, asked.silence)]
    told += [Missing(f"site rule {source}", why) for source, why in rules.broken]
    missing = [{"source": one.source, "reason": one.reason} for one in told]
    seen = report["coverage"]
    return {
        **report,
        "coverage": {**seen, "missing": [*seen["missing"], *missing]},
        "findings": _findings(picture, {**answers, **theirs}, asked),
    }


def _of_steps(picture: Picture) -> dict[str, Any]:
    """What needs a hook that timed batches."""
    if not picture.timeline.processes:
        return {}
    false_alarm = picture.thresholds.alignment.false_alarm
    return {
        "stalls": stalls_of(picture),
        "alignment": alignment_report(picture.alignment, false_alarm),
    }


def _checkpoints(picture: Picture) -> dict[str, Any]:
    seen = picture.checkpointing
    if seen is None:
        return {}
    return {"checkpoints": checkpoints_report(seen, picture.timeline, picture.thresholds)}


def _job(picture: Picture) -> dict[str, Any]:
    store, job = picture.store, picture.store.job
    start, end = _span(store)
    state = store.extra.get("state")
    code = store.extra.get("exit_code")
    if state is None and isinstance(code, int):
        state = "COMPLETED" if code == 0 else "FAILED"
    array = None
    if job is not None and job.array_job is not None:
        array = f"{job.array_job}_{job.array_task}"
    return {
        "id": job.job if job else None,
        "restart": job.restart if job else None,
        "array": array,
        "cluster": job.cluster if job else None,
        "user": job.user if job else None,
        "name": job.name if job else None,
        "nodes": list(job.nodes) if job and job.nodes else sorted(store.nodes),
        "ranks": len(picture.timeline.processes) + ranks_told(store),
        "gpus": picture.gpus.total,
        "start": iso(start),
        "end": iso(end),
        "state": state,
    }


def _span(store: StoreView) -> tuple[int | None, int | None]:
    """Earliest start and latest end of the nodes' samplers, UTC ns."""
    starts = [whole(view.meta.get("start_ts_ns")) for view in store.nodes.values()]
    ends = [whole(view.meta.get("end_ts_ns")) for view in store.nodes.values()]
    known_starts = [start for start in starts if start is not None]
    known_ends = [end for end in ends if end is not None]
    return min(known_starts, default=None), max(known_ends, default=None)


def _time(picture: Picture, log: LogCheck | None) -> dict[str, Any]:
    """Times of the job; of several processes the longest speaks. Without a hook the log does."""
    processes, seen = picture.timeline.processes, picture.variance
    start, end = _span(picture.store)
    training_s = picture.training_s
    trained = bool(processes)
    seen_starting = trained and not is_attached(picture.store)
    wall_s = (end - start) / 1e9 if start is not None and end is not None else None
    by_log = time_by_log(log) if log is not None and not trained else {}
    return {
        "wall_s": _rounded(wall_s) if wall_s is not None and wall_s >= 0 else None,
        "startup_s": _rounded(max(p.startup_s for p in processes)) if seen_starting else None,
        "training_s": _rounded(training_s) if trained else _training_by_stacks(picture),
        "steps": picture.steps if trained else None,
        "step_p50_s": _rounded(seen.p50_s, 6) if seen else None,
        "step_p99_s": _rounded(seen.p99_s, 6) if seen else None,
        "throughput": _rounded(picture.steps / training_s) if training_s > 0 else None,
        **by_log,
    }


def _training_by_stacks(picture: Picture) -> float | None:
    """From the first to the last look at training, where stacks stand for the hook."""
    seen = picture.by_stacks
    return None if seen is None or seen.refusal else _rounded(seen.training_s)


def _idle(picture: Picture) -> dict[str, Any]:
    losses = picture.losses
    whole = losses.startup_gpu_s + losses.base_gpu_s
    if losses.base_gpu_s <= 0:
        unknown = dict.fromkeys(
            ("data_storage", "data_cpu", "data_pipeline", "data_unknown", "checkpoint",
             "startup_share")
        )  # fmt: skip
        nothing = {"low": None, "value": None, "high": None}
        return {"base": _base(picture), "storage": nothing, **unknown}
    return {
        "base": _base(picture),
        "storage": {name: _rounded(v, 6) for name, v in picture.storage.to_dict().items()},
        "data_storage": _rounded(picture.data_storage.value, 6),
        "data_cpu": _rounded(losses.share("cpu"), 6),
        "data_pipeline": _rounded(losses.share("pipeline", "handover", "epoch"), 6),
        "data_unknown": _rounded(losses.share("unknown", "sleep"), 6),
        "checkpoint": _rounded(losses.share("ckpt"), 6),
        "startup_share": _rounded(losses.startup_gpu_s / whole, 6)
        if whole > 0 and not is_attached(picture.store) and not picture.is_hookless
        else None,
    }


def _base(picture: Picture) -> str:
    seen, expected = len(picture.store.nodes), len(picture.store.nodes_expected)
    job = picture.store.job
    is_known = picture.gpus.known or (picture.is_hookless and bool(job and job.gpus_on_node))
    notes = [] if is_known else ["one GPU per rank assumed"]
    if picture.by_stacks is not None and picture.is_hookless and picture.losses.base_gpu_s > 0:
        notes += [picture.by_stacks.text, "evaluation included"]
    if seen < expected:
        notes.append(f"of {seen} of {expected} nodes")
    return "training GPU-seconds" + (f" ({', '.join(notes)})" if notes else "")


def _findings(
    picture: Picture, answers: Mapping[str, Answer], asked: Asked
) -> list[dict[str, Any]]:
    """Fired findings that the job did not silence, the surest and dearest first."""
    found = [
        finding
        for answer in answers.values()
        for finding in answer.findings
        if finding.rule not in asked.silence
    ]
    found.sort(
        key=lambda finding: (
            _SEVERITY_ORDER.index(finding.severity),
            _CONFIDENCE_ORDER.index(finding.confidence),
            -(finding.lost_gpu_s or 0.0),
            finding.rule,
        )
    )
    price = asked.price_usd_h
    if price is None:
        price = picture.thresholds.site.price_usd_h
    training = training_base(picture, _base(picture))
    fstypes = mount_types(picture.store)
    return [_finding(finding, training, price, fstypes) for finding in found]


def _finding(
    finding: Finding, training: LostBase, price: float | None, fstypes: Mapping[str, str]
) -> dict[str, Any]:
    hours = finding.lost_gpu_s / 3600 if finding.lost_gpu_s is not None else None
    counted = worth(finding, training, price)
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "title": finding.title,
        "gpu_hours": _rounded(hours, 6) if hours is not None else None,
        "cost": _rounded(hours * price, 2) if hours is not None and price is not None else None,
        "where": {
            "nodes": list(finding.where.nodes),
            "ranks": list(finding.where.ranks),
            "mounts": list(finding.where.mounts),
            "files": list(finding.where.files),
        },
        "evidence": [
            {
                "text": one.text,
                "metric": one.metric,
                "value": _rounded(one.value, 6) if one.value is not None else None,
                "threshold": one.threshold,
                "from": one.first,
                "to": one.last,
            }
            for one in finding.evidence
        ],
        "remedy": finding.remedy,
        "commands": list(finding.commands),
        "similar": similar(finding, fstypes),
        **({} if counted is None else {"worth": counted}),
    }


def _rounded(value: float, digits: int = 3) -> float:
    return round(float(value), digits)
