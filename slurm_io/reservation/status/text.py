"""The spare screen as text: for terminals, mails and logs, readable at 100 columns."""

from __future__ import annotations

import io
import re
import shutil
import sys

from rich.console import Console
from rich.table import Table
from rich.text import Text

from slurm_io.reservation.status import lines
from slurm_io.reservation.status.fleet_lines import fleet_lines
from slurm_io.reservation.status.model import SpareStatus, Status
from slurm_io.reservation.status.words import printable

WIDTH = 100
_NARROWEST = 60
_HELD = "\ue000"  # for private use: `printable` lets no text bring one
_UNIT = re.compile(r"(?<=\d) (?=(?:s|min|h|days|B|kB|MB|GB|TB|%)(?:\W|$))")
_STYLES = {
    "ready": "bold green",
    "syncing": "cyan",
    "stale": "yellow",
    "busy": "yellow",
    "unhealthy": "bold red",
    "unknown": "magenta",
}


def render(status: Status, width: int = WIDTH, colour: bool = False) -> str:
    """The whole screen. Nothing in it is taken for markup: Text objects only."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=max(_NARROWEST, width),
        force_terminal=colour,
        color_system="standard" if colour else None,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
    console.print(Text(lines.headline(status), style="bold"))
    console.print(_pairs(lines.about(status)))
    if status.spares:
        console.print(_table(status))
    for spare in status.spares:
        _print_spare(console, spare)
    if status.spares:
        console.print(Text("\nwhere these times are from", style="bold"))
        console.print(_pairs(lines.bases(status)))
    console.print(Text("\nfleet", style="bold"))
    console.print(_pairs(fleet_lines(status.fleet)))
    for note in status.notes:
        console.print(_text(f"note: {note}", "yellow"))
    text = out.getvalue().replace(_HELD, " ")
    return "\n".join(line.rstrip() for line in text.splitlines())


def terminal_width() -> tuple[int, bool]:
    """Width of the terminal that will show it, and whether it is one."""
    if not sys.stdout.isatty():
        return WIDTH, False
    return shutil.get_terminal_size((WIDTH, 24)).columns, True


def _table(status: Status) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("spare", "state", "copy", "health", "swap takes"):
        table.add_column(Text(name), overflow="fold")
    for spare in status.spares:
        table.add_row(
            _text(spare.node),
            Text(spare.state, style=_STYLES.get(spare.state, "")),
            _text(lines.data_words(spare)),
            _text(lines.health_words(spare)),
            _text(lines.swap_words(spare.estimate)),
        )
    return table


def _print_spare(console: Console, spare: SpareStatus) -> None:
    title = _text(f"{spare.node} ", "bold")
    title.append(spare.state, style=_STYLES.get(spare.state, ""))
    title.append_text(_text(f": {spare.reason}", "not bold"))
    console.print()
    console.print(title)
    swap = ("swap takes", lines.swap_line(spare))
    console.print(_pairs([("runs", lines.jobs_words(spare)), swap, *lines.details(spare)]))


def _pairs(pairs: list[tuple[str, str]]) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in pairs:
        grid.add_row(_text(f"  {label}"), _text(text))
    return grid


def _text(text: str, style: str = "") -> Text:
    """Never markup, never an escape sequence; no line ends between a number and its unit."""
    return Text(_UNIT.sub(_HELD, printable(text)), style=style)
