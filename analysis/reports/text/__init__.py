"""The report as one screen of plain text: verdict, numbers, evidence, what to do, what was missing.

Colour and the terminal's own width only when written to one (:func:`render_for_terminal`); width
96 at most, so that it reads well in a log. File names come from the job: control characters are
shown, never sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from typing import Any

from rich.console import Console
from rich.text import Text

from slurm_io.analysis.reports.base import FORMATS
from slurm_io.analysis.reports.text.findings import finding_lines
from slurm_io.analysis.reports.text.lost import (
    alignment_lines,
    checkpoint_lines,
    holder_lines,
    mount_lines,
    number_lines,
    outside_lines,
    read_lines,
)
from slurm_io.analysis.reports.text.seen import check_lines, coverage_lines, overhead_lines
from slurm_io.analysis.reports.text.words import Line, printable, wrapped

WIDTH = 96
_LEAST_WIDTH = 40
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
        console.print(Text(printable(line).rstrip(), style=style))
    return sink.getvalue()


def _lines(report: Mapping[str, Any], width: int) -> list[Line]:
    lines: list[Line] = [
        *_headline(report, width),
        ("", ""),
        *number_lines(report, width),
        *holder_lines(report, width),
        *mount_lines(report, width),
        *alignment_lines(report, width),
        *checkpoint_lines(report, width),
        *outside_lines(report, width),
        *read_lines(report, width),
        *(line for finding in report["findings"] for line in finding_lines(finding, width)),
        *check_lines(report["checks"], width),
        *coverage_lines(report["coverage"], width),
        *overhead_lines(report["overhead"], report["time"]["wall_s"], width),
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
        *wrapped(_sentence(report["verdict_reason"]), width, ""),
        *wrapped(
            f"job {job['id'] or '?'}{name}{restart}, {job['user'] or 'user ?'}, {size}, "
            f"{_state(job)}",
            width, "    ", "dim",
        ),
    ]  # fmt: skip


def _sentence(reason: str) -> str:
    return f"{reason[:1].upper()}{reason[1:]}."


def _state(job: Mapping[str, Any]) -> str:
    return f"{job['state'] or 'state unknown'}, {job['start'] or '?'} to {job['end'] or '?'}"
