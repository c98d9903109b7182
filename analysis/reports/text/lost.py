"""What was lost, to what, by whom and when: the numbers below the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from slurm_io.analysis.reports.text.words import Line, duration, percent, wrapped
from slurm_io.analysis.stalls import mount_line

_MOST_PASSES = 4


def number_lines(report: Mapping[str, Any], width: int) -> list[Line]:
    """The share lost, its split, and the steps."""
    idle, time = report["idle"], report["time"]
    if idle["storage"]["value"] is None:
        return [("GPU time lost to storage  not known", "bold"), *_steps_by_log(time, width)]
    storage = idle["storage"]
    lost = (
        f"GPU time lost to storage  {percent(storage['value'])}  "
        f"({percent(storage['low'])} to {percent(storage['high'])})"
    )
    base = f"  of {idle['base']}"
    split = (
        f"  data waits: storage {percent(idle['data_storage'])}, "
        f"CPU {percent(idle['data_cpu'])}, pipeline {percent(idle['data_pipeline'])}, "
        f"unknown {percent(idle['data_unknown'])}; checkpoints {percent(idle['checkpoint'])}"
    )
    steps = (
        f"  {time['steps']} steps in {duration(time['training_s'])}, step P50 "
        f"{duration(time['step_p50_s'])}, P99 {duration(time['step_p99_s'])}; start-up "
        f"{duration(time['startup_s'])}"
    )
    told = [steps] if time["step_p50_s"] is not None and time.get("source") is None else []
    return [
        *wrapped(lost, width, "  ", "bold"),
        *(line for text in (base, split, *told) for line in wrapped(text, width, "    ")),
        *_steps_by_log(time, width),
    ]


def _steps_by_log(time: Mapping[str, Any], width: int) -> list[Line]:
    if time.get("source") is None:
        return []
    steps = (
        f"  {time['steps']} steps by the {time['source']}: P50 {duration(time['step_p50_s'])}, "
        f"{time['throughput']:g} steps/s"
    )
    return wrapped(steps, width, "    ")


def holder_lines(report: Mapping[str, Any], width: int) -> list[Line]:
    """Who held a synchronous job."""
    held = report.get("holder")
    return wrapped(f"held by   {held['text']}", width, " " * 10) if held else []


def mount_lines(report: Mapping[str, Any], width: int) -> list[Line]:
    """What each mount cost, where several did."""
    text = mount_line(report.get("stalls", []))
    return wrapped(f"mounts    {text}", width, " " * 10) if text else []


def alignment_lines(report: Mapping[str, Any], width: int) -> list[Line]:
    """Whether drops of throughput are storage's, where there were drops and it was tested."""
    told = report.get("alignment")
    if not told or told["state"] == "untested":
        return []
    return wrapped(f"drops     {told['text']}", width, " " * 10)


def checkpoint_lines(report: Mapping[str, Any], width: int) -> list[Line]:
    """What saves took and disturbed, unless a finding tells of it already."""
    told = report.get("checkpoints")
    if not told or any(each["rule"] == "F04" for each in report["findings"]):
        return []
    return [
        line
        for place, text in enumerate(told["lines"])
        for line in wrapped(f"{'' if place else 'saves':10}{text}", width, " " * 10)
    ]


def outside_lines(report: Mapping[str, Any], width: int) -> list[Line]:
    """What ranks and workers waited for, where nobody timed a batch."""
    seen = report.get("outside")
    if not seen or not seen["seen"]:
        return []
    head = "Seen from outside: what they waited for, which is not what training lost"
    lines: list[Line] = [("", ""), *wrapped(head, width, "", "bold")]
    for one in seen["seen"]:
        what = f"{one['role']}{'s' * (one['processes'] != 1)}"
        shares = ", ".join(f"{name} {percent(share)}" for name, share in one["shares"].items())
        mounts = ", ".join(
            f"{each['mount']} ({each['fstype'] or '?'}) {percent(each['share'])}"
            for each in one["mounts"]
        )
        text = f"{one['processes']} {what}: {shares} of {one['samples']} samples"
        lines += wrapped(text + (f"; storage: {mounts}" if mounts else ""), width, " " * 10)
    return lines


def read_lines(report: Mapping[str, Any], width: int) -> list[Line]:
    """What the passes over the data read, and from where; of many the first ones and the last."""
    reads = report.get("reads")
    if not reads:
        return []
    texts = [each["text"] for each in reads["slices"]]
    most = _MOST_PASSES if reads["by"] == "epoch" else 2
    shown = texts if len(texts) <= most else [*texts[: most - 1], texts[-1]]
    if reads["contrast"]["agrees"] is not None:
        shown.append(reads["contrast"]["text"])
    lines: list[Line] = [("", "")]
    for place, text in enumerate(shown):
        lines += wrapped(f"{'' if place else 'reads':10}{text}", width, " " * 12)
    return lines
