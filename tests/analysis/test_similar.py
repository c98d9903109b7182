"""A finding names a public incident only where rule, sign and file system fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slurm_io.analysis.api import analyse_store
from slurm_io.analysis.reports.text import render
from slurm_io.analysis.rules.base import Evidence, Finding, Place
from slurm_io.analysis.similar import mount_types, similar
from slurm_io.incidents.library import incidents
from tests.analysis.stand_in import Job, StandInStore, one_rank, train

WEKA = {"/weka": "wekafs", "/home": "nfs4"}


def finding(rule: str, mount: str = "/weka", **metrics: float) -> Finding:
    return Finding(
        rule=rule, severity="bad", confidence="likely", title="t", lost_gpu_s=None,
        where=Place(mounts=(mount,)), remedy="r",
        evidence=tuple(Evidence("e", name, value, 0.5) for name, value in metrics.items()),
    )  # fmt: skip


def test_rule_and_file_system_have_to_fit() -> None:
    assert similar(finding("F08"), WEKA) == ["smollm3-evicted-shards"]
    assert similar(finding("F08", "/home"), WEKA) == []
    assert similar(finding("F08", "/elsewhere"), WEKA) == []
    assert similar(finding("F08"), {"/weka": "lustre"}) == ["fsx-lazy-load"]
    assert "smollm3-evicted-shards" not in similar(finding("F09"), WEKA)


def test_a_sign_has_to_reach_its_threshold() -> None:
    assert similar(finding("F02", aligned_share=0.7), WEKA) == ["smollm3-evicted-shards"]
    assert similar(finding("F02", aligned_share=0.4), WEKA) == []
    assert similar(finding("F02", other=0.7), WEKA) == []
    assert similar(finding("F04", "/x", checkpoint_share=0.19), {}) == []
    assert similar(finding("F04", "/x", checkpoint_share=0.2), {}) == [
        "icse24-blocking-checkpoints"
    ]


def test_what_is_not_proven_is_like_nothing() -> None:
    unsure = replace(finding("F09"), confidence="not-proven")
    assert similar(finding("F09"), {}) == ["smollm3-index-growth"]
    assert similar(unsure, {}) == []


def test_storage_and_cpu_findings_of_one_rule_are_told_apart() -> None:
    assert similar(finding("F01", data_cpu_share=0.9), WEKA) == ["flux-parquet-decode"]
    assert similar(finding("F01", data_storage_share=0.9), WEKA) == []


@pytest.mark.parametrize("mounts", [None, "x", [1], [{"mount": 1, "fstype": "a"}], [{}]])
def test_nonsense_in_meta_is_no_mount(mounts: Any) -> None:
    store = Job([train(one_rank(), 60, 0.05, lambda k: (0.1, "storage"))]).store()
    store.nodes["n1"].meta["mounts"] = mounts
    assert mount_types(store) == {}
    assert analyse_store(store)["findings"][0]["similar"] == []


def varying_job(fstype: str) -> StandInStore:
    """Every twentieth read takes a hundred times as long."""
    rank = train(one_rank(), 600, 0.05, lambda k: (3.0 if k % 20 == 7 else 0.002, "storage"))
    store = Job([rank], mount="/weka", fstype=fstype).store()
    store.nodes["n1"].meta["mounts"] = [{"mount": "/weka", "fstype": fstype}]
    return store


def test_the_report_names_it_in_one_line_and_only_on_that_file_system() -> None:
    report = analyse_store(varying_job("wekafs"))
    by_rule = {each["rule"]: each["similar"] for each in report["findings"]}
    assert by_rule["F02"] == ["smollm3-evicted-shards"]
    title = next(one.title for one in incidents() if one.id == "smollm3-evicted-shards")
    assert f"similar   smollm3-evicted-shards: {title}" in " ".join(render(report).split("\n"))
    assert "similar" not in render(analyse_store(varying_job("nfs4")))


def test_a_report_of_an_older_version_has_no_such_line() -> None:
    report = analyse_store(varying_job("wekafs"))
    for each in report["findings"]:
        del each["similar"]
    assert "similar" not in render(report)
    report["findings"][0]["similar"] = ["an-incident-of-tomorrow"]
    assert "similar" not in render(report)
