"""The report as one screen of plain text: verdict, numbers, evidence, what to do, what was missing.

Colour and the terminal's own width only when written to one (:func:`render_for_terminal`); width
96 at most, so that it reads well in a log. File names come from the job: control characters are
shown, never sent.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from io import StringIO
from typing import Any

from rich.console import Console
from rich.text import Text

from slurm_io.analysis.reports.base import FORMATS
from slurm_io.analysis.stalls import mount_line
from slurm_io.incidents.library import incidents

WIDTH = 96
_LEAST_WIDTH = 40
_SHORT_S = 10.0  # starting up is most of what the sampler costs in a shorter run
_VERDICTS = {
    "storage": ("STORAGE", "GPUs waited for reads from storage", "red"),
    "checkpoint": ("CHECKPOINT", "training stood still while checkpoints were written", "red"),
    "cpu-prep": ("CPU PREP", "GPUs waited for batches to be prepared; storage is not the cause",
                 "yellow"),
    "pipeline": ("PIPELINE", "GPUs waited for the loader's own machinery", "yellow"),
    "not-storage": ("NOT STORAGE", "time was lost, and not to storage", "yellow"),
    "healthy": ("HEALTHY", "storage did not slow this job down", "green"),
    "not-proven": ("NOT PROVEN", "no cause can be named", "yellow"),
}  # fmt: skip
_MAX_MISSING = 6
_MAX_CHECKS = 8
_MOST_PASSES = 4
_TOLD_HOURS = 0.01  # of GPU time: less is not worth a line


@FORMATS.register("text")
def render(report: Mapping[str, Any]) -> str:
    """Plain text, no escape sequences."""
    return render_text(report, WIDTH, colour=False)


def render_for_terminal(
    report: Mapping[str, Any], columns: int, environment: Mapping[str, str]
) -> str:
    """As wide as the terminal, and in colour unless it has none or NO_COLOR is set."""
    plain = bool(environment.get("NO_COLOR")) or environment.get("TERM", "dumb") == "dumb"
    return render_text(report, max(_LEAST_WIDTH, min(columns, WIDTH)), colour=not plain)


def render_text(report: Mapping[str, Any], width: int, colour: bool) -> str:
    """As :func:`render`, `width` columns wide, with colours for a terminal if asked."""
    sink = StringIO()
    console = Console(
        file=sink, width=width, force_terminal=colour, no_color=not colour, highlight=False,
        color_system="standard" if colour else None, emoji=False, markup=False, soft_wrap=True,
        legacy_windows=False,
    )  # fmt: skip
    for line, style in _lines(report, width):
        console.print(Text(_printable(line).rstrip(), style=style))
    return sink.getvalue()


Line = tuple[str, str]


def _lines(report: Mapping[str, Any], width: int) -> list[Line]:
    lines: list[Line] = [
        *_headline(report, width),
        ("", ""),
        *_numbers(report, width),
        *_holder(report, width),
        *_mounts(report, width),
        *_alignment(report, width),
        *_checkpoints(report, width),
        *_outside(report, width),
        *_reads(report, width),
        *(line for finding in report["findings"] for line in _finding(finding, width)),
        *_checks(report["checks"], width),
        *_coverage(report["coverage"], width),
        *_overhead(report["overhead"], report["time"]["wall_s"], width),
    ]
    return lines


def _headline(report: Mapping[str, Any], width: int) -> list[Line]:
    word, meaning, colour = _VERDICTS[report["verdict"]]
    job = report["job"]
    name = f" ({job['name']})" if job["name"] else ""
    restart = f", restart {job['restart']}" if job["restart"] else ""
    nodes = len(job["nodes"])
    size = f"{nodes} node{'s' * (nodes != 1)}, {job['ranks']} rank{'s' * (job['ranks'] != 1)}"
    return [
        (f"slurm-io: {word} - {meaning}", f"bold {colour}"),
        *_wrapped(_sentence(report["verdict_reason"]), width, ""),
        *_wrapped(
            f"job {job['id']}{name}{restart}, {job['user']}, {size}, {_state(job)}",
            width, "    ", "dim",
        ),
    ]  # fmt: skip


def _sentence(reason: str) -> str:
    return f"{reason[:1].upper()}{reason[1:]}."


def _state(job: Mapping[str, Any]) -> str:
    return f"{job['state'] or 'state unknown'}, {job['start'] or '?'} to {job['end'] or '?'}"


def _numbers(report: Mapping[str, Any], width: int) -> list[Line]:
    idle, time = report["idle"], report["time"]
    if idle["storage"]["value"] is None:
        return [("GPU time lost to storage  not known", "bold"), *_steps_by_log(time, width)]
    storage = idle["storage"]
    lost = (
        f"GPU time lost to storage  {_percent(storage['value'])}  "
        f"({_percent(storage['low'])} to {_percent(storage['high'])})"
    )
    base = f"  of {idle['base']}"
    split = (
        f"  data waits: storage {_percent(idle['data_storage'])}, "
        f"CPU {_percent(idle['data_cpu'])}, pipeline {_percent(idle['data_pipeline'])}, "
        f"unknown {_percent(idle['data_unknown'])}; checkpoints {_percent(idle['checkpoint'])}"
    )
    steps = (
        f"  {time['steps']} steps in {_duration(time['training_s'])}, step P50 "
        f"{_duration(time['step_p50_s'])}, P99 {_duration(time['step_p99_s'])}; start-up "
        f"{_duration(time['startup_s'])}"
    )
    told = [steps] if time["step_p50_s"] is not None and time.get("source") is None else []
    return [
        *_wrapped(lost, width, "  ", "bold"),
        *(line for text in (base, split, *told) for line in _wrapped(text, width, "    ")),
        *_steps_by_log(time, width),
    ]


def _steps_by_log(time: Mapping[str, Any], width: int) -> list[Line]:
    if time.get("source") is None:
        return []
    steps = (
        f"  {time['steps']} steps by the {time['source']}: P50 {_duration(time['step_p50_s'])}, "
        f"{time['throughput']:g} steps/s"
    )
    return _wrapped(steps, width, "    ")


def _holder(report: Mapping[str, Any], width: int) -> list[Line]:
    """Who held a synchronous job."""
    held = report.get("holder")
    return _wrapped(f"held by   {held['text']}", width, " " * 10) if held else []


def _mounts(report: Mapping[str, Any], width: int) -> list[Line]:
    """What each mount cost, where several did."""
    text = mount_line(report.get("stalls", []))
    return _wrapped(f"mounts    {text}", width, " " * 10) if text else []


def _alignment(report: Mapping[str, Any], width: int) -> list[Line]:
    """Whether drops of throughput are storage's, where there were drops and it was tested."""
    told = report.get("alignment")
    if not told or told["state"] == "untested":
        return []
    return _wrapped(f"drops     {told['text']}", width, " " * 10)


def _checkpoints(report: Mapping[str, Any], width: int) -> list[Line]:
    """What saves took and disturbed, unless a finding tells of it already."""
    told = report.get("checkpoints")
    if not told or any(each["rule"] == "F04" for each in report["findings"]):
        return []
    return [
        line
        for place, text in enumerate(told["lines"])
        for line in _wrapped(f"{'' if place else 'saves':10}{text}", width, " " * 10)
    ]


def _outside(report: Mapping[str, Any], width: int) -> list[Line]:
    """What ranks and workers waited for, where nobody timed a batch."""
    seen = report.get("outside")
    if not seen or not seen["seen"]:
        return []
    head = "Seen from outside: what they waited for, which is not what training lost"
    lines: list[Line] = [("", ""), *_wrapped(head, width, "", "bold")]
    for one in seen["seen"]:
        what = f"{one['role']}{'s' * (one['processes'] != 1)}"
        shares = ", ".join(f"{name} {_percent(share)}" for name, share in one["shares"].items())
        mounts = ", ".join(
            f"{each['mount']} ({each['fstype'] or '?'}) {_percent(each['share'])}"
            for each in one["mounts"]
        )
        text = f"{one['processes']} {what}: {shares} of {one['samples']} samples"
        lines += _wrapped(text + (f"; storage: {mounts}" if mounts else ""), width, " " * 10)
    return lines


def _reads(report: Mapping[str, Any], width: int) -> list[Line]:
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
        lines += _wrapped(f"{'' if place else 'reads':10}{text}", width, " " * 12)
    return lines


def _finding(finding: Mapping[str, Any], width: int) -> list[Line]:
    value = finding["gpu_hours"]
    worth = f", {value:.2f} GPU hours" if value is not None and value >= 0.005 else ""
    cost = f", {finding['cost']:.2f} USD" if finding["cost"] is not None else ""
    head = f"{finding['rule']} {finding['title']}  [{finding['confidence']}{worth}{cost}]"
    lines: list[Line] = [("", ""), *_wrapped(head, width, "", "bold")]
    place = _place(finding["where"])
    if place:
        lines += _wrapped(f"where     {place}", width, " " * 10)
    for evidence in finding["evidence"]:
        span = f", {evidence['from']} to {evidence['to']}" if evidence["from"] else ""
        lines += _wrapped(f"evidence  {evidence['text']}{span}", width, " " * 10)
    if "worth" in finding and value >= _TOLD_HOURS:
        lines += _wrapped(f"worth     {finding['worth']['text']}", width, " " * 10)
    lines += _wrapped(f"do        {finding['remedy']}", width, " " * 10, "bold")
    # A command is never wrapped: it is there to be copied.
    lines += [(f"          $ {command}", "") for command in finding["commands"]]
    return lines + _similar(finding.get("similar", []), width)


def _similar(ids: list[str], width: int) -> list[Line]:
    """The public incident most like it; a report of another version may name unknown ones."""
    titles = {one.id: one.title for one in incidents()}
    first = next((each for each in ids if each in titles), None)
    if first is None:
        return []
    return _wrapped(f"similar   {first}: {titles[first]}", width, " " * 10, "dim")


def _place(where: Mapping[str, Any]) -> str:
    parts = []
    if where["mounts"]:
        parts.append(f"mount {', '.join(where['mounts'])}")
    if where["files"]:
        parts.append(f"files such as {where['files'][0]}")
    if where["ranks"]:
        parts.append(f"rank {_some(where['ranks'])}")
    if where["nodes"]:
        parts.append(f"node {_some(where['nodes'])}")
    return "; ".join(parts)


def _some(things: list[Any]) -> str:
    shown = ", ".join(str(thing) for thing in things[:8])
    return shown if len(things) <= 8 else f"{shown} and {len(things) - 8} more"


def _checks(checks: list[Mapping[str, Any]], width: int) -> list[Line]:
    """One line for all that is well, one for each thing that is not."""
    if not checks:
        return []
    odd = [each for each in checks if each["answer"] != "OK"]
    well = sum(each["node_count"] for each in checks) - sum(each["node_count"] for each in odd)
    lines: list[Line] = [("", "")]
    if well:
        lines.append((f"checks    {well} OK", ""))
    for each in odd[:_MAX_CHECKS]:
        text = f"checks    {each['answer']} {each['check']} on {_on(each)}: {_what(each)}"
        lines += _wrapped(text, width, " " * 10, "bold" if each["answer"] == "FAIL" else "")
    more = len(odd) - _MAX_CHECKS
    return [*lines, (f"          and {more} more (see the JSON report)", "")] if more > 0 else lines


def _on(check: Mapping[str, Any]) -> str:
    return _some([*check["nodes"], *([""] * (check["node_count"] - len(check["nodes"])))])


def _what(check: Mapping[str, Any]) -> str:
    subject, text = check["subject"], check["text"]
    return f"{subject}: {text}" if subject and subject not in text else str(text)


def _coverage(seen: Mapping[str, Any], width: int) -> list[Line]:
    states = ", ".join(f"{name} {seen[name]}" for name in ("hook", "waits", "gpu", "stacks"))
    expected = max(len(seen["nodes_expected"]), len(seen["nodes_seen"]))
    processes = (
        f"seen      nodes {len(seen['nodes_seen'])} of {expected}, ranks {seen['ranks_seen']}, "
        f"workers {_or_unknown(seen['workers_seen'])}; {states}"
    )
    lines: list[Line] = [("", ""), *_wrapped(processes, width, " " * 10)]
    if seen.get("gpu_side"):
        lines += _wrapped(f"gpu side  {seen['gpu_side']['text']}", width, " " * 10)
    for text in _log_texts(seen.get("log")):
        lines += _wrapped(f"log       {text}", width, " " * 10)
    for text in _log_texts(seen.get("stack_check")):
        lines += _wrapped(f"stacks    {text}", width, " " * 10)
    missing = _by_reason(seen["missing"])
    for reason, sources in list(missing.items())[:_MAX_MISSING]:
        lines += _wrapped(f"not seen  {_some(sources)}: {reason}", width, " " * 10)
    more = len(missing) - _MAX_MISSING
    return [*lines, (f"          and {more} more (see the JSON report)", "")] if more > 0 else lines


def _log_texts(log: Mapping[str, Any] | None) -> list[str]:
    """What another source than the hook says, and a warning where the hook does not agree."""
    if log is None:
        return []
    return [log["text"], *([log["note"]] if log["note"] else [])]


def _by_reason(missing: list[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Reason -> all sources it holds for: three rules without batches are one line."""
    grouped: dict[str, list[str]] = {}
    for one in missing:
        grouped.setdefault(one["reason"], []).append(one["source"])
    return grouped


def _overhead(cost: Mapping[str, Any], wall_s: float | None, width: int) -> list[Line]:
    if cost["cpu_s"] is None:
        return []
    tells = cost["cpu_share"] is not None and (wall_s is None or wall_s >= _SHORT_S)
    share = f" ({_percent(cost['cpu_share'], 2)} of a core)" if tells else ""
    memory = f", {cost['rss_mb']:.0f} MiB" if cost["rss_mb"] is not None else ""
    volume = f", {cost['bytes'] / 1e6:.1f} MB written" if cost["bytes"] is not None else ""
    text = f"own cost  {cost['cpu_s']:.1f} s CPU{share}{memory}{volume}"
    return _wrapped(text, width, " " * 10, "dim")


def _wrapped(text: str, width: int, indent: str, style: str = "") -> list[Line]:
    wrapper = textwrap.TextWrapper(
        width=width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return [(line, style) for line in wrapper.wrap(_printable(text))]


def _printable(text: str) -> str:
    """Control and format characters as ``\\x1b``: a file name must not drive the terminal."""
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def _percent(share: float | None, digits: int = 1) -> str:
    return "?" if share is None else f"{share * 100:.{digits}f}%"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _or_unknown(value: object) -> str:
    return "?" if value is None else str(value)
