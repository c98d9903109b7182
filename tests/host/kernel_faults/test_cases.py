"""The public cases E04 and E06 give their expected answers, and none of what they must not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slurm_io.host.kernel_faults.families import events_of, judge
from slurm_io.host.kernel_faults.model import Finding, View
from slurm_io.host.kernel_log import parse_log_text

CASES = Path(__file__).parents[2] / "fixtures" / "cases"
NVME = CASES / "E04"
NFS = CASES / "E06"


def expected(case: Path) -> dict[str, dict[str, Any]]:
    answer: dict[str, dict[str, Any]] = json.loads((case / "expected.json").read_text())["answer"]
    return answer


def only_finding(path: Path) -> Finding:
    findings = judge(events_of(parse_log_text(path.read_text())), View())
    assert len(findings) == 1
    return findings[0]


@pytest.mark.parametrize("name", sorted(expected(NVME)))
def test_nvme_in_three_grades(name: str) -> None:
    finding, wanted = only_finding(NVME / name), expected(NVME)[name]
    assert finding.facts["device"] == wanted["device"]
    assert finding.answer == wanted["answer"]
    assert (finding.answer == "FAIL" and finding.kind == "node") == wanted["node_fault"]
    for figure in ("timeouts", "resets", "io_errors", "removed", "after_reset_alive"):
        if figure in wanted:
            assert finding.facts[figure] == wanted[figure], figure


def test_one_failed_read_printed_twice_is_one_error_and_no_good_day() -> None:
    finding = only_finding(NVME / "c_day.txt")
    assert finding.facts["io_errors"] != 2
    assert finding.answer != "OK"


@pytest.mark.parametrize("name", sorted(expected(NFS)))
def test_nfs_now_or_then(name: str) -> None:
    finding, wanted = only_finding(NFS / name), expected(NFS)[name]
    assert (finding.answer, finding.kind) == (wanted["answer"], wanted["kind"])
    assert (finding.answer == "FAIL" and finding.kind == "node") == wanted.get("drain", False)
    for fact in ("hung_now", "server", "events", "apps_see"):
        if fact in wanted:
            assert finding.facts[fact] == wanted[fact], fact
    if "outage_s" in wanted:
        assert finding.facts["outage_s"] == pytest.approx(wanted["outage_s"], abs=0.05)


def test_a_dead_server_is_seen_and_drains_nobody() -> None:
    finding = only_finding(NFS / "hard.txt")
    assert finding.answer != "OK"
    assert finding.kind != "node"


def test_the_lockup_names_the_function_it_is_stuck_in() -> None:
    assert only_finding(NFS / "lockup.txt").facts["stuck_in"] == "nfs_lock_and_join_requests [nfs]"
