"""Questions to several places: one that hangs costs itself only."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurm_io.host.place_probes import PlaceProbes


def answer(value: object) -> object:
    return value


def hang() -> None:
    time.sleep(60)


def refuse() -> None:
    raise PermissionError(13, "Permission denied")


def gathered(probes: PlaceProbes, until: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    end_s = time.monotonic() + 10
    while not until(found):
        assert time.monotonic() < end_s
        found |= probes.take()
        time.sleep(0.005)
    return found


def ended(probes: PlaceProbes) -> Callable[[dict[str, Any]], bool]:
    return lambda _found: not probes.is_asking


def test_values_by_place_without_waiting() -> None:
    probes = PlaceProbes(5.0)
    probes.ask({"a": (answer, (1,)), "b": (answer, ({"x": [2]},))})
    assert probes.is_asking
    assert gathered(probes, ended(probes)) == {"a": 1, "b": {"x": [2]}}
    assert probes.take() == {} and probes.failures == {}


def test_a_place_that_hangs_costs_no_others_answer() -> None:
    probes = PlaceProbes(0.2)
    began_s = time.monotonic()
    probes.ask({"a": (answer, (1,)), "hangs": (hang, ()), "b": (answer, (2,))})
    probes.take()
    assert time.monotonic() - began_s < 0.15
    assert gathered(probes, ended(probes)) == {"a": 1, "b": 2}
    assert probes.failures.keys() == {"hangs"}
    assert "0.2 s" in probes.failures["hangs"]["reason"]


def test_a_place_that_refuses_is_counted_with_its_reason() -> None:
    probes = PlaceProbes(5.0)
    for _ in range(2):
        probes.ask({"no": (refuse, ())})
        gathered(probes, ended(probes))
    assert probes.failures == {"no": {"count": 2, "reason": "Permission denied"}}


def test_none_follows_a_child_that_cannot_be_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    # As a child in state D: whoever kills it sees it live on.
    probes = PlaceProbes(0.05)
    kill, spared = os.kill, []
    monkeypatch.setattr(os, "kill", lambda pid, number: spared.append(pid))
    probes.ask({"stuck": (hang, ())})
    gathered(probes, ended(probes))
    probes._timeout_s = 5.0  # whoever answers may take its time
    probes.ask({"stuck": (hang, ()), "a": (answer, (1,))})
    assert gathered(probes, ended(probes)) == {"a": 1}
    assert probes.failures["stuck"]["count"] == 2
    assert f"child {spared[0]} still hangs" in probes.failures["stuck"]["reason"]
    kill(spared[0], signal.SIGKILL)
    monkeypatch.undo()
    wait_until_dead(spared[0])
    probes.ask({"stuck": (answer, (3,))})
    assert gathered(probes, ended(probes)) == {"stuck": 3}


def test_many_places_that_hang_leave_no_more_than_eight_children(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    probes = PlaceProbes(0.02)
    kill, spared = os.kill, []
    monkeypatch.setattr(os, "kill", lambda pid, number: spared.append(pid))
    for _ in range(3):
        probes.ask({f"mount {number}": (hang, ()) for number in range(12)})
        gathered(probes, ended(probes))
    assert len(set(spared)) == 8
    assert "not asked: 8 children" in probes.failures["mount 11"]["reason"]
    monkeypatch.undo()
    for pid in set(spared):
        kill(pid, signal.SIGKILL)
        wait_until_dead(pid)
    probes._timeout_s = 5.0
    probes.ask({"mount 11": (answer, (3,))})
    assert gathered(probes, ended(probes)) == {"mount 11": 3}


def test_failures_of_ever_new_places_are_not_kept_for_ever() -> None:
    probes = PlaceProbes(5.0)
    for first in range(0, 400, 50):
        probes.ask({f"m{number}": (refuse, ()) for number in range(first, first + 50)})
        gathered(probes, ended(probes))
    assert len(probes.failures) == 256 and "m399" in probes.failures


def wait_until_dead(pid: int) -> None:
    """Until it has become a zombie, which the next look reaps."""
    end_s = time.monotonic() + 5
    while b"Z" not in Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]:
        assert time.monotonic() < end_s
        time.sleep(0.005)


def test_a_new_round_ends_the_one_before() -> None:
    probes = PlaceProbes(30.0)
    probes.ask({"hangs": (hang, ())})
    probes.ask({"a": (answer, (1,))})
    assert gathered(probes, ended(probes)) == {"a": 1}
    probes.ask({})
    assert not probes.is_asking
    probes.stop()
