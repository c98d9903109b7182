"""The lease of one reservation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from slurm_io.errors import HostError
from slurm_io.reservation.swap.lock import Lock, held, holder_of

HOLD = """
import sys, time
from slurm_io.reservation.swap.lock import Lock
Lock(sys.argv[1], "R", 600.0, "a drill").take()
print("taken", flush=True)
time.sleep(600)
"""


def path_of(folder: Path) -> Path:
    return folder / "reservations" / "R" / "swap.lock"


def change(folder: Path, **values: Any) -> None:
    path = path_of(folder)
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.fixture
def other(tmp_path: Path) -> Any:
    """A process that holds the lease."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "taken\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_one_at_a_time_and_the_holder_is_named(tmp_path: Path, other: Any) -> None:
    with pytest.raises(HostError, match=f"a drill by pid {other.pid} on"):
        Lock(str(tmp_path), "R", 60.0, "").take()
    holder = holder_of(str(tmp_path), "R")
    assert holder is not None and holder.pid == other.pid
    Lock(str(tmp_path), "other", 60.0, "").take()


def test_a_dead_holders_lease_is_free_at_once(tmp_path: Path, other: Any) -> None:
    other.kill()
    other.wait()
    assert holder_of(str(tmp_path), "R") is None
    Lock(str(tmp_path), "R", 60.0, "").take()


@pytest.mark.parametrize(
    ("values", "is_free"),
    [
        ({"until_s": time.time() - 1}, True),
        ({"boot_id": "an earlier one"}, True),
        ({"host": "elsewhere"}, False),
        ({"host": "elsewhere", "until_s": 0}, True),
        ({"started": 1}, True),
    ],
)
def test_when_a_lease_is_free(
    tmp_path: Path, other: Any, values: dict[str, Any], is_free: bool
) -> None:
    change(tmp_path, **values)
    assert (holder_of(str(tmp_path), "R") is None) is is_free
    if is_free:
        Lock(str(tmp_path), "R", 60.0, "").take()
    else:
        with pytest.raises(HostError):
            Lock(str(tmp_path), "R", 60.0, "").take()


def test_it_is_given_back(tmp_path: Path) -> None:
    with held(str(tmp_path), "R", 60.0, "a swap"):
        holder = holder_of(str(tmp_path), "R")
        assert holder is not None and holder.pid == os.getpid()
    assert holder_of(str(tmp_path), "R") is None and not path_of(tmp_path).exists()


def test_who_lost_it_stops_and_does_not_give_it_away(tmp_path: Path) -> None:
    lock = Lock(str(tmp_path), "R", 0.001, "a swap")
    lock.take()
    change(tmp_path, host="elsewhere", until_s=time.time() + 60)
    with pytest.raises(HostError, match="was lost to"):
        lock.renew()
    lock.release()
    assert path_of(tmp_path).exists()


def test_a_damaged_lease_is_none(tmp_path: Path) -> None:
    Lock(str(tmp_path), "R", 60.0, "").take()
    path_of(tmp_path).write_text("{")
    Lock(str(tmp_path), "R", 60.0, "").take()
