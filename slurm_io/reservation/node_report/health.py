"""This node's own checks, run as a person would: ``slurm-io check --json`` in a child.

The checks belong to the prolog, which stands beside this room; a command line is the door between.
Its answer is read as strictly as anything that comes from another process.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from slurm_io.errors import HostError
from slurm_io.host.run import run

_LIMIT_BYTES = 1 << 20
_TEXT_CHARS = 300
_NOTHING = "nothing to check"  # the node has no such thing: nobody skipped anything
_ANSWERS = ("OK", "DEGRADED", "FAIL", "UNKNOWN")
_RANK = {answer: number for number, answer in enumerate(("OK", "UNKNOWN", "DEGRADED", "FAIL"))}


@dataclass(frozen=True)
class Checked:
    """`health`: check -> (worst answer, text), of what concerns the node. `skipped`: what was not
    looked at, with the reason. `data_problem`: what the dataset's check found wrong, which is no
    fault of the node: it wants staging."""

    health: dict[str, tuple[str, str]]
    skipped: tuple[str, ...] = ()
    data_problem: str | None = None


def run_checks(node: str, dataset: str, config_path: str | None, timeout_s: float) -> Checked:
    """What the checks say. Raises HostError when they could not be run."""
    options = [f"--node={node}", *([f"--config={config_path}"] if config_path else [])]
    options += [f"--dataset={dataset}"] if dataset else []
    kept = {name: os.environ[name] for name in ("SLURM_CONF", "PYTHONPATH") if name in os.environ}
    command = [sys.executable, "-m", "slurm_io", "check", "--json", *options]
    finished = run(command, timeout_s, extra_environment=kept, limit_bytes=_LIMIT_BYTES)
    if finished.return_code not in (0, 1, 3) or not finished.stdout.startswith("{"):
        said = (finished.stderr.strip() or finished.stdout.strip()).splitlines()[-1:]
        text = said[0][:_TEXT_CHARS] if said else "no word"
        raise HostError(f"slurm-io check ended with exit code {finished.return_code}: {text}")
    return parse_checks(finished.stdout)


def parse_checks(text: str) -> Checked:
    """The JSON of ``slurm-io check``. Raises HostError."""
    try:
        data = json.loads(text)
        entries, skipped = data["checks"], data["not_run"]
        health: dict[str, tuple[str, str]] = {}
        for entry in entries:
            if entry["kind"] != "job":
                _add(health, entry)
        left = (*_left_out(entries), *_not_run(skipped))
        return Checked(health, left, _data_problem(entries))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise HostError(f"slurm-io check: unreadable answer ({type(error).__name__})") from error


def _add(health: dict[str, tuple[str, str]], entry: dict[str, Any]) -> None:
    name, answer = str(entry["check"]), str(entry["answer"])
    if answer not in _ANSWERS:
        answer = "UNKNOWN"
    if entry.get("record_only"):
        answer = "OK"
    known = health.get(name)
    if known is None or _RANK[answer] > _RANK[known[0]]:
        health[name] = (answer, str(entry.get("text", ""))[:_TEXT_CHARS])


def _data_problem(entries: Sequence[dict[str, Any]]) -> str | None:
    wrong = [
        str(entry["text"])[:_TEXT_CHARS]
        for entry in entries
        if (entry["kind"], entry["check"], entry["answer"]) == ("job", "dataset", "FAIL")
    ]
    return wrong[0] if wrong else None


def _left_out(entries: Sequence[dict[str, Any]]) -> list[str]:
    return [
        f"{entry['check']}: {left!s:.200}"
        for entry in entries
        if entry["answer"] != "OK"
        for left in entry.get("not_looked_at", [])
    ]


def _not_run(skipped: Sequence[dict[str, Any]]) -> list[str]:
    return [
        f"{each['check']}: {each['reason']!s:.200}"
        for each in skipped
        if each["reason"] != _NOTHING
    ]
