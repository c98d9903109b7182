"""At a job's end: are its checkpoints whole? Writes ``checkpoints.json`` of its store.

``python -m slurm_io.staging.checkpoints.look STORE``, or :func:`look_at_saves` in a process that is
the job's user already. The newest three saves of each folder that the job saved to, metadata only.
Each folder is looked at in a child of its own: a mount that hangs costs its own answer, and all
together take 20 s at most. Docs: docs/checkpoints-whole.md.
"""

from __future__ import annotations

import select
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from slurm_io.errors import SlurmIoError
from slurm_io.host.probe import Answer, Probe, poll_all, probe
from slurm_io.staging.checkpoints.formats.base import FORMATS
from slurm_io.staging.checkpoints.look_in import look_in_child
from slurm_io.staging.checkpoints.names import shown
from slurm_io.staging.checkpoints.wanted import wanted_in
from slurm_io.store.files import write_json_atomic

FILE = "checkpoints.json"
SCHEMA = 1
MOST_S = 20.0
_TABLES_S = 10.0
_FILE_MODE = 0o666  # less the umask, as job.json


def get_ready() -> None:
    """Import all formats: a user that this process becomes may not be able to read our modules."""
    FORMATS.discover()


def look_at_saves(store: Path, most_s: float = MOST_S) -> bool:
    """Look, and write what was seen; False when the job named no place, and nothing is written.

    Raises StoreError when the file cannot be written.
    """
    get_ready()
    began_ns, began_s = time.time_ns(), time.monotonic()
    asked = probe(wanted_in, str(store.absolute()), timeout_s=_TABLES_S)  # it leaves our folder
    wanted = asked.value if asked.state == "ok" else None
    if wanted is not None and not wanted["folders"]:
        return False
    told: dict[str, Any] = {"schema": SCHEMA, "looked_ts_ns": began_ns, "folders": []}
    if wanted is None:
        told["reason"] = f"where the job saved cannot be read: {asked.reason[:300]}"
    else:
        told["folders"] = _look(wanted["folders"], most_s)
        left = wanted["left_out"]
        told["reason"] = f"{left} more folders were not looked at" if left else None
    told["wall_s"] = round(time.monotonic() - began_s, 3)
    write_json_atomic(store / FILE, told, mode=_FILE_MODE)
    return True


def _look(folders: Sequence[dict[str, Any]], most_s: float) -> list[dict[str, Any]]:
    """All at once, each in its child."""
    probes = [
        Probe([(look_in_child, (one["folder"], one["named"], one["all"], most_s))], most_s)
        for one in folders
    ]
    while waiting := [one for one in probes if not one.finished]:
        poller = select.poll()
        for one in waiting:
            poller.register(one.fileno(), select.POLLIN)
        left_s = min(one.deadline_s for one in waiting) - time.monotonic()
        poller.poll(max(0.0, left_s) * 1000)
        poll_all(waiting)
    return [
        _told(one["folder"], each.answers[0]) for one, each in zip(folders, probes, strict=True)
    ]


def _told(folder: str, answer: Answer | None) -> dict[str, Any]:
    if answer is not None and answer.state == "ok" and isinstance(answer.value, dict):
        return answer.value
    reason = answer.reason if answer is not None else "no answer"
    return {"path": shown(folder), "saves": [], "pointers": [], "tried": 0, "reason": reason[:300]}


def main(arguments: Sequence[str]) -> int:
    """Look at what the job of the store in ``arguments[0]`` saved: 0, or 3."""
    try:
        look_at_saves(Path(arguments[0]))
    except (SlurmIoError, OSError) as error:
        print(f"slurm-io: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
