"""What rsync says, understood: progress, complaints about single files, exit codes.

Pure. rsync writes bytes that no terminal shows as ``\\#ooo`` (octal); messages of the serving side
name files as ``"/path" (in MODULE)``, those of ours by their full path here.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Literal

Whose = Literal["source", "link", "target"]

_PROGRESS = re.compile(rb"\s*(\d+)\s+\d+%")
_ESCAPE = re.compile(rb"\\#([0-3][0-7]{2})")
_OF_SOURCE = re.compile(rb'"/?(?P<path>.*)" \(in [^)]+\)(?: failed)?(?:: (?P<why>.+?))?$')
_VANISHED = re.compile(rb'^file has vanished: "/?(?P<path>.*)" \(in [^)]+\)$')
_SKIPPED = re.compile(rb'^skipping (?:non-regular file|directory) "?(?P<path>.*?)"?$')
_DAMAGED = re.compile(rb"^ERROR: (?P<path>.*) failed verification -- ")
_OF_TARGET = re.compile(
    rb'^rsync: \[(?:[Rr]eceiver|generator)\] [^"]*".*"(?: failed)?: (?P<why>[^:]+ \(\d+\))$'
)

EXIT_CODES: dict[int, tuple[Whose, str]] = {
    1: ("target", "rsync does not know an option: a newer one is needed"),
    2: ("source", "the peer's rsync speaks another protocol"),
    4: ("source", "the peer's rsync refuses an option"),
    5: ("source", "the peer refuses: wrong secret, module or address"),
    10: ("link", "the connection broke"),
    11: ("target", "a file could not be written here"),
    12: ("link", "the stream broke"),
    13: ("link", "rsync could not speak"),
    14: ("link", "rsync lost its other half"),
    19: ("link", "rsync was told to end"),
    20: ("link", "rsync was told to end"),
    21: ("link", "rsync lost its other half"),
    22: ("target", "no memory for rsync"),
    23: ("source", "some files were not sent"),
    24: ("source", "some files vanished"),
    25: ("link", "rsync stopped early"),
    30: ("link", "no bytes came for too long"),
    35: ("link", "the peer did not answer in time"),
}
"""Exit code -> whose fault, in words (rsync's manual, "EXIT VALUES")."""


@dataclass(frozen=True)
class Complaints:
    """`of_source`: path -> why the peer could not send it. `damaged`: paths whose bytes arrived
    changed, twice. `of_target`: the first reason why we could not write. `last`: the last line
    that was no summary."""

    of_source: dict[str, str]
    damaged: frozenset[str]
    of_target: str | None
    last: str


class Output:
    """rsync's standard output as it comes, with ``--info=progress2,nonreg1``.

    `total_bytes`: how far it is, counting what was there already. `no_files`: paths it passed over
    because they are links, folders or devices at the peer.
    """

    def __init__(self) -> None:
        self.total_bytes = 0
        self.no_files: set[str] = set()
        self._rest = b""

    def take(self, piece: bytes) -> None:
        """The next piece, of any length."""
        *lines, self._rest = re.split(rb"[\r\n]", self._rest + piece)
        for line in lines:
            if progress := _PROGRESS.match(line):
                self.total_bytes = int(progress[1])
            elif skipped := _SKIPPED.match(line):
                self.no_files.add(_path(skipped["path"]))


def complaints(errors: bytes) -> Complaints:
    """Everything rsync said against single files on standard error."""
    of_source: dict[str, str] = {}
    damaged: set[str] = set()
    of_target, last = None, ""
    for line in errors.splitlines():
        if gone := _VANISHED.match(line):
            of_source[_path(gone["path"])] = "it vanished from the peer"
        elif found := _OF_SOURCE.search(line):
            of_source[_path(found["path"])] = _text(found["why"] or line)
        elif found := _DAMAGED.match(line):
            damaged.add(_path(found["path"]))
        elif (found := _OF_TARGET.match(line)) and of_target is None:
            of_target = _text(found["why"])
        if line and not line.startswith(b"rsync error:"):
            last = _text(line)
    return Complaints(of_source, frozenset(damaged), of_target, last)


def of_exit_code(code: int) -> tuple[Whose, str]:
    """Whose fault, and in words."""
    if code < 0:
        return "link", f"rsync was killed by signal {-code}"
    return EXIT_CODES.get(code, ("link", f"rsync ended with code {code}"))


def _path(raw: bytes) -> str:
    return os.fsdecode(_ESCAPE.sub(lambda found: bytes([int(found[1], 8)]), raw))


def _text(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace").strip()
    return "".join(c if c.isprintable() else "?" for c in text)[:300]
