"""Real training loops of real frameworks: what the hook says, what stacks say, what is true.

Each program below `programs/` trains a tiny model with its framework's own loop and dataset format
and times itself; see :mod:`tests.frameworks.runs`. Storage is slowfs or a plain disk. With the hook
its shares must lie within two points of the truth; without it, those of the stacks within five.
Looks are samples too: a run in which they miss by more is repeated once, three times as long. The
few looks of the product's own windows are held to their interval at 95 %, five points added.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from slurm_io.analysis.shares import wilson
from slurm_io.collectors.stacks.program import find_py_spy
from tests.frameworks import runs
from tests.frameworks.runs import STATES, Seen
from tests.labs.slowfs import SlowFs, fuse_missing
from tests.labs.slowfs_settings import CacheMode, SlowFsSettings

SECONDS = 45.0
HOOK_POINTS = 0.02
STACK_POINTS = 0.05
FEWEST_SAMPLES = 100
SAVES_MAY_TAKE_S = 0.02  # a write of 1 MiB on slow storage


@dataclass(frozen=True)
class Case:
    """`needs`: what must be importable. `read_s`: a read's latency on slow storage, so that a
    third of the training or more is waiting; `cache` as in slowfs (read-ahead hides tar files).
    `starts_in_next`: a generator of the library starts the workers in the first `next`, so that the
    program's stopwatch has in its wait what the hook calls the start of a pass."""

    needs: str
    read_s: float
    workers: int = 2
    saves: bool = True
    cache: CacheMode = "page"
    starts_in_next: bool = False


CASES = {
    "plain_torch": Case("torch", 0.06),
    "lightning_fit": Case("lightning", 0.06),
    "hf_trainer": Case("transformers", 0.06),
    "webdataset_files": Case("webdataset", 0.006, cache="direct"),
    "webdataset_pipe": Case("webdataset", 0.12, cache="direct"),
    "webdataset_alone": Case("webdataset", 0.06, workers=0),
    "mosaicml_streaming": Case("streaming", 0.03, starts_in_next=True),
    "litdata_streaming": Case("litdata", 0.03, starts_in_next=True),
    "grain_loader": Case("grain", 0.2, saves=False),
    "grain_threads": Case("grain", 0.06, workers=0, saves=False),
}

pytestmark = [
    pytest.mark.torch,
    pytest.mark.fuse,
    pytest.mark.skipif(fuse_missing() is not None, reason=str(fuse_missing())),
]
each_storage = pytest.mark.parametrize("storage", ["slow", "fast"])
each_program = pytest.mark.parametrize("program", CASES)


@pytest.fixture(scope="session")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders with a program's `data` and `saves` in them; each is filled once."""
    home = tmp_path_factory.mktemp("frameworks")
    return {program: home / program for program in CASES}


@pytest.mark.long
@each_storage
@each_program
def test_shares_by_the_hook_are_the_programs_own(
    program: str, storage: str, datasets: dict[str, Path], tmp_path: Path
) -> None:
    skip_without(CASES[program].needs)
    seen = train(program, storage, datasets[program], tmp_path, hook=True, seconds=SECONDS)
    check_that_it_proves_something(seen, program, storage)
    check_hook(seen, program)


@pytest.mark.long
@pytest.mark.skipif(find_py_spy(None) is None, reason="py-spy is not installed")
@each_storage
@each_program
def test_shares_by_stacks_alone_are_the_programs_own(
    program: str, storage: str, datasets: dict[str, Path], tmp_path: Path
) -> None:
    skip_without(CASES[program].needs)
    seen = train(program, storage, datasets[program], tmp_path, hook=False, seconds=SECONDS)
    if misses(seen):
        seen = train(program, storage, datasets[program], tmp_path, hook=False, seconds=3 * SECONDS)
    check_that_it_proves_something(seen, program, storage)
    assert seen.hook is None, "the hook was off"
    assert not misses(seen), seen.line()
    for state in STATES:
        assert is_in_the_windows_interval(seen, state), seen.line()


def test_plain_torch_on_slow_storage(datasets: dict[str, Path], tmp_path: Path) -> None:
    """The short one that every `make test` runs; it needs nothing but torch."""
    skip_without("torch")
    folder = datasets["plain_torch"]
    seen = train("plain_torch", "slow", folder, tmp_path, hook=True, seconds=12)
    check_that_it_proves_something(seen, "plain_torch", "slow")
    check_hook(seen, "plain_torch")
    assert seen.report["verdict"] == "storage", seen.line()


def skip_without(package: str) -> None:
    """The frameworks live in a virtual environment of their own."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed here: run `make test-frameworks`")


def train(
    program: str, storage: str, folder: Path, work: Path, *, hook: bool, seconds: float
) -> Seen:
    """One run, its dataset written before if need be."""
    case = CASES[program]
    if not folder.exists():
        runs.prepare(program, folder / "data")
        (folder / "saves").mkdir()
    room = work / f"{seconds:.0f}s"
    room.mkdir()
    with mounted(storage, folder, room / "mnt", case) as place:
        seen = runs.run(
            program, place / "data", place / "saves", room,
            hook=hook, seconds=seconds, workers=case.workers,
        )  # fmt: skip
    print(f"{program} {storage} hook {'on' if hook else 'off'}: {seen.line()}")
    return seen


@contextmanager
def mounted(storage: str, folder: Path, mountpoint: Path, case: Case) -> Iterator[Path]:
    """The folder as it is, or seen through slowfs."""
    if storage == "fast":
        yield folder
        return
    slow = SlowFsSettings(read_latency_s=case.read_s, write_latency_s=SAVES_MAY_TAKE_S)
    with SlowFs(folder, mountpoint, slow, cache=case.cache):
        yield mountpoint


def check_that_it_proves_something(seen: Seen, program: str, storage: str) -> None:
    """Zeros agree with zeros: on slow storage there must be something to find."""
    assert seen.steps >= 20, seen.line()
    if storage == "slow":
        assert seen.truth["data_wait"] > 0.15, seen.line()
        assert seen.truth["ckpt"] > 0.005 or not CASES[program].saves, seen.line()


def check_hook(seen: Seen, program: str) -> None:
    """Within two points, and every step counted once (accelerate is one batch ahead)."""
    assert seen.hook is not None, "the hook knows nothing of this loader"
    wait = seen.hook["data_wait"] + seen.hook["passes"] * CASES[program].starts_in_next
    assert abs(wait - seen.truth["data_wait"]) <= HOOK_POINTS, seen.line()
    assert abs(seen.hook["ckpt"] - seen.truth["ckpt"]) <= HOOK_POINTS, seen.line()
    assert seen.hook_steps is not None and abs(seen.hook_steps - seen.steps) <= 2, seen.line()


def misses(seen: Seen) -> bool:
    """Whether the looks' shares are more than five points off the truth."""
    assert seen.looks is not None
    return any(abs(seen.looks[state] - seen.truth[state]) > STACK_POINTS for state in STATES)


def is_in_the_windows_interval(seen: Seen, state: str) -> bool:
    """Of the samples of the product's own windows; true where a busy machine has too few."""
    if seen.stacks is None or seen.samples < FEWEST_SAMPLES:
        return True
    low, high = wilson(seen.stacks[state], seen.samples, 1.96)
    return low - STACK_POINTS <= seen.truth[state] <= high + STACK_POINTS
