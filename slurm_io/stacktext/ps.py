"""Lines of ps(1): ``ps aux``, ``ps -ef``, ``ps -eo pid,ppid,stat,args``.

``%CPU`` of ps is CPU time divided by the process's whole life, a history and not a load: a zombie
keeps its value for ever. So a zombie's CPU now is 0, and a living process's is not known from ps.
"""

from __future__ import annotations

import re

from slurm_io.records import dataclass
from slurm_io.stacktext.texts import text_of

_MOST_PROCESSES = 100_000
_COMMANDS = ("COMMAND", "CMD", "ARGS")
_STATES = ("STAT", "S", "STATE")
_DEFUNCT = re.compile(r"\[?(?P<program>[^\]\s]+)\]? <defunct>")


@dataclass(frozen=True)
class ProcessLine:
    """One process. `state` is ps's letters (``Ssl``, ``Z``), "" when not printed; `lifetime_cpu` is
    %CPU as a share; `rss_bytes` 0 for a zombie, None when not printed."""

    pid: int
    ppid: int | None
    state: str
    command: str
    user: str = ""
    lifetime_cpu: float | None = None
    rss_bytes: int | None = None

    @property
    def is_zombie(self) -> bool:
        """It has ended; nobody has waited for it."""
        return self.state.startswith(("Z", "X")) or _DEFUNCT.search(self.command) is not None

    @property
    def cpu_now(self) -> float | None:
        """0 for a zombie; None for the living: ps does not say."""
        return 0.0 if self.is_zombie else None

    @property
    def program(self) -> str:
        """Name of the program, without folder: also of a zombie, which has no command line."""
        defunct = _DEFUNCT.search(self.command)
        if defunct is not None:
            return defunct["program"]
        words = self.command.split(None, 1)
        return words[0].rstrip(":").rpartition("/")[2].strip("[]-") if words else ""


def parse_ps(raw: bytes | str) -> tuple[list[ProcessLine], int]:
    """(processes, lines that could not be read). A line of column names must stand in front."""
    columns: list[str] | None = None
    found: list[ProcessLine] = []
    dropped = 0
    for line in text_of(raw).splitlines():
        words = line.split()
        if "PID" in words and words[-1] in _COMMANDS:
            columns = words
        elif words:
            one = _process(line, columns) if columns is not None else None
            dropped += one is None
            if one is not None and len(found) < _MOST_PROCESSES:
                found.append(one)
    return found, dropped


def _process(line: str, columns: list[str]) -> ProcessLine | None:
    cells = line.split(None, len(columns) - 1)
    if len(cells) < len(columns) - 1:
        return None
    row = dict(zip(columns, cells, strict=False))
    pid = _whole(row.get("PID"))
    if pid is None:
        return None
    kib = _whole(row.get("RSS"))
    cpu = row.get("%CPU", "")
    return ProcessLine(
        pid=pid,
        ppid=_whole(row.get("PPID")),
        state=next((row[name] for name in _STATES if name in row), "")[:16],
        command=next((row[name] for name in _COMMANDS if name in row), "").strip(),
        user=row.get("USER", row.get("UID", ""))[:64],
        lifetime_cpu=float(cpu) / 100 if re.fullmatch(r"\d{1,6}(\.\d{1,3})?", cpu) else None,
        rss_bytes=kib * 1024 if kib is not None else None,
    )


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,18}", text) else None
