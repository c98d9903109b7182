"""F08: what the residency check said of the dataset, and whether training waited for it."""

from __future__ import annotations

import pytest

from slurm_io.analysis.rules.base import Answer
from tests.analysis.rules.stores import Row, answer, check, healthy, job, starved, text_of
from tests.analysis.stand_in import Rank, StandInStore

RULE = "f08_tier_eviction"
RELEASED: Row = {"counts": {"resident": 2000, "released": 400}, "files": 2400,
                 "missing_bytes": 4 * 10**12, "source": "lustre.lov",
                 "not_resident": [{"path": "data/shard-1.tar", "state": "released"}]}  # fmt: skip


def judged(rank: Rank, *checks: Row, fstype: str = "lustre") -> Answer:
    store: StandInStore = job(rank, fstype=fstype)
    store.nodes["n1"].meta["mounts"] = [{"mount": "/scratch", "fstype": fstype}]
    if checks:
        store.nodes["n1"].checks = {"checks": list(checks)}
    return answer(RULE, store)


def test_released_files_that_training_waits_for() -> None:
    commands = ["lfs hsm_restore /scratch/data/*"]
    released = check("residency", "FAIL", "400 files away", facts=RELEASED, commands=commands)
    said = judged(starved(), released)
    [finding] = said.findings
    assert (finding.severity, finding.confidence) == ("bad", "proven")
    assert finding.commands == ("lfs hsm_restore /scratch/data/*",)
    assert finding.where.files == ("data/shard-1.tar",)
    assert finding.where.mounts == ("/scratch",)
    assert "400 files of 2400 were released and 0 partly away, 4 TB to fetch" in text_of(said)
    assert "1 of these very files" in text_of(said)


def test_released_files_that_nobody_waits_for_are_likely_and_no_more() -> None:
    [finding] = judged(healthy(), check("residency", "FAIL", facts=RELEASED)).findings
    assert (finding.severity, finding.confidence) == ("warn", "likely")
    assert finding.where.mounts == ()


def test_a_wait_for_other_files_proves_nothing() -> None:
    other = RELEASED | {"not_resident": [{"path": "data/other.tar"}]}
    [finding] = judged(starved(), check("residency", "FAIL", facts=other)).findings
    assert (finding.severity, finding.confidence) == ("bad", "likely")
    [finding] = judged(
        starved(), check("residency", "FAIL", facts=other), fstype="nfs4"
    ).findings  # fmt: skip
    assert (finding.severity, finding.confidence) == ("warn", "likely")
    assert finding.where.mounts == (), "what was waited for lies elsewhere"


def test_files_partly_away_count() -> None:
    facts = {"counts": {"partial": 3}, "files": 10}
    assert judged(starved(), check("residency", "DEGRADED", facts=facts)).state == "fired"


def test_files_that_only_look_it_never_make_it_fire() -> None:
    """Sparse and compressed files have few blocks too."""
    facts = {"counts": {"suspect": 400, "resident": 2000}}
    said = judged(starved(), check("residency", "DEGRADED", facts=facts))
    assert said.state == "quiet"
    assert "sparse" in said.reason


def test_all_resident_is_quiet_however_slow_reads_are() -> None:
    facts = {"counts": {"resident": 2400}}
    assert judged(starved(), check("residency", facts=facts)).state == "quiet"


def test_a_check_that_could_not_tell_is_no_answer_and_gives_its_reason() -> None:
    said = judged(starved(), check("residency", "UNKNOWN", "no time left"))
    assert (said.state, said.reason) == ("not enough evidence", "no time left")


def test_nobody_asked() -> None:
    said = judged(starved())
    assert said.state == "not enough evidence"
    assert "dataset=NAME" in said.reason


@pytest.mark.parametrize("fstype", ["ext4", "nfs4"])
def test_nobody_asked_where_nothing_moves_files_away(fstype: str) -> None:
    assert judged(starved(), fstype=fstype).state == "quiet"


@pytest.mark.parametrize(
    "facts", [None, [], {"counts": "x"}, {"counts": {"released": -3}}], ids=repr
)
def test_nonsense_in_the_facts_is_as_if_not_there(facts: object) -> None:
    entry = check("residency", "FAIL") | {"facts": facts}
    assert judged(starved(), entry).state == "quiet"
