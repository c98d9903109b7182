"""GPUs that were in a node when it failed are known when they come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_io.reservation.history import HistoryRecord
from slurm_io.reservation.model import NodeSays
from slurm_io.reservation.status import gpu_ledger
from slurm_io.reservation.status.gpu_ledger import Stay, notes_on, parse, seen, try_update

DAY_S = 86400.0
NOW_S = 1_000_000_000.0


def says(node: str, *gpus: str, at_s: float = NOW_S) -> NodeSays:
    return NodeSays(node, at_s, gpus=gpus)


def failed(node: str, days_ago: float, *gpus: str) -> HistoryRecord:
    return HistoryRecord("failure", NOW_S - days_ago * DAY_S, bad=node, gpus=gpus)


def test_a_gpu_that_stays_has_one_stay_and_one_that_moves_has_two() -> None:
    ledger = seen({}, [says("n1", "GPU-1", at_s=1.0)])
    ledger = seen(ledger, [says("n1", "GPU-1", at_s=5.0)])
    assert ledger == {"GPU-1": (Stay("n1", 1.0, 5.0),)}
    ledger = seen(ledger, [says("n2", "GPU-1", at_s=9.0)])
    assert ledger["GPU-1"][-1] == Stay("n2", 9.0, 9.0)


def test_the_same_gpu_back_in_the_repaired_node() -> None:
    ledger = {"GPU-1": (Stay("n1", NOW_S - 30 * DAY_S, NOW_S),)}
    assert notes_on(says("n1", "GPU-1"), ledger, [failed("n1", 4)]) == (
        "GPU-1 was in this node when it failed 4 days ago",
    )


def test_a_gpu_that_came_from_a_failed_node() -> None:
    stays = (Stay("n1", NOW_S - 30 * DAY_S, NOW_S - 4.5 * DAY_S), Stay("n4", NOW_S, NOW_S))
    assert notes_on(says("n4", "GPU-1"), {"GPU-1": stays}, [failed("n1", 4)]) == (
        "GPU-1 was in n1 when it failed 4 days ago",
    )


def test_the_record_s_own_list_is_enough() -> None:
    assert notes_on(says("n4", "GPU-1"), {}, [failed("n1", 4, "GPU-1")]) != ()


@pytest.mark.parametrize("record", [failed("n1", 40), failed("n2", 4), failed("n1", 400, "GPU-1")])
def test_failures_elsewhere_before_or_long_ago_are_no_matter(record: HistoryRecord) -> None:
    ledger = {"GPU-1": (Stay("n1", NOW_S - 30 * DAY_S, NOW_S),)}
    assert notes_on(says("n1", "GPU-1"), ledger, [record]) == ()


def test_it_is_kept_between_looks(tmp_path: Path) -> None:
    try_update(str(tmp_path), "train", [says("n1", "GPU-1", at_s=1.0)])
    ledger, problem = try_update(str(tmp_path), "train", [says("n2", "GPU-1", at_s=9.0)])
    assert problem == ""
    assert [stay.node for stay in ledger["GPU-1"]] == ["n1", "n2"]


def test_it_cannot_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_ledger, "_MOST_GPUS", 3)
    ledger = seen({}, [says("n1", *(f"GPU-{n}" for n in range(9)))])
    assert len(ledger) == 3
    for at_s in range(30):
        ledger = seen({}, [says(f"n{at_s % 2}", "GPU-1", at_s=float(at_s))])
    assert len(ledger["GPU-1"]) <= 8


def test_a_folder_that_others_can_change_is_a_note_and_no_error(tmp_path: Path) -> None:
    try_update(str(tmp_path), "train", [says("n1", "GPU-1")])
    (tmp_path / "reservations").chmod(0o777)
    ledger, problem = try_update(str(tmp_path), "train", [says("n1", "GPU-1")])
    assert "GPU history not read" in problem
    assert list(ledger) == ["GPU-1"]


@pytest.mark.parametrize(
    "raw",
    [b"", b"[]", b"null", b'{"gpus": 1}', b'{"gpus": {"GPU-1": [1]}}', b"[" * 9999,
     b'{"gpus": {"GPU-1": [{"node": 3, "first_s": 1, "last_s": 2}]}}',
     b'{"gpus": {"GPU-1": [{"node": "n1", "first_s": "x", "last_s": 2}]}}'],
)  # fmt: skip
def test_a_damaged_file_is_an_empty_ledger(raw: bytes) -> None:
    assert parse(raw) == {}
