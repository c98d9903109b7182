"""What PyTorch's loader prints when a worker process is gone, and which signal took it.

Forms, unchanged from 1.x to 2.14: ``DataLoader worker (pid N) is killed by signal: NAME.``,
``DataLoader worker (pid N) exited unexpectedly with exit code E.``,
``DataLoader worker (pid(s) N, M) exited unexpectedly``. NAME is strsignal(3): "Aborted" is SIGABRT
(a crash or an assertion in native code), "Killed" is SIGKILL (most often the memory limit).
"""

from __future__ import annotations

import re
import signal

from slurm_io.records import dataclass
from slurm_io.stacktext.texts import text_of

_DEATH = re.compile(
    r"DataLoader worker \(pid(?:\(s\))? (?P<pids>\d{1,9}(?:, \d{1,9})*)\)\s+"
    r"(?:is killed by signal: (?P<signal>[A-Za-z /()0-9]{1,40})"
    r"|exited unexpectedly(?: with exit code (?P<code>-?\d{1,9}))?)"
)
_SHM = re.compile(r"out of shared memory|insufficient shared memory", re.IGNORECASE)
_NUMBERS = {
    name: number
    for number in sorted(signal.Signals, reverse=True)
    if (name := signal.strsignal(number)) is not None
}
_AFTER = 400  # characters behind the message in which PyTorch explains it


@dataclass(frozen=True)
class WorkerDeath:
    """Workers that died. `signal` is ``SIGABRT``, None when it exited or the name is unknown."""

    pids: tuple[int, ...]
    signal: str | None = None
    signal_number: int | None = None
    exit_code: int | None = None
    shared_memory: bool = False


def find_worker_deaths(raw: bytes | str) -> list[WorkerDeath]:
    """Each death once, in the order printed: ranks and chained tracebacks print it again."""
    text = text_of(raw)
    found: dict[tuple[int, ...], WorkerDeath] = {}
    for match in _DEATH.finditer(text):
        pids = tuple(int(word) for word in match["pids"].split(", "))
        number = _NUMBERS.get(match["signal"].strip()) if match["signal"] else None
        death = WorkerDeath(
            pids=pids,
            signal=number.name if number is not None else None,
            signal_number=int(number) if number is not None else None,
            exit_code=int(match["code"]) if match["code"] else None,
            shared_memory=_SHM.search(text, match.end(), match.end() + _AFTER) is not None,
        )
        found.setdefault(pids, death)
    return list(found.values())
