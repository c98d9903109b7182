"""DLIO's accelerator utilisation beside the report of the same run: they mean the same wait.

DLIO's AU falls with everything that is not its asked-for sleep, late wake-ups on a busy machine
among it; its own stopwatch around the loader does not. So the wait must agree with the stopwatch
under any load, and AU can only be lower than that leaves.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.labs.dlio import WORKLOADS, Compared, Workload, generate, missing, train
from tests.labs.slowfs import SlowFs, fuse_missing

POINTS = 0.02

pytestmark = [
    pytest.mark.long,
    pytest.mark.torch,
    pytest.mark.fuse,
    pytest.mark.skipif(fuse_missing() is not None, reason=str(fuse_missing())),
]


@pytest.fixture(scope="module", params=WORKLOADS, ids=lambda workload: str(workload.name))
def workload(request: pytest.FixtureRequest) -> Workload:
    """One of DLIO's, small."""
    if why := missing(sys.executable):
        pytest.skip(why)
    chosen: Workload = request.param
    return chosen


@pytest.fixture(scope="module")
def data(workload: Workload, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its dataset."""
    room = tmp_path_factory.mktemp(workload.name)
    (room / "data").mkdir()
    generate(sys.executable, workload, room / "data", room)
    return room / "data"


def test_on_slow_storage_the_wait_is_dlios_and_storage_is_blamed(
    workload: Workload, data: Path, tmp_path: Path
) -> None:
    with SlowFs(data, tmp_path / "mount", workload.slow) as slow:
        seen = train(sys.executable, workload, slow.mountpoint, tmp_path)
    _agrees(seen)
    assert seen.waited > 0.2
    assert seen.verdict == "storage"


def test_on_a_disk_the_wait_is_dlios_and_storage_is_not_blamed(
    workload: Workload, data: Path, tmp_path: Path
) -> None:
    seen = train(sys.executable, workload, data, tmp_path)
    _agrees(seen)
    assert seen.verdict != "storage"


def _agrees(seen: Compared) -> None:
    print(seen)
    assert seen.same_busy == pytest.approx(1 - seen.waited, abs=POINTS)
    assert seen.au <= seen.same_busy + POINTS
    assert seen.au == pytest.approx(seen.same_busy - seen.late, abs=POINTS)
