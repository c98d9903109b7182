"""Calls a person: the site's own program, with one line of text."""

from __future__ import annotations

from slurm_io.host.run import run

LIMIT_S = 10.0
LONGEST = 1000


def alert(command: str, text: str) -> None:
    """Run spares.alert_command with `text` as its only argument. Nothing without a command.

    The text may hold what users wrote (the reason of a node): no shell sees it. Raises HostError.
    """
    if command:
        line = "".join(each if each.isprintable() else "?" for each in text)[:LONGEST]
        run([command, line], LIMIT_S, check=True)
