"""The watch as a process: one for a reservation, ended by a signal at once, remembered over a kill,
known to systemd."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_io.config import SparesConfig
from slurm_io.errors import HostError
from slurm_io.reservation.watch.act import Event
from slurm_io.reservation.watch.daemon import Watched, watch
from slurm_io.reservation.watch.keeping import load_memory, only_watch, save_memory
from slurm_io.reservation.watch.memory import Memory
from slurm_io.reservation.watch.notify import notify_systemd
from slurm_io.reservation.watch.one_look import How
from slurm_io.reservation.watch.unit import unit_text
from tests.reservation.watch.scripted import SPARES, ScriptedWorld

HOW = How("train", SPARES, "auto")
# A watch over a scripted reservation whose look can be made to hang.
PROGRAM = """
import sys, time
from concurrent.futures import ThreadPoolExecutor
from slurm_io.reservation.watch.daemon import Watched, watch
from tests.reservation.watch.scripted import ScriptedWorld
from tests.reservation.watch.test_daemon import HOW
class World(ScriptedWorld):
    def look(self, at_s, left):
        print("looks", flush=True)
        if sys.argv[2] == "hangs":
            time.sleep(600)
        if sys.argv[2] == "waits for threads":
            with ThreadPoolExecutor() as pool:
                pool.submit(time.sleep, 600).result()
        return super().look(at_s, left)
watch([Watched(World(), HOW)], sys.argv[1], lambda event: None)
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    return tmp_path


def started(state: Path, how: str, notify: str = "") -> subprocess.Popen[str]:
    environment = {**os.environ, "NOTIFY_SOCKET": notify}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(state), how],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=Path(__file__).parents[3],
    )
    assert process.stdout is not None and process.stdout.readline() == "looks\n"
    return process


@pytest.mark.parametrize("how", ["sleeps", "hangs", "waits for threads"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_it_whatever_it_waits_for(state: Path, how: str, number: int) -> None:
    with started(state, how) as process:
        process.send_signal(number)
        assert process.wait(20) == 0


def test_second_watch_of_a_reservation_is_refused_until_the_first_was_killed(state: Path) -> None:
    with started(state, "hangs") as process:
        with pytest.raises(HostError, match=f"process {process.pid}"):
            watch([Watched(ScriptedWorld(), HOW)], str(state), print, once=True)
        process.kill()
        process.wait()
    assert watch([Watched(ScriptedWorld(), HOW)], str(state), print, once=True) == 0


def test_systemd_is_told_of_ready_alive_and_stopping(state: Path, tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(address)
        systemd.settimeout(30)
        with started(state, "sleeps", address) as process:
            assert [systemd.recv(99), systemd.recv(99)] == [b"READY=1", b"WATCHDOG=1"]
            process.terminate()
            assert systemd.recv(99) == b"STOPPING=1"


def test_no_systemd_no_words() -> None:
    assert not notify_systemd("READY=1", {})
    assert not notify_systemd("READY=1", {"NOTIFY_SOCKET": "/no/such/socket"})
    assert not notify_systemd("READY=1", {"NOTIFY_SOCKET": "vsock:2:1234"})


def test_task_that_runs_is_known_to_the_next_watch(state: Path) -> None:
    world = ScriptedWorld()
    world.set("t2", "DOWN")
    how = How("train", SparesConfig(grace_s=0), "auto")
    watch([Watched(world, how)], str(state), lambda event: None, once=True)
    again = Watched(world, how)
    watch([again], str(state), lambda event: None, once=True)
    assert len(world.started) == 1 and again.memory.tasks["swap t2"].pid == 1


def test_damaged_memory_is_told_and_replaced(state: Path) -> None:
    save_memory(str(state), "train", Memory())
    path = state / "reservations" / "train" / "watch.json"
    path.write_text('{"bad": 5}')
    said: list[Event] = []
    watch([Watched(ScriptedWorld(), HOW)], str(state), said.append, once=True)
    assert "known situations are told again" in said[0].text
    assert load_memory(str(state), "train").last_look_s > 0


@pytest.fixture
def open_folder(state: Path) -> Iterator[Path]:
    (state / "reservations").mkdir()
    (state / "reservations").chmod(0o777)
    yield state


def test_state_that_others_can_change_is_refused(open_folder: Path) -> None:
    with pytest.raises(HostError, match="others"), only_watch(str(open_folder), "train"):
        pass


def test_unit_leaves_swaps_alone_and_names_the_configuration() -> None:
    unit = unit_text(("train", "more"), SparesConfig(), "/etc/with space.toml")
    assert "KillMode=process" in unit and "WatchdogSec=600" in unit
    assert "spare watch train more --config '/etc/with space.toml'" in unit
