"""The two calls the rest of the house needs: analyse a store, and write the reports into it."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import Any

from slurm_io import config
from slurm_io.analysis.inputs import StoreView
from slurm_io.analysis.report import build_report
from slurm_io.analysis.reports.base import FORMATS
from slurm_io.analysis.thresholds import Thresholds, of_config
from slurm_io.errors import SlurmIoError
from slurm_io.store.reader import open_job


def analyse(path: Path, thresholds: Thresholds | None = None) -> dict[str, Any]:
    """The report object (schema 1, DESIGN 11) of the job store at `path`.

    Raises:
        StoreError: there is no readable job store at `path`.
    """
    return analyse_store(open_job(path), thresholds)


def analyse_store(store: StoreView, thresholds: Thresholds | None = None) -> dict[str, Any]:
    """As :func:`analyse`, for a store that is open already."""
    return build_report(store, thresholds or Thresholds())


def write_reports(store_dir: Path, thresholds: Thresholds | None = None) -> dict[str, Any]:
    """Analyse `store_dir` and put ``report.json`` and ``report.txt`` into it; returns the report.

    Each file appears whole or not at all (written aside, then renamed).

    Raises:
        StoreError: there is no readable job store at `store_dir`.
        OSError: the folder cannot be written.
    """
    report = analyse(store_dir, thresholds)
    write_atomically(store_dir / "report.json", FORMATS.get("json")(report))
    write_atomically(store_dir / "report.txt", FORMATS.get("text")(report))
    return report


def write_atomically(target: Path, text: str) -> None:
    """Replace `target` by `text` in one step, with the rights an ordinary new file gets.

    A device or pipe (/dev/stdout, /dev/null) is written to and never replaced; of a link the link
    is replaced, never what it leads to: root may be asked to write where a user put it.
    """
    if not _can_be_replaced(target):
        with target.open("w", encoding="utf-8") as stream:
            stream.write(text)
        return
    aside = target.with_name(f".{target.name}.{os.getpid()}-{os.urandom(4).hex()}")
    try:
        with aside.open("x", encoding="utf-8") as stream:
            stream.write(text)
        aside.replace(target)
    except OSError:
        aside.unlink(missing_ok=True)
        raise


def _can_be_replaced(target: Path) -> bool:
    if target.absolute().parent in (Path("/dev"), Path("/dev/fd")):
        return False
    try:
        mode = target.lstat().st_mode
    except FileNotFoundError:
        return True
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode)


def main(arguments: list[str]) -> int:
    """``python -m slurm_io.analysis.api STORE``: :func:`write_reports` in a process of its own."""
    try:
        write_reports(Path(arguments[0]), of_config(config.load()))
    except (SlurmIoError, OSError) as error:
        print(f"slurm-io: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
