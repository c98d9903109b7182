"""What every text about stacks is turned into: frames, threads, dumps.

Frames of a thread stand innermost first, as py-spy's dump and faulthandler print them; the parsers
of texts that go the other way (raw, tracebacks) turn them round.
"""

from __future__ import annotations

from typing import NamedTuple

from slurm_io.records import dataclass

MOST_FRAMES = 512  # a deeper stack keeps its innermost frames
MOST_THREADS = 4096
LONGEST_NAME = 1024
_C_SUFFIXES = (".c", ".cc", ".cpp", ".cxx", ".h", ".hpp", ".cu", ".rs", ".S")


class Frame(NamedTuple):
    """One function on a stack. `file` is a path as printed, often shortened; a library
    (``libc.so.6``) or ``?`` for native frames. `line` is None where none was printed."""

    name: str
    file: str = ""
    line: int | None = None

    @property
    def short_name(self) -> str:
        """The last dotted component: py-spy prints qualified names (`A.f.<locals>.g`) from 0.4.3
        on for Python 3.11 and later, and bare ones elsewhere. Native names are left whole."""
        return self.name if self.is_native else self.name.rpartition(".")[2]

    @property
    def is_native(self) -> bool:
        """C, C++ or Rust code, or an address nobody could name."""
        file = self.file
        return (
            file == "?"
            or ".so" in file
            or file.endswith(_C_SUFFIXES)
            or self.name.startswith("0x")
            or (not file and "::" in self.name)
        )

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line is not None else self.file
        return f"{self.name} ({place})" if place else self.name


Stack = tuple[Frame, ...]


@dataclass(frozen=True)
class Thread:
    """One thread, innermost frame first. `ident` is the id as printed (OS thread id, pthread or
    hexadecimal). `status`: "idle", "active" or "active+gil" as the tool judged, None when it said
    nothing. `current`: faulthandler's "Current thread"."""

    frames: Stack
    ident: str = ""
    name: str = ""
    status: str | None = None
    current: bool = False
    pid: int | None = None


@dataclass(frozen=True)
class Dump:
    """Threads seen at one moment. `dropped_frames`: torn or unreadable frames that were left out;
    `dropped_lines`: lines and threads that could not be placed."""

    threads: tuple[Thread, ...] = ()
    python: str | None = None
    dropped_frames: int = 0
    dropped_lines: int = 0


@dataclass(frozen=True)
class Folded:
    """One line of a folded profile: a stack and how many samples showed it."""

    frames: Stack
    samples: int
    thread: str = ""
    pid: int | None = None
    dropped_frames: int = 0


@dataclass(frozen=True)
class Stretch:
    """One thread that showed the same stack from `start_us` to `end_us` (microseconds since the
    recorder began)."""

    pid: int
    tid: int
    start_us: int
    end_us: int
    frames: Stack


@dataclass(frozen=True)
class Trace:
    """A chrometrace recording. `torn` counts stretches whose stack was torn (no thread begins
    there), `torn_us` their time; `damaged_events` what could not be read; `end_us` its length."""

    stretches: tuple[Stretch, ...] = ()
    torn: int = 0
    torn_us: int = 0
    damaged_events: int = 0
    end_us: int = 0
