"""``py-spy dump`` as text, with ``--native`` too.

Form: ``Process PID: COMMAND``, ``Python vX (EXE)``, an empty line, then threads:
``Thread ID (idle|active|active+gil): "NAME"`` with one frame a line, innermost first. The command
may hold anything, line breaks included: what it says before the ``Python v`` line is skipped, but
a job can forge threads there. Whoever must not be fooled reads ``--json`` or chrometrace.
"""

from __future__ import annotations

import re

from slurm_io.stacktext.model import MOST_FRAMES, MOST_THREADS, Dump, Frame, Thread
from slurm_io.stacktext.texts import parse_frame, text_of

_PROCESS = re.compile(r"Process (\d{1,9}):")
_PYTHON = re.compile(r"Python v(\d[\w.+-]{0,30}) ?\(")
_THREAD = re.compile(
    r'\s*Thread (?P<id>0x[0-9A-Fa-f]+|\d+)'
    r'(?: \((?P<status>idle|active|active\+gil)\))?(?::(?: "(?P<name>.*)")?)?\s*'
)  # fmt: skip


class _Reader:
    def __init__(self) -> None:
        self.threads: list[Thread] = []
        self.dropped_frames = 0
        self.dropped_lines = 0
        self.pid: int | None = None
        self.in_header = False
        self._head: re.Match[str] | None = None
        self._frames: list[Frame] = []

    def begin(self, head: re.Match[str]) -> None:
        self.end()
        self._head = head

    def add(self, line: str) -> None:
        if self._head is None:
            self.dropped_lines += 1
            return
        frame = parse_frame(line)
        if frame is None or len(self._frames) >= MOST_FRAMES:
            self.dropped_frames += 1
        else:
            self._frames.append(frame)

    def end(self) -> None:
        head, self._head = self._head, None
        frames, self._frames = self._frames, []
        if head is None:
            return
        if len(self.threads) >= MOST_THREADS:
            self.dropped_lines += 1
            return
        self.threads.append(
            Thread(
                frames=tuple(frames),
                ident=head["id"],
                name=(head["name"] or "")[:256],
                status=head["status"],
                pid=self.pid,
            )
        )


def parse_dump(raw: bytes | str) -> Dump:
    """All threads of all processes in the text. Never raises; what is no thread and no frame is
    counted in `dropped_lines`."""
    reader, python = _Reader(), None
    for line in text_of(raw).split("\n"):
        process, version, head = _PROCESS.match(line), _PYTHON.match(line), _THREAD.fullmatch(line)
        if process is not None:
            reader.end()
            reader.pid, reader.in_header = int(process[1]), True
        elif version is not None:
            python, reader.in_header = version[1], False
        elif reader.in_header:
            continue
        elif head is not None:
            reader.begin(head)
        elif line.strip():
            reader.add(line)
    reader.end()
    return Dump(tuple(reader.threads), python, reader.dropped_frames, reader.dropped_lines)
