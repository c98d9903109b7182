"""The surroundings of one run: its folders, the mounts below some of them, and its limits."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.grid.model import MIB, Change, Disk, Scenario
from tests.labs.block import BlockLab, run_tool
from tests.labs.job_group import JobGroup
from tests.labs.mounts import unmount_lazily
from tests.labs.object_store import ObjectStore
from tests.labs.slowfs import SlowFs, SlowFsError
from tests.labs.train import make_dataset

LOAD_BYTES = 14 * MIB
_FOLDERS = {
    "data": "data", "slow_data": "data", "validation_data": "data",
    "checkpoint_dir": "checkpoints", "load": "load/model.pt",
}  # fmt: skip
_POLL_S = 0.05


@dataclass
class Lab:
    """What a task of the scenario is given."""

    scenario: Scenario
    _options: dict[str, object]
    _environment: dict[str, str] = field(default_factory=dict)
    _group: JobGroup | None = None

    def options(self, number: int) -> dict[str, object]:
        """train_job's options of task `number`; the last node's tasks read the slow data."""
        found = dict(self._options)
        if self.scenario.nodes > 1:
            slow = found.pop("slow_data")
            if self._node_of(number) == self.scenario.nodes - 1:
                found["data"] = slow
        return found

    def environment(self, number: int) -> dict[str, str]:
        """Of several nodes what Slurm tells a task of its place."""
        if self.scenario.nodes == 1:
            return self._environment
        names = [f"n{node + 1}" for node in range(self.scenario.nodes)]
        node = self._node_of(number)
        return self._environment | {
            "SLURM_STEP_ID": "0",
            "SLURM_NTASKS": str(self.scenario.ranks),
            "SLURM_STEP_NUM_TASKS": str(self.scenario.ranks),
            "SLURM_STEP_NODELIST": ",".join(names),
            "SLURM_STEP_TASKS_PER_NODE": f"{self._each()}(x{len(names)})",
            "SLURM_NODEID": str(node),
            "SLURMD_NODENAME": names[node],
            "SLURM_PROCID": str(number),
            "SLURM_LOCALID": str(number % self._each()),
        }

    def on_its_cpus(self, command: list[str]) -> list[str]:
        """The training's command, on a single CPU where the scenario says so."""
        if self.scenario.one_cpu:
            return ["taskset", "-c", str(min(os.sched_getaffinity(0))), *command]
        return command

    def in_its_group(self, command: list[str]) -> list[str]:
        """The whole run in the job's control group, where it has one: as under Slurm."""
        return self._group.wrapped(command) if self._group is not None else command

    def _each(self) -> int:
        return self.scenario.ranks // self.scenario.nodes

    def _node_of(self, number: int) -> int:
        return number // self._each()


@contextmanager
def opened_lab(scenario: Scenario, folder: Path) -> Iterator[Lab]:
    """Everything made and mounted, and taken away again behind the run."""
    folder.mkdir(parents=True, exist_ok=True)
    backing = folder / "fast"
    (backing / "checkpoints").mkdir(parents=True)
    with ExitStack() as undo:
        options = _options(scenario, backing)
        lab = Lab(scenario, options)
        if scenario.disk is None:
            make_dataset(backing / "data", scenario.files, scenario.file_bytes)
        else:
            options["data"] = undo.enter_context(_disk(scenario, scenario.disk, folder))
        if "load" in options:
            _make_model(backing / _FOLDERS["load"])
        if scenario.slow_places:
            slow = undo.enter_context(_slow(scenario, backing, folder))
            options |= {name: slow.mountpoint / _FOLDERS[name] for name in scenario.slow_places}
        if scenario.object_s is not None:
            store = ObjectStore(backing / "data", scenario.object_s)
            options["endpoint"] = undo.enter_context(store).endpoint
        if scenario.checkpoint_bytes is not None:
            options["checkpoint_dir"] = folder / "small"
            undo.enter_context(_small(folder / "small", scenario.checkpoint_bytes))
        if scenario.limits is not None:
            limits = scenario.limits
            lab._group = undo.enter_context(JobGroup(limits.cpus, limits.memory_bytes))
            lab._environment |= lab._group.environment()
        if scenario.nodes > 1:
            lab._environment |= {"SLURM_JOB_ID": str(os.getpid()), "MASTER_PORT": _free_port()}
        yield lab


def _options(scenario: Scenario, backing: Path) -> dict[str, object]:
    """The job's folders by option name, all of them fast."""
    wanted = {"data", *scenario.slow_places}
    if scenario.train.get("checkpoint_every"):
        wanted.add("checkpoint_dir")
    if scenario.train.get("validate_every"):
        wanted.add("validation_data")
    return {name: backing / _FOLDERS[name] for name in sorted(wanted)}


@contextmanager
def _slow(scenario: Scenario, backing: Path, folder: Path) -> Iterator[SlowFs]:
    slow = SlowFs(backing, folder / "slow", scenario.slow, cache=scenario.cache)
    with slow, _changing(slow, scenario.changes):
        yield slow
    (folder / "ledger.json").write_text(json.dumps(slow.ledger(), indent=1))


@contextmanager
def _changing(slow: SlowFs, changes: Sequence[Change]) -> Iterator[None]:
    """Puts `changes` into force on a thread; their clock starts with the first read."""
    over = threading.Event()

    def change_all() -> None:
        while "read" not in slow.ledger()["classes"]:
            if over.wait(_POLL_S):
                return
        passed_s = 0.0
        for change in changes:
            if over.wait(change.after_s - passed_s):
                return
            passed_s = change.after_s
            slow.change(**change.settings)

    def change_quietly() -> None:
        try:
            change_all()
        except SlowFsError as error:  # the run ended first
            print(f"slowfs: {error}", file=sys.stderr)

    thread = threading.Thread(target=change_quietly)
    if changes:
        thread.start()
    try:
        yield
    finally:
        over.set()
        if changes:
            thread.join()


@contextmanager
def _disk(scenario: Scenario, disk: Disk, folder: Path) -> Iterator[Path]:
    """The dataset on a disk of its own; fast while it is written, nothing of it in memory then."""
    (folder / "disk").mkdir()
    with (
        SlowFs(folder / "image-backing", folder / "images") as slow,
        BlockLab(
            folder / "disk", size_bytes=disk.size_bytes, image=slow.mountpoint / "image"
        ) as lab,
    ):
        data = make_dataset(lab.mountpoint / "data", scenario.files, scenario.file_bytes)
        run_tool("sync", "-f", os.fspath(lab.mountpoint))
        for path in data.iterdir():
            _forget(path)
        slow.change(disk.slow)
        try:
            with _changing(slow, scenario.changes):
                yield data
        finally:
            slow.change(bandwidth_bytes_per_s=None, read_latency_s=0.0)


def _forget(path: Path) -> None:
    """Drop what the page cache holds of a file."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


@contextmanager
def _small(mountpoint: Path, size_bytes: int) -> Iterator[None]:
    """A file system in memory with no room for more."""
    mountpoint.mkdir()
    run_tool("mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "small", os.fspath(mountpoint))
    try:
        yield
    finally:
        unmount_lazily(mountpoint)


def _make_model(path: Path) -> None:
    """A checkpoint to load; in a process of its own, for torch is large."""
    path.parent.mkdir()
    code = f"import torch; torch.save({{'w': torch.rand({LOAD_BYTES // 4})}}, {os.fspath(path)!r})"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def _free_port() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])
