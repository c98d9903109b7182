"""The history of a reservation: appended durably, readable after any crash, bounded."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import time
from pathlib import Path

import pytest

from slurm_io.errors import HostError
from slurm_io.reservation import history
from slurm_io.reservation.history import DONE, History, HistoryRecord, parse_line

SWAP = HistoryRecord(
    "swap", 1000.0, "n2", "n4", "7", {"detect": 61.5, "clear": 12.0, "prolog": 3.0}, DONE
)


def file_of(tmp_path: Path) -> Path:
    return tmp_path / "reservations" / "train" / "history.jsonl"


def test_what_was_appended_is_read_oldest_first(tmp_path: Path) -> None:
    kept = History(str(tmp_path), "train")
    assert kept.read() == ()
    late = HistoryRecord("failure", 2000.0, bad="n3", gpus=("GPU-1",))
    kept.append(late)
    kept.append(SWAP)
    assert kept.read() == (SWAP, late)


def test_a_folder_named_after_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURMD_NODENAME", "n7")
    History(f"{tmp_path}/of-%N", "train").append(SWAP)
    assert (tmp_path / "of-n7" / "reservations" / "train" / "history.jsonl").exists()
    assert History(f"{tmp_path}/of-%N", "train").read() == (SWAP,)


def test_a_torn_line_costs_that_line_only(tmp_path: Path) -> None:
    kept = History(str(tmp_path), "train")
    kept.append(SWAP)
    with file_of(tmp_path).open("ab") as file:
        file.write(b'{"kind": "swap", "at_s": 15')
    assert kept.read() == (SWAP,)
    kept.append(HistoryRecord("repair", 3000.0, bad="n2"))
    assert [record.kind for record in kept.read()] == ["swap", "repair"]


def test_it_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "TURN_BYTES", 4096)
    kept = History(str(tmp_path), "train")
    for at_s in range(200):
        kept.append(HistoryRecord("failure", float(at_s), bad="n1"))
    assert file_of(tmp_path).stat().st_size <= 4096
    found = [record.at_s for record in kept.read()]
    assert found[-1] == 199.0
    assert found == sorted(found)
    assert len(found) >= 10


def test_writers_side_by_side_lose_nothing_but_the_oldest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line written while another writer turns the file over must not go down with the old one."""
    monkeypatch.setattr(history, "TURN_BYTES", 8192)

    def write(name: str) -> None:
        for number in range(150):
            History(str(tmp_path), "train").append(HistoryRecord("failure", number, name))

    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=write, args=(name,)) for name in ("a", "b", "c")]
    for each in writers:
        each.start()
    for each in writers:
        each.join(120)
    lines = file_of(tmp_path).read_bytes().splitlines()
    found = [parse_line(line) for line in lines]
    kept = [(record.bad, int(record.at_s)) for record in found if record is not None]
    assert len(kept) == len(lines) > 10
    for name in ("a", "b", "c"):
        numbers = [number for bad, number in kept if bad == name]
        assert numbers == list(range(150))[-len(numbers) :] if numbers else True


def test_a_writer_waits_while_another_one_turns_the_file_over(tmp_path: Path) -> None:
    kept = History(str(tmp_path), "train")
    kept.append(SWAP)
    lock = (tmp_path / "reservations" / "train" / "history.lock").open("rb")
    fcntl.flock(lock, fcntl.LOCK_EX)
    writer = multiprocessing.get_context("fork").Process(target=kept.append, args=(SWAP,))
    writer.start()
    end_s = time.monotonic() + 30
    while not (waited := waits_for_a_lock(writer.pid)) and writer.is_alive():
        assert time.monotonic() < end_s
    fcntl.flock(lock, fcntl.LOCK_UN)  # closing would not do: the writer has inherited it
    writer.join(60)
    lock.close()
    assert waited
    assert len(kept.read()) == 2


def waits_for_a_lock(pid: int | None) -> bool:
    """As the kernel lists it: ``1: -> FLOCK ADVISORY WRITE PID …``."""
    lines = Path("/proc/locks").read_text().splitlines()
    return any(" -> FLOCK " in line and f" {pid} " in line for line in lines)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[1]",
        b"\xff\xfe",
        b'{"kind": "party", "at_s": 1}',
        b'{"kind": "swap"}',
        b'{"kind": "swap", "at_s": NaN}',
        b'{"kind": "swap", "at_s": true}',
        b'{"kind": "swap", "at_s": 1' + b"0" * 400 + b"}",
        b'{"kind": "swap", "at_s": 1, "phases": {"detect": "long"}}',
        b'{"kind": "swap", "at_s": 1, "phases": []}',
        b'{"kind": "swap", "at_s": 1, "bad": ["n1"]}',
        b'{"kind": "swap", "at_s": 1, "gpus": [1]}',
        b"[" * 10000,
        b'{"kind": "failure", "at_s": 1, "bad": "' + b"n" * 20000 + b'"}',
    ],
)
def test_what_is_no_record_is_left_out(line: bytes) -> None:
    assert parse_line(line) is None


def test_unknown_phases_and_negative_times_are_no_measurements() -> None:
    found = parse_line(
        json.dumps({"kind": "drill", "at_s": 1, "phases": {"lunch": 5, "init": -3, "load": 9}})
        .encode()
    )  # fmt: skip
    assert found is not None
    assert found.phases == {"load": 9.0}


def test_texts_are_clipped(tmp_path: Path) -> None:
    kept = History(str(tmp_path), "train")
    kept.append(HistoryRecord("swap", 1.0, outcome="x" * 5000))
    assert len(kept.read()[0].outcome) == 256


def test_a_folder_that_others_can_change_is_refused(tmp_path: Path) -> None:
    kept = History(str(tmp_path), "train")
    kept.append(SWAP)
    (tmp_path / "reservations").chmod(0o777)
    with pytest.raises(HostError, match="written by others"):
        kept.read()
    with pytest.raises(HostError):
        kept.append(SWAP)


def test_a_link_in_the_file_s_place_is_not_followed(tmp_path: Path) -> None:
    kept = History(str(tmp_path), "train")
    kept.append(SWAP)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    file_of(tmp_path).unlink()
    file_of(tmp_path).symlink_to(victim)
    with pytest.raises(HostError):
        kept.append(SWAP)
    with pytest.raises(HostError):
        kept.read()
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\nb"])
def test_a_name_that_is_no_folder_s_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(HostError, match="reservation's name"):
        History(str(tmp_path), name)
