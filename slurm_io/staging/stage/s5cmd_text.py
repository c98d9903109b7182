"""What s5cmd is told and what it says, with ``--json``. Pure.

Its exit code is not believed: it can print an ERROR and exit 0 (peak/s5cmd#869), and what it says
nothing of did not happen.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from slurm_io.staging.stage.s3_text import NO_CREDENTIALS, Whose, fault_of

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"^(?:[A-Z][\w ]*: )?([A-Z][A-Za-z]+): ")
_OF_TARGET = re.compile(
    r"no space left on device|disk quota exceeded|read-only file system|input/output error"
    r"|(?:open|mkdir|write|rename|truncate|chmod|fallocate) /"
)


@dataclass(frozen=True)
class Head:
    """What HEAD tells of an object."""

    etag: str
    size_bytes: int
    modified: str


@dataclass
class Said:
    """All lines of one run. `copied`: target -> bytes; `errors`: command line -> text; `heads`:
    address -> head. `rest`: how it ended, where it said nothing."""

    copied: dict[str, int] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    heads: dict[str, Head] = field(default_factory=dict)
    rest: str = ""

    def take(self, lines: bytes) -> None:
        """Whole lines of standard output or standard error."""
        for line in lines.splitlines():
            try:
                said = json.loads(line)
            except ValueError:
                continue
            if isinstance(said, dict):
                self._take_one(said)

    def error_of(self, last_word: str) -> str | None:
        """The error of the command that ended with this word."""
        return next((t for c, t in self.errors.items() if c.endswith(f" {last_word}")), None)

    def _take_one(self, said: dict[str, Any]) -> None:
        if "error" in said:
            self.errors[str(said.get("command"))] = str(said["error"])
        elif said.get("operation") == "cp" and said.get("success") is True:
            size = (said.get("object") or {}).get("size")
            self.copied[str(said.get("destination"))] = size if isinstance(size, int) else 0
        elif "etag" in said and "key" in said:
            etag = str(said["etag"]).strip('"')
            size = said.get("size")
            head = Head(etag, size if isinstance(size, int) else 0, str(said.get("last_modified")))
            self.heads[str(said["key"])] = head


def head_line(url: str) -> str:
    """A line for ``s5cmd run``."""
    return f"head --raw {quoted(url)}"


def copy_line(url: str, target: str, version_id: str | None) -> str:
    """A line for ``s5cmd run``."""
    version = f"--version-id {quoted(version_id)} " if version_id else ""
    return f"cp --raw {version}{quoted(url)} {quoted(target)}"


def quoted(word: str) -> str:
    """For s5cmd's reading of lines, which is a shell's. No line break can be said in one."""
    return "'" + word.replace("'", "'\"'\"'") + "'"


def meaning(error: str) -> tuple[Whose, str]:
    """Whose fault one of its errors is, in words."""
    if _OF_TARGET.search(error):
        return "target", f"writing here: {error[:300]}"
    if "NoCredentialProviders" in error:
        return "source", NO_CREDENTIALS
    if error.startswith("given object ") and error.endswith(" not found"):
        return fault_of("NoSuchKey", 404)
    status = _STATUS.search(error)
    code = _CODE.match(error)
    if status is None:
        return "link", error[:300]
    return fault_of(code[1] if code else status[1], int(status[1]))
