"""Writes rings as docs/development/contracts.md section 1 has them, independent of the hook."""

from __future__ import annotations

import json
import os
import struct
import weakref
from pathlib import Path

_BODY = struct.Struct("<QBBHIQQIIQqQ")
_TEXT = struct.Struct("<QBBHI40sQ")


def starttime_of(pid: int) -> int:
    """Field 22 of /proc/PID/stat."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


class RingMaker:
    """One ring file. Records are numbered as they are added, like the hook does it."""

    def __init__(
        self,
        folder: Path,
        pid: int | None = None,
        starttime: int | None = None,
        n_records: int = 64,
        greeting: dict[str, object] | None = None,
    ) -> None:
        self.pid = os.getpid() if pid is None else pid
        self.starttime = starttime_of(self.pid) if starttime is None else starttime
        self.n_records = n_records
        self.written = 0
        self.path = folder / f"ring-{self.pid}-{self.starttime}"
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        self.close = weakref.finalize(self, os.close, self._fd)  # the file stays
        os.ftruncate(self._fd, 4096 + 64 * n_records)
        said = json.dumps({"pid": self.pid, "rank": 0, **(greeting or {})}).encode()
        header = struct.pack("<8sIIIIq", b"SIORING1", 4096, 64, n_records, len(said), 0)
        os.pwrite(self._fd, header, 0)
        os.pwrite(self._fd, said, 512)
        self.state(1)

    def phase(self, phase: int, loader: int = 0) -> None:
        """What the process is in now."""
        os.pwrite(self._fd, struct.pack("<IIQ", phase, loader, 1), 32)

    def state(self, state: int) -> None:
        """1 alive, 2 closed."""
        os.pwrite(self._fd, struct.pack("<I", state), 56)

    def batch(self, start_ns: int = 1000, end_ns: int = 2000, **fields: int) -> None:
        """A BATCH record."""
        number = self.written + 1
        self.raw(
            _BODY.pack(
                number, 1, fields.get("flags", 0), fields.get("loader", 0), fields.get("epoch", 0),
                start_ns, end_ns, fields.get("index", self.written), fields.get("step", 0),
                fields.get("last_step_ns", 0), fields.get("gpu_idle_ns", -1), number,
            )
        )  # fmt: skip

    def event(self, kind: int, start_ns: int = 10, end_ns: int = 20, **fields: int) -> None:
        """An EVENT record; its text is added apart."""
        number = self.written + 1
        self.raw(
            _BODY.pack(
                number, 2, fields.get("flags", 0), kind, fields.get("parts", 0), start_ns, end_ns,
                fields.get("text_id", 0), fields.get("step", 0), 0, fields.get("bytes", -1), number,
            )
        )  # fmt: skip

    def text(self, text_id: int, text: bytes) -> int:
        """TEXT records; how many."""
        parts = [text[at : at + 40] for at in range(0, len(text), 40)]
        for part, data in enumerate(parts):
            self.part(text_id, part, data)
        return len(parts)

    def part(self, text_id: int, part: int, data: bytes) -> None:
        """One TEXT record."""
        number = self.written + 1
        self.raw(_TEXT.pack(number, 3, len(data), part, text_id, data, number))

    def raw(self, record: bytes) -> None:
        """Any 64 bytes as the next record."""
        os.pwrite(self._fd, record, 4096 + 64 * (self.written % self.n_records))
        self.written += 1
        os.pwrite(self._fd, struct.pack("<Q", self.written), 48)
