"""What a node remembers between jobs: children left in the kernel, marks set, guards that spoke.

One small JSON file, root's, replaced by rename: ``<state_dir>/<node>/checks.json``::

    {"stuck": {"mounts": [[4711, 88123]], "space:1000": [[4720, 88150]]},
     "marks": {"arrays": 1764475273}, "open": {}, "reason": ""}

Written only when something is wrong, so a healthy node pays one failed open for it. Two prologs
that write at once lose one entry: it is learnt anew from the next job.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from slurm_io.config import Config
from slurm_io.errors import HostError
from slurm_io.host.root_folders import child_folder, read_file, trusted_folder, write_file
from slurm_io.host.same_process import is_alive
from slurm_io.records import asdict, dataclass, field, replace

FILE = "checks.json"
STUCK_PER_CHECK = 8


@dataclass(frozen=True)
class NodeMemory:
    """`stuck`: :func:`stuck_key` -> (pid, starttime) of a check's children, or theirs, that never
    died. `marks`: check -> when this node announced its failure to Slurm, epoch s. `open`: check ->
    until when (epoch s) it drains nothing here because too many nodes failed it at once. `reason`:
    our drain's text, "" = none."""

    stuck: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    marks: Mapping[str, int] = field(default_factory=dict)
    open: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""

    def with_stuck(self, key: str, left: Iterable[tuple[int, int]]) -> NodeMemory:
        """With more processes left behind."""
        known = tuple(dict.fromkeys((*self.stuck.get(key, ()), *left)))
        return replace(self, stuck={**self.stuck, key: known[-STUCK_PER_CHECK:]})

    def without_dead(self) -> NodeMemory:
        """Children that have died meanwhile are forgotten."""
        alive = {
            check: tuple(each for each in children if is_alive(*each))
            for check, children in self.stuck.items()
        }
        return replace(self, stuck={check: left for check, left in alive.items() if left})


def stuck_key(check: str, identity: str, uid: int) -> str:
    """Whose a process left behind is. What runs as a user counts against that user alone: he can
    have it hang in a file system of his own, which must not end the check for all others."""
    return check if identity == "root" else f"{check}:{uid}"


def recall(config: Config, node: str) -> NodeMemory:
    """What is remembered; nothing when there is no file or it cannot be trusted."""
    # Looked for before the folders are walked: nearly always there is none.
    if not os.path.lexists(os.path.join(_state_folder(config, node), node, FILE)):
        return NodeMemory()
    try:
        with memory_folder(config, node, create=False) as folder:
            return _read(folder)
    except HostError:
        return NodeMemory()


def remember(config: Config, node: str, memory: NodeMemory) -> None:
    """Replace what is remembered. Raises HostError."""
    with memory_folder(config, node, create=True) as folder:
        write_file(folder, FILE, json.dumps(asdict(memory)).encode(), 0o600)


@contextlib.contextmanager
def memory_folder(config: Config, node: str, create: bool) -> Iterator[int]:
    """Descriptor of ``<state_dir>/<node>``, root's own. Raises HostError."""
    state = _state_folder(config, node)
    with trusted_folder(state, create) as top:
        folder = child_folder(top, node, state, 0o755 if create else None)
        try:
            yield folder
        finally:
            os.close(folder)


def _state_folder(config: Config, node: str) -> str:
    if "%" not in config.state_dir:
        return config.state_dir
    from slurm_io.staging.datasets import state_folder  # most sites do without it

    return state_folder(config, node)


def _read(folder: int) -> NodeMemory:
    try:
        data = json.loads(read_file(folder, FILE) or b"{}")
        return NodeMemory(
            stuck=_stuck(data.get("stuck", {})),
            marks={str(key): int(value) for key, value in data.get("marks", {}).items()},
            open={str(key): int(value) for key, value in data.get("open", {}).items()},
            reason=str(data.get("reason", "")),
        ).without_dead()
    except (ValueError, TypeError, AttributeError):
        return NodeMemory()


def _stuck(data: Mapping[str, Any]) -> dict[str, tuple[tuple[int, int], ...]]:
    return {
        str(check): tuple((int(pid), int(starttime)) for pid, starttime in children)
        for check, children in data.items()
    }
