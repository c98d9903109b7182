"""F12: copies of another version, and old ones that nobody looked at."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_io.analysis.picture import take_picture
from slurm_io.analysis.rules.base import RULES, Answer, ask
from slurm_io.analysis.thresholds import of_site
from slurm_io.config import Thresholds
from tests.analysis.rules.stores import CONTENT_ID, Row, answer, check, checked, dataset, text_of

RULE = "f12_stale_copy"
OLDER = "c1-" + "0" * 32
HOUR = 3600.0


def record(age_h: float | None = 1.0, version: str = CONTENT_ID, state: str = "ready") -> Row:
    age_s = None if age_h is None else age_h * HOUR
    return {"content_id": version, "state": state, "level": 4, "age_s": age_s}


def other_version(version: str = OLDER) -> Row:
    return dataset("FAIL", "is version", wrong_version=version, level=0, used_record=False,
                   record=record(900, version))  # fmt: skip


def by_record(age_h: float | None) -> Row:
    return dataset("OK", "verified here to level 4", level=0, record=record(age_h))


def judged(*told: Row | None) -> Answer:
    rows = enumerate(told, start=1)
    return answer(RULE, checked({f"n{k}": [one] if one else [] for k, one in rows}))


def test_one_node_of_another_version() -> None:
    said = judged(dataset(), other_version(), dataset())
    [finding] = said.findings
    assert (finding.severity, finding.confidence) == ("bad", "proven")
    assert finding.title == "the dataset is of another version on 1 node"
    assert finding.where.nodes == ("n2",)
    assert f"1 of 3 nodes that looked (n2) recorded {OLDER}; wanted is {CONTENT_ID}" in text_of(
        said
    )
    assert "2 other nodes recorded the wanted version" in text_of(said)
    assert finding.commands == (f"slurm-io dataset stage c4@{CONTENT_ID} --to n2",)
    assert "no reason to wait" in finding.remedy


def test_alone_it_is_likely_and_no_more() -> None:
    [finding] = judged(other_version()).findings
    assert finding.confidence == "likely"
    gone = dataset("FAIL", "is not there", folder_missing=True, used_record=False)
    [finding] = judged(other_version(), gone).findings
    assert finding.confidence == "likely", "a record of a copy that is gone proves nothing"


def test_the_same_other_version_everywhere_is_a_manifest_newer_than_the_fleet() -> None:
    said = judged(other_version(), other_version(), other_version())
    assert said.state == "fired"
    assert "the manifest or the wish is newer" in text_of(said)
    different = judged(other_version(), other_version("c1-" + "1" * 32))
    assert "newer" not in text_of(different)
    sizes_fit = dataset("OK", used_record=False, record=None)
    assert "newer" not in text_of(judged(other_version(), other_version(), sizes_fit))


@pytest.mark.parametrize(("age_h", "state"), [(23.9, "quiet"), (24.1, "fired")])
def test_a_record_that_nobody_checked_is_old_after_a_day(age_h: float, state: str) -> None:
    assert judged(by_record(1), by_record(age_h)).state == state


def test_an_old_record_is_worth_a_word_and_no_more() -> None:
    said = judged(by_record(1), by_record(24 * 12))
    [finding] = said.findings
    assert (finding.severity, finding.confidence) == ("info", "likely")
    assert finding.where.nodes == ("n2",)
    assert "the oldest made 12 days ago" in text_of(said)
    assert finding.evidence[0].value == pytest.approx(288)
    assert finding.commands == ("slurm-io dataset verify c4 --tier local --level 4 --record",)


def test_the_sites_own_limit_counts() -> None:
    site = of_site(Thresholds(verified_age_h=1.0))
    picture = take_picture(checked({"n1": [by_record(2)]}), site)
    assert ask(RULES.get(RULE)(), picture).state == "fired"


def test_age_says_nothing_where_each_file_is_as_it_was_then() -> None:
    told = dataset("OK", "2400 files, none bad", level=1, record=record(24 * 30))
    said = judged(told, told)
    assert said.state == "quiet"
    assert "30 days ago" in said.reason and "its files are as they were then" in said.reason


@pytest.mark.parametrize("age_h", [None, -5.0])
def test_a_clock_that_was_set_makes_an_age_unknown(age_h: float | None) -> None:
    assert judged(by_record(age_h)).state == "quiet"


def test_the_right_version_with_files_missing_is_for_f11() -> None:
    assert judged(dataset("FAIL", "3 missing", counts={"missing": 3})).state == "quiet"


def test_without_a_record_no_version_is_proven() -> None:
    told = dataset("OK", "sizes fit", used_record=False, record=None)
    said = judged(told, told)
    assert said.state == "not enough evidence"
    assert "--record" in said.reason


@pytest.mark.parametrize(
    "told",
    [
        dataset("UNKNOWN", "why not", record=None),
        dataset("FAIL", "why not", described=OLDER, used_record=False, record=None),
        check("dataset", "FAIL", "why not"),
    ],
    ids=["unknown", "described", "no facts"],
)
def test_a_check_that_could_not_tell_gives_its_reason(told: Row) -> None:
    said = judged(dataset(), told)
    assert (said.state, said.reason) == ("not enough evidence", "why not")


def test_nobody_looked() -> None:
    said = judged(check("mounts"))
    assert (said.state, "dataset=NAME" in said.reason) == ("not enough evidence", True)


NONSENSE: list[Any] = [None, [], 3, {"wrong_version": 7}, {"record": []}, {"level": "0"},
    {"record": {"age_s": 1e300, "content_id": 5}}, {"record": {"age_s": True}, "level": 0},
    {"record": {"age_s": float("inf")}, "level": 0}, {"level": False}]  # fmt: skip


@pytest.mark.parametrize("facts", NONSENSE, ids=repr)
@pytest.mark.parametrize("said", ["OK", "FAIL"])
def test_nonsense_in_the_facts_never_fires(facts: object, said: str) -> None:
    assert judged(check("dataset", said, "odd") | {"facts": facts}).state == "not enough evidence"


def test_hostile_words_reach_neither_terminal_nor_shell() -> None:
    told = other_version("\x1b[2J\n" * 500) | {"subject": "-c4 $(id)", "commands": ["a\nb"]}
    [finding] = answer(RULE, checked({"n1\x1b": [told]})).findings
    assert finding.commands == ()
    assert all(one.text.isprintable() and len(one.text) < 500 for one in finding.evidence)
