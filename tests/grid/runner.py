"""Runs scenarios and prints the grid's table.

    python -m tests.grid.runner [NAME ...] [--only NAME] [--kind live|recorded] [--repeat N]
                                [--keep DIR] [--again] [--json]

Exit code 0 when every run of every scenario is as expected.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.grid.errors import GridError
from tests.grid.judge import Outcome
from tests.grid.live import judge_again, run_scenario
from tests.grid.missing import why_not
from tests.grid.model import Judged, Recorded, Scenario
from tests.grid.replay import replay
from tests.grid.scenarios import ALL
from tests.grid.table import HEAD, as_json, line, summary, totals

__all__ = ["HEAD", "GridError", "line", "main", "run_any", "run_scenario"]


def run_any(scenario: Judged, folder: Path) -> Outcome:
    """A live one is run, a recorded one replayed."""
    if isinstance(scenario, Recorded):
        return replay(scenario, folder)
    assert isinstance(scenario, Scenario)
    return run_scenario(scenario, folder)


def main(argv: list[str] | None = None) -> int:
    """See the module."""
    known = {scenario.name: scenario for scenario in ALL}
    parser = argparse.ArgumentParser(prog="python -m tests.grid.runner")
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenarios; default: all")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="the same")
    parser.add_argument("--kind", choices=["live", "recorded"], help="these only")
    parser.add_argument("--repeat", type=int, default=1, help="all of them so many times")
    parser.add_argument("--keep", type=Path, help="folder for what the runs leave")
    parser.add_argument("--again", action="store_true", help="judge what lies in --keep, run none")
    parser.add_argument("--json", action="store_true", help="one JSON object at the end")
    options = parser.parse_args(argv)
    names = [*options.names, *options.only]
    if unknown := sorted(set(names) - set(known)):
        parser.error(f"no scenario {', '.join(unknown)}; there are: {', '.join(known)}")
    wanted = {"live": Scenario, "recorded": Recorded, None: Judged}[options.kind]
    chosen = [one for one in ([known[name] for name in names] or ALL) if isinstance(one, wanted)]
    keep = options.keep or Path(tempfile.mkdtemp(prefix="slurm-io-grid-"))
    out = sys.stderr if options.json else sys.stdout
    if options.again and options.keep is None:
        parser.error("--again needs --keep")
    do = _judge_again if options.again else _in_folder
    return _run_all(chosen, options.repeat, keep, out, options.json, do)


def _run_all(
    chosen: Sequence[Judged],
    repeat: int,
    keep: Path,
    out: object,
    as_object: bool,
    do: Callable[[Judged, Path], Outcome],
) -> int:
    """Round by round, so that a machine's mood does not hit one scenario alone."""
    say = _Speaker(out)
    say(HEAD)
    outcomes: list[Outcome] = []
    errors, skipped = 0, 0
    for number in range(repeat):
        for scenario in chosen:
            if missing := why_not(scenario):
                skipped += 1
                say(f"{scenario.name:30} skipped: {missing}")
                continue
            try:
                outcomes.append(do(scenario, keep / f"{scenario.name}-{number}"))
            except (GridError, OSError, RuntimeError, subprocess.SubprocessError) as error:
                errors += 1
                say(f"{scenario.name:30} ERROR {error}")
                continue
            say(line(outcomes[-1]))
    counts = {**totals(outcomes, errors), "skipped": skipped}
    say(summary(counts))
    say(f"artifacts in {keep}")
    if as_object:
        print(json.dumps({"totals": counts, "runs": [as_json(one) for one in outcomes]}))
    return 1 if errors or counts["failed"] else 0


def _in_folder(scenario: Judged, folder: Path) -> Outcome:
    """Datasets are gone behind a run: all of them three times would fill a disk."""
    try:
        return run_any(scenario, folder)
    finally:
        for name in ("fast", "image-backing", "disk"):
            shutil.rmtree(folder / name, ignore_errors=True)


def _judge_again(scenario: Judged, folder: Path) -> Outcome:
    if not isinstance(scenario, Scenario):
        raise GridError("recorded ones are written anew each time")
    return judge_again(scenario, folder)


class _Speaker:
    """Prints at once, so that a long run can be watched."""

    def __init__(self, out: object) -> None:
        self._out = out

    def __call__(self, text: str) -> None:
        print(text, file=self._out, flush=True)  # type: ignore[call-overload]


if __name__ == "__main__":
    sys.exit(main())
