"""After an attach: the report of what it saw, on stdout and in the store."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from slurm_io import config
from slurm_io.errors import StoreError
from slurm_io.runner.attach.place import AttachOptions
from slurm_io.runner.attach.survey import Survey
from slurm_io.runner.attach.watching import release_signals
from slurm_io.store.compacted import is_worthwhile
from slurm_io.store.markers import arrived


def tell(text: str) -> None:
    """One line for the person in front of us, beside the report on stdout."""
    print(f"slurm-io: {text}", file=sys.stderr, flush=True)


def announce(what: str, seen: Survey, options: AttachOptions) -> None:
    """Say that it begins, and what was found."""
    members, ranks = len(seen.members), len(seen.ranks)
    found = f"{members} process{'es' * (members != 1)}, {ranks} rank{'s' * (ranks != 1)}"
    along = "; its hook is read along" if seen.ring_dir and not options.load_hook else ""
    tell(f"watching {what} for {options.duration_s:g} s: {found}{along} (Ctrl-C ends it early)")


def conclude(
    store: Path, options: AttachOptions, notices: Iterable[str] = (), *, compacts: bool = True
) -> None:
    """The end of every attach: what went wrong, the report, where it lies.

    Signals are let through again: a second Ctrl-C now ends the analysis; the data is safe.
    """
    release_signals()
    for notice in notices:
        tell(notice)
    report_on(store, options.as_json)
    if compacts and is_worthwhile(store):
        from slurm_io.store.compact import compact

        compact(store)
    tell(f"the report is in {store}/report.txt, `slurm-io report {store}` shows it again")


def report_on(store: Path, as_json: bool) -> dict[str, Any]:
    """Analyse the store, put the reports into it, print one. Raises StoreError, OSError."""
    # Imported here: polars and pyarrow take 0.3 s and have no place in a process that waits.
    from slurm_io.analysis.api import write_reports
    from slurm_io.analysis.thresholds import of_config

    report = write_reports(store, of_config(config.load()))
    print_report(report, as_json)
    return report


def print_report(report: dict[str, Any], as_json: bool) -> None:
    """On stdout; in colour and as wide as the terminal where it is one."""
    from slurm_io.analysis.reports.base import FORMATS
    from slurm_io.analysis.reports.text import render_for_terminal

    if as_json:
        text = FORMATS.get("json")(report)
    elif sys.stdout.isatty():
        text = render_for_terminal(report, shutil.get_terminal_size().columns, os.environ)
    else:
        text = FORMATS.get("text")(report)
    sys.stdout.write(text)
    sys.stdout.flush()


def missing_nodes(store: Path, expected: Iterable[str]) -> tuple[str, ...]:
    """The nodes that delivered nothing, in the order given."""
    there = arrived(store)
    return tuple(node for node in expected if node not in there)


def why_not(spool: Path) -> StoreError:
    """The error of a sampler that failed: the last line that it left in its log."""
    try:
        lines = (spool / "sampler.log").read_text(errors="replace").strip().splitlines()
    except OSError:
        lines = []
    said = lines[-1].removeprefix("slurm_io.sampler: ")[:300] if lines else "it left no message"
    return StoreError(f"the sampler failed: {said}")
