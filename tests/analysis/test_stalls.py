"""Stalls by cause and mount, each mount against its own usual latency."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_io.analysis.api import analyse_store
from slurm_io.analysis.reports.text import render
from tests.analysis.report_shape import problems
from tests.analysis.rules.stores import put
from tests.analysis.stand_in import Job, StandInStore, one_rank

SLOW = range(100, 160)
"""Seconds in which batches wait for /scratch; later ones wait for /archive, or for the CPU."""


def job() -> StandInStore:
    """60 s each: waits for /scratch, for /archive, for the CPU, for nothing."""
    rank, k = one_rank(), 0
    for until, wait_s, cause in (
        (160, 0.1, "storage"), (220, 0.1, "storage"), (280, 0.1, "cpu"), (340, 0.001, "pipe"),
    ):  # fmt: skip
        while rank.now < until:
            rank.batch(wait_s, cause, index=k)
            rank.compute(0.1)
            k += 1
    store = Job([rank]).store()
    for row in store.nodes["n1"].tables["waits"]:
        if row.get("mount") and row["mono_ns"] > 161 * 10**9:
            row["mount"], row["fstype"] = "/archive", "lustre"
    return store


def with_clients(store: StandInStore) -> StandInStore:
    """/scratch is slow when it is waited for; /archive is as slow as ever."""
    put(store, "fsclient", lambda second: [
        {"mount": "/scratch", "fstype": "nfs4", "source": "mountstats", "op_class": "read",
         "ops": 9, "exe_ms": 40.0 if second <= 161 else 1.5},
        {"mount": "/archive", "fstype": "lustre", "source": "llite", "op_class": "read",
         "ops": 9, "exe_ms": 12.0},
    ])  # fmt: skip
    return store


def stalls(store: StandInStore) -> dict[tuple[str, str | None], dict[str, Any]]:
    report = analyse_store(store)
    assert problems(report) == []
    return {(one["cause"], one["mount"]): one for one in report["stalls"]}


def test_each_cause_and_mount_has_its_part() -> None:
    found = stalls(job())
    assert found["storage", "/scratch"]["share"] == pytest.approx(0.125, abs=0.03)
    assert found["storage", "/archive"]["share"] == pytest.approx(0.125, abs=0.03)
    assert found["cpu", None]["share"] == pytest.approx(0.125, abs=0.04)


def test_the_parts_of_storage_add_up_to_it() -> None:
    report = analyse_store(job())
    parts = sum(one["share"] for one in report["stalls"] if one["cause"] == "storage")
    assert parts == pytest.approx(report["idle"]["data_storage"], abs=0.005)


def test_each_mount_is_held_against_its_own_baseline() -> None:
    found = stalls(with_clients(job()))
    slow = found["storage", "/scratch"]["latency"]
    assert (slow["stalled_ms"], slow["usual_ms"], slow["above"]) == (40.0, 1.5, True)
    usual = found["storage", "/archive"]["latency"]
    assert (usual["stalled_ms"], usual["usual_ms"], usual["above"]) == (12.0, 12.0, False)


def test_without_a_client_there_is_a_reason() -> None:
    one = stalls(job())["storage", "/scratch"]
    assert one["latency"] is None
    assert one["reason"]


def test_two_mounts_make_a_line_and_one_does_not() -> None:
    text = render(analyse_store(with_clients(job())))
    [line] = [each for each in text.splitlines() if each.startswith("mounts ")]
    assert "/scratch (nfs4)" in line
    alone = job()
    for row in alone.nodes["n1"].tables["waits"]:
        if row.get("mount"):
            row["mount"], row["fstype"] = "/scratch", "nfs4"
    assert "\nmounts " not in render(analyse_store(alone))


def test_a_healthy_job_has_none() -> None:
    rank = one_rank()
    for k in range(400):
        rank.batch(0.001, "pipe", index=k)
        rank.compute(0.1)
    assert analyse_store(Job([rank]).store())["stalls"] == []
