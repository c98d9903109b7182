"""``dataset stage NAME --to NODE…``: from its words to its exit code."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from slurm_io.config import Config
from slurm_io.errors import UsageError
from slurm_io.reservation.staging import text
from slurm_io.reservation.staging.model import Wish
from slurm_io.reservation.staging.run import plan_on_nodes, stage_on_nodes
from slurm_io.slurm.cli import CliSlurm
from slurm_io.slurm.hostlist import expand
from slurm_io.staging.stage.signals import stop_on_signals

_PASSED_ON = ("name", "to", "given", "reservation", "tier", "bandwidth", "delete_extra")


def stage_by_command(
    config: Config,
    config_path: str | None,
    words: Mapping[str, Any],
    dry_run: bool,
    as_json: bool,
    echo: Callable[[str], None],
) -> int:
    """Do it and say what came of it; the exit code. `words`: the command's options by name.

    Raises SlurmIoError.
    """
    wish = wish_of(words, config_path)
    slurm = CliSlurm()
    if dry_run:
        plan = plan_on_nodes(slurm, config, wish)
        _say(text.plan_dict(plan) if as_json else text.plan_lines(plan), echo)
        return plan.exit_code
    lock = threading.Lock()

    def tell(line: str) -> None:
        with lock:
            print(f"slurm-io: {line}", file=sys.stderr, flush=True)

    with stop_on_signals() as stop:
        staged = stage_on_nodes(slurm, config, wish, tell, stop)
    _say(text.answer_dict(staged) if as_json else text.answer_lines(staged), echo)
    return staged.exit_code


def wish_of(words: Mapping[str, Any], config_path: str | None) -> Wish:
    """Raises UsageError for words that make no sense together, SlurmError for a node list."""
    unfit = [key for key, value in words.items() if value and key not in _PASSED_ON]
    if unfit:
        raise UsageError(f"--{unfit[0].replace('_', '-')} is for this node alone: not with --to")
    if not words["name"]:
        raise UsageError("give the dataset's NAME: --to stages what the site's configuration names")
    return Wish(
        name=words["name"],
        targets=tuple(node for each in words["to"] for node in expand(each)),
        sources=tuple(words["given"]),
        reservation=words["reservation"],
        tier=words["tier"],
        bandwidth=words["bandwidth"],
        delete_extra=words["delete_extra"],
        config_path=config_path,
    )


def _say(told: dict[str, Any] | list[str], echo: Callable[[str], None]) -> None:
    echo(json.dumps(told) if isinstance(told, dict) else "\n".join(map(_plain, told)))


def _plain(line: str) -> str:
    """The reason of a node is somebody's text."""
    return "".join(each if each.isprintable() else "?" for each in line)
