"""When a slow first pass proves storage, and everything that only looks like it."""

from __future__ import annotations

import dataclasses

import pytest

from slurm_io.analysis.api import analyse_store
from slurm_io.analysis.cold_epoch import CONTRAST
from slurm_io.analysis.picture import take_picture
from slurm_io.analysis.thresholds import Thresholds
from slurm_io.analysis.witness import Witness
from tests.analysis.passes import COLD, MIB, WARM, Pass, passes_job
from tests.analysis.stand_in import StandInStore


def contrast_of(store: StandInStore) -> Witness:
    witnesses = take_picture(store, Thresholds()).witnesses
    return next(one for one in witnesses if one.name == CONTRAST)


@pytest.mark.parametrize("workers", [0, 2])
def test_cold_then_warm_is_a_witness(workers: int) -> None:
    found = contrast_of(passes_job([COLD, WARM, WARM], workers=workers))
    assert found.agrees is True
    assert f"waited {99 if workers else 100}.0 ms" in found.text
    assert found.value is not None
    assert found.value > 10


def test_it_makes_a_storage_cause_proven_where_no_other_witness_speaks() -> None:
    """Read calls were not counted: there is no effective latency."""
    alone = analyse_store(passes_job([COLD, COLD, COLD], calls_counted=False))
    both = analyse_store(passes_job([COLD, WARM, WARM], calls_counted=False))
    confidence = [
        next(one["confidence"] for one in report["findings"] if one["rule"] == "F01")
        for report in (alone, both)
    ]
    assert confidence == ["likely", "proven"]
    assert [report["reads"]["contrast"]["agrees"] for report in (alone, both)] == [None, True]


@pytest.mark.parametrize(
    ("passes", "why"),
    [
        ([COLD, COLD, COLD], "from storage again"),
        ([COLD, dataclasses.replace(WARM, asked=MIB)], "asked for less"),
        ([dataclasses.replace(COLD, cpu_ns=90 * 10**6), WARM], "burned more CPU"),
        ([COLD], "one pass"),
        ([dataclasses.replace(COLD, read=MIB // 4), WARM], "most of what it asked for in memory"),
        ([dataclasses.replace(COLD, read=0), WARM], "next to nothing"),
    ],
    ids=["thrash", "kept by the program", "other work", "one pass", "warm already", "no reads"],
)
def test_what_only_looks_like_it_is_none(passes: list[Pass], why: str) -> None:
    found = contrast_of(passes_job(passes))
    assert found.agrees is None
    assert why in found.text


def test_waits_that_stay_when_reads_are_gone_speak_against_storage() -> None:
    slow = dataclasses.replace(WARM, wait_s=0.1)
    found = contrast_of(passes_job([COLD, slow, slow]))
    assert found.agrees is False


def test_passes_that_are_too_short_are_none() -> None:
    found = contrast_of(passes_job([COLD, WARM], batches=20, compute_s=0.02))
    assert found.agrees is None
    assert "passes of less than" in found.text


def test_workers_that_were_hardly_seen_are_none() -> None:
    found = contrast_of(passes_job([COLD, WARM, WARM], restarted=True, unseen_s=7))
    assert found.agrees is None
    assert "too little of their time" in found.text


def test_restarted_workers_that_were_seen_are_enough() -> None:
    store = passes_job([COLD, WARM, WARM], restarted=True, unseen_s=2)
    assert contrast_of(store).agrees is True


def test_a_job_attached_to_has_no_first_pass() -> None:
    store = passes_job([COLD, WARM])
    store.extra["attached"] = {"duration_s": 60}
    assert "not seen from its beginning" in contrast_of(store).text


def test_a_file_system_that_counts_nothing_is_no_warm_pass() -> None:
    silent = [dataclasses.replace(one, read=0) for one in (COLD, WARM)]
    found = contrast_of(passes_job(silent, fstype="fuse.sshfs"))
    assert found.agrees is None
    assert "not known" in found.text


def test_mapped_files_are_judged_by_bytes_and_cpu() -> None:
    cold = dataclasses.replace(COLD, asked=1000, majflt=200)
    store = passes_job([cold, dataclasses.replace(WARM, asked=1000)])
    for row in store.nodes["n1"].tables["waits"]:
        if row.get("n_storage"):
            row["n_fault"] = row["n_storage"]
    assert contrast_of(store).agrees is True


def test_other_jobs_reads_on_the_mount_are_no_cold_pass() -> None:
    """The client's bytes are the whole node's: far more than was asked for is somebody else's."""
    silent = [dataclasses.replace(one, read=0) for one in (COLD, WARM)]
    store = passes_job(silent, fstype="nfs4")
    node = store.nodes["n1"]
    node.meta["sources"]["nfs"] = {"state": "on"}
    node.tables["fsclient"] = [
        {"ts_ns": 1, "mono_ns": second * 10**9, "interval_ns": 10**9, "mount": "/scratch",
         "fstype": "nfs4", "source": "mountstats", "op_class": "read", "ops": 10,
         "bytes": 100 * MIB}
        for second in range(101, 120)
    ]  # fmt: skip
    assert contrast_of(store).agrees is None
    for row in node.tables["fsclient"]:
        row["bytes"] = 10 * MIB
    assert contrast_of(store).agrees is True
