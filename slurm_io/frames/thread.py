"""What one thread is doing, from its stack alone, and which frame decided.

A forked worker carries its parent's frames below its own, the parent's wait for that very worker
among them: so the worker's loop is looked for first, and what lies outside it is not looked at.
Then the outermost loader or checkpoint decides: a collective below `save` is the checkpoint, a
broadcast below a dispatcher's fetch is a data wait, an import below either is theirs. Among the
others the innermost wins. A thread nobody knows computes, but that is no certainty.
"""

from __future__ import annotations

from typing import Literal

from slurm_io.frames.base import Meaning
from slurm_io.frames.table import FrameTable
from slurm_io.records import dataclass
from slurm_io.stacktext.model import Frame, Stack
from slurm_io.stacktext.texts import shown

State = Literal["data_wait", "ckpt", "collective", "compute", "import", "gc", "other"]
Role = Literal["main", "worker", "helper", "writer", "housekeeping", "thread"]
SUB_STATES = (
    "reading", "decoding", "transform", "collate", "idle", "put-blocked", "unknown",  # workers
    "workers", "receiving", "epoch", "dispatcher",  # a rank that waits for data
    "async", "restore", "gpu", "metadata", "waiting", "start-up",
)  # fmt: skip

_OWNING = ("data_wait", "ckpt", "restore")
_REGIONS = ("collective", "compute", "import", "gc")
_WORK = ("reading", "decoding", "transform", "collate", "mapped", "compute")
_WAITS = ("get", "put", "wait")
_BODY = "<module>"
_ROOTS = (_BODY, "_run_module_as_main", "_run_code", "run_path")
_BOOTSTRAP = "_bootstrap"


@dataclass(frozen=True)
class ThreadState:
    """`sub` is one of SUB_STATES or None. `certain` is False where the state was only what was
    left. `why` names the frame that decided. `blocking`: whether the training thread stands still
    for a checkpoint; None outside checkpoints."""

    role: Role
    state: State
    sub: str | None
    certain: bool
    why: str
    library: str = ""
    blocking: bool | None = None


class _Seen:
    """A stack with what the table says of each frame, innermost first."""

    def __init__(self, frames: Stack, table: FrameTable) -> None:
        pairs = [(frame, table.meaning_of(frame)) for frame in frames]
        # What lies on a signal handler is the handler's; below it is what was interrupted.
        handlers = [at for at, (_, said) in enumerate(pairs) if said and said.what == "signal"]
        self.pairs = pairs[handlers[-1] + 1 :] if handlers else pairs

    def innermost(self, *whats: str) -> int | None:
        """Index of the innermost frame that says one of `whats`."""
        for at, (_, said) in enumerate(self.pairs):
            if said is not None and said.what in whats:
                return at
        return None

    def outermost(self, *whats: str) -> int | None:
        """Index of the outermost such frame."""
        for at in range(len(self.pairs) - 1, -1, -1):
            said = self.pairs[at][1]
            if said is not None and said.what in whats:
                return at
        return None

    def region(self) -> int | None:
        """Index of the innermost region. What a library's module calls in its own library while it
        is imported belongs to the import."""
        at = self.innermost(*_REGIONS)
        if at is None:
            return None
        for outer in range(at, len(self.pairs) - 1):
            body, importer = self.pairs[outer][0], self.pairs[outer + 1][1]
            if body.short_name == _BODY:
                is_imported = importer is not None and importer.what == "import"
                is_its_own = _package(body) == _package(self.pairs[at][0])
                return outer + 1 if is_imported and is_its_own else at
        return at

    def inside(self, at: int) -> _Seen:
        """Only what lies inside frame `at`, that frame included."""
        part = _Seen.__new__(_Seen)
        part.pairs = self.pairs[: at + 1]
        return part

    def note(self, *notes: str) -> str | None:
        """The innermost of these notes."""
        return next((said.note for _, said in self.pairs if said and said.note in notes), None)


def _package(frame: Frame) -> str:
    """``torch`` of ``torch/nn/functional.py``, wherever it is installed."""
    return frame.file.rpartition("-packages/")[2].partition("/")[0]


def judge_thread(frames: Stack, table: FrameTable, is_main: bool | None = None) -> ThreadState:
    """State of one thread. `is_main`: None = it begins where a main thread begins."""
    seen = _Seen(frames, table)
    loop = seen.innermost("worker")
    if loop is not None:
        return _worker(seen.inside(loop))
    # Whatever saves in a thread that `threading` made keeps nobody waiting.
    saves = "ckpt" if begins_thread(frames) else "writer"
    for what, kind in (("writer", "writer"), (saves, "writer"), ("helper", "helper"),
                       ("housekeeping", "idle")):  # fmt: skip
        at = seen.outermost(what)
        if at is not None and not is_main:
            return _beside(seen, at, kind)
    if is_main is None:
        is_main = begins_main(frames)
    found = _training(seen)
    if is_main:
        return found
    return ThreadState("thread", found.state, found.sub, found.certain, found.why, found.library)


def begins_main(frames: Stack) -> bool:
    """Whether a stack begins as a main thread's does. Cut stacks (faulthandler) begin anywhere:
    what does not begin as another thread may be one."""
    return bool(frames) and frames[-1].short_name in _ROOTS


def begins_thread(frames: Stack) -> bool:
    """Whether a stack begins as a thread made by `threading` does."""
    return bool(frames) and frames[-1].short_name == _BOOTSTRAP


def _worker(seen: _Seen) -> ThreadState:
    fetching = seen.innermost("fetch")  # of several (a dataset that asks another) the last one
    if fetching is not None:
        sub, certain, at = _work(seen.inside(fetching))
        return _state("worker", _STATE_OF_WORK.get(sub, "other"), sub, certain, seen, at, fetching)
    put, get = seen.innermost("put"), seen.innermost("get")
    if put is not None:
        return _state("worker", "other", "put-blocked", True, seen, put)
    if get is not None:
        return _state("worker", "other", "idle", True, seen, get)
    importing = seen.innermost("import")
    if importing is not None:
        return _state("worker", "import", "start-up", True, seen, importing)
    sub, certain, at = _work(seen)
    return _state("worker", _STATE_OF_WORK.get(sub, "other"), sub, certain, seen, at)


_STATE_OF_WORK: dict[str, State] = {
    "reading": "data_wait", "decoding": "compute", "transform": "compute", "collate": "compute",
}  # fmt: skip


def _work(seen: _Seen) -> tuple[str, bool, int | None]:
    """(sub-state, certain, index of the deciding frame) of code that prepares a batch."""
    at = seen.innermost(*_WORK, "import", *_WAITS)
    said = seen.pairs[at][1] if at is not None else None
    if at is None or said is None:
        return "unknown", False, None  # the user's own code: anything
    if said.what == "mapped":
        # The frame further out decides, unless the memory is a mapped file's: nobody can tell then.
        outer = seen.innermost("transform", "decoding", "collate")
        if said.note != "memmap" and seen.note("memmap") is None and outer is not None:
            what = seen.pairs[outer][1]
            return (what.what if what is not None else "unknown"), False, outer
        return "unknown", True, at
    if said.what in _WAITS or said.what == "import":
        reading = seen.innermost("reading")  # a read that waits for its own helper
        if reading is not None:
            return "reading", True, reading
        return "unknown", said.what == "wait", at
    if said.what == "compute":
        return "transform", True, at
    return said.what, True, at


def _beside(seen: _Seen, at: int, kind: str) -> ThreadState:
    """A thread that is not the training thread: a loader's, a writer's, a monitor's."""
    inside = seen.inside(at)
    if kind == "idle":
        return _state("housekeeping", "other", "idle", True, seen, at)
    if kind == "writer":
        return _state("writer", "ckpt", "async", True, seen, at, blocking=False)
    fetching = inside.innermost("fetch")
    if fetching is not None:
        sub, certain, place = _work(inside.inside(fetching))
        return _state(
            "helper", _STATE_OF_WORK.get(sub, "other"), sub, certain, seen, place, fetching
        )
    work = inside.innermost("reading", "decoding", "transform", "collate", "receiving")
    get, put, wait = (inside.innermost(what) for what in _WAITS)
    if work is not None:
        said = seen.pairs[work][1]
        sub = said.what if said is not None else "unknown"
        return _state("helper", _STATE_OF_WORK.get(sub, "other"), sub, True, seen, work)
    if put is not None:
        return _state("helper", "other", "put-blocked", True, seen, put)
    if get is not None or wait is not None:
        return _state("helper", "other", "idle", True, seen, get if get is not None else wait)
    return _state("helper", "other", "unknown", False, seen, at)


def _training(seen: _Seen) -> ThreadState:
    """The thread that trains."""
    owner = seen.outermost(*_OWNING)
    if owner is None:
        owner = seen.outermost("fetch")  # asks a dataset itself, without any loader
    if owner is not None:
        return _owned(seen, owner)
    region = seen.region()
    detail = seen.innermost("reading", "mapped", *_WAITS)
    if region is not None:
        said = seen.pairs[region][1]
        assert said is not None
        note = seen.inside(region).note("gpu", "metadata", "start-up")
        return _state("main", said.what, note, True, seen, region)  # type: ignore[arg-type]
    return _unknown(seen, detail)


def _owned(seen: _Seen, owner: int) -> ThreadState:
    inside = seen.inside(owner)
    what = inside.pairs[owner][1]
    assert what is not None
    if what.what == "restore":
        return _state("main", "other", "restore", True, seen, owner)
    if what.what == "ckpt":
        return _state("main", "ckpt", inside.note("async"), True, seen, owner, blocking=True)
    return _state("main", "data_wait", _sub_of_wait(inside), True, seen, owner)


def _sub_of_wait(seen: _Seen) -> str | None:
    """Why a rank waits for data, as far as its own stack tells."""
    fetching = seen.innermost("fetch")
    note = seen.note("epoch", "dispatcher")
    if note == "dispatcher" and seen.innermost("collective") is not None:
        return "dispatcher"
    if fetching is not None:
        return _work(seen.inside(fetching))[0]
    if note == "epoch":
        return "epoch"
    at = seen.innermost("receiving", "collate", "reading", "decoding", "transform", *_WAITS)
    said = seen.pairs[at][1] if at is not None else None
    if said is None:
        return None
    # A descriptor that is handed over shows as a wait for a connection below its own frame.
    if said.what in _WAITS:
        return "receiving" if seen.innermost("receiving") is not None else "workers"
    return said.what


def _unknown(seen: _Seen, detail: int | None) -> ThreadState:
    """No region at all: the user's own code, or a wait nobody named."""
    said = seen.pairs[detail][1] if detail is not None else None
    if said is None or said.what == "mapped" and said.note != "memmap":
        leaf = 0 if seen.pairs else None
        return _state("main", "compute", None, False, seen, leaf)
    if said.what == "mapped":
        return _state("main", "other", "unknown", True, seen, detail)
    sub = "reading" if said.what == "reading" else "waiting"
    return _state("main", "other", sub, True, seen, detail)


def _state(
    role: Role,
    state: State,
    sub: str | None,
    certain: bool,
    seen: _Seen,
    at: int | None,
    otherwise: int | None = None,
    blocking: bool | None = None,
) -> ThreadState:
    at = at if at is not None else otherwise
    if at is None:
        return ThreadState(role, state, sub, False, "no frame", "", blocking)
    frame, said = seen.pairs[at]
    return ThreadState(role, state, sub, certain, _why(frame, said), _library(said), blocking)


def _why(frame: Frame, said: Meaning | None) -> str:
    text = shown(frame)[:300]
    return text if said is not None else f"no library knows {text}"


def _library(said: Meaning | None) -> str:
    return said.library if said is not None else ""
