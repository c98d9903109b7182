"""F11: nodes that began without the job's data, and whose word that is."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_io.analysis.rules.base import Answer
from tests.analysis.rules.stores import (
    CONTENT_ID,
    Row,
    answer,
    check,
    checked,
    dataset,
    job,
    several,
    text_of,
)
from tests.analysis.stand_in import StandInStore, train_together

RULE = "f11_dataset_not_there"
OTHERS = ("f12_stale_copy", "f14_same_fault_everywhere")
OLDER = "c1-" + "0" * 32
VERIFY = "slurm-io dataset verify c4 --tier local --level 4 --record"


def folder_missing(node: str = "n2") -> Row:
    text = f"dataset 'c4' in '/nvme/c4' on node {node} is not there: stage it"
    nothing = {"level": 0, "used_record": False, "record": None}
    return dataset("FAIL", text, folder_missing=True, **nothing) | {"commands": [VERIFY]}


def files_missing(**counts: int) -> Row:
    return dataset("FAIL", "12 missing", counts=counts or {"missing": 12}, level=1)


def mount_absent() -> Row:
    text = "its mount '/nvme' is absent: mount it"
    told = dataset("FAIL", text, folder_missing=True, absent_mount="'/nvme'", record=None)
    return told | {"kind": "node"}


def other_version(version: str = OLDER, state: str = "ready") -> Row:
    record = {"content_id": version, "state": state, "level": 4, "age_s": 100.0}
    return dataset("FAIL", "is version", wrong_version=version, level=0, record=record)


def judged(*told: Row | None) -> Answer:
    """The rule's word on nodes n1, n2, ... that said so."""
    rows = enumerate(told, start=1)
    return answer(RULE, checked({f"n{k}": [one] if one else [] for k, one in rows}))


def test_one_node_without_the_folder_where_others_have_it() -> None:
    said = judged(dataset(), folder_missing(), dataset(), dataset())
    [finding] = said.findings
    assert (finding.severity, finding.confidence) == ("bad", "proven")
    assert finding.title == "the dataset was not whole on 1 node"
    assert finding.where.nodes == ("n2",)
    assert "failed on 1 of 4 nodes that looked (n2): no folder on 1" in text_of(said)
    assert "3 other nodes had the same version whole" in text_of(said)
    assert finding.commands == (f"slurm-io dataset stage c4@{CONTENT_ID} --to n2", VERIFY)


def test_files_are_counted_by_what_is_wrong_with_them() -> None:
    said = judged(dataset(), files_missing(missing=12, truncated=3, extra=7))
    assert "12 missing, 3 truncated (2400 files expected on each)" in text_of(said)
    assert "files missing or wrong on 1" in text_of(said)


@pytest.mark.parametrize("state", ["copying", "failed"])
def test_a_copy_that_was_not_finished_is_not_there(state: str) -> None:
    record = {"content_id": CONTENT_ID, "state": state, "level": -1, "age_s": None}
    said = judged(dataset(), dataset("FAIL", "not finished", level=0, record=record))
    assert "a copy not finished or not whole on 1" in text_of(said)


def test_alone_it_is_likely_and_no_more() -> None:
    [finding] = judged(folder_missing()).findings
    assert finding.confidence == "likely"


def test_an_absent_mount_is_another_finding_with_another_remedy() -> None:
    said = judged(dataset(), mount_absent(), folder_missing("n3"))
    mount, data = said.findings
    assert mount.title == "a mount of the dataset was absent on 1 node"
    assert mount.where.nodes == ("n2",)
    assert "mount '/nvme' below the dataset was absent" in mount.evidence[0].text
    assert "mount it" in mount.remedy and not any("stage" in one for one in mount.commands)
    assert data.where.nodes == ("n3",)
    assert (mount.confidence, data.confidence) == ("proven", "proven")
    [alone] = judged(mount_absent()).findings
    assert alone.confidence == "likely"


def test_all_of_three_nodes_alike_are_the_manifest_or_the_storage_and_left_to_f14() -> None:
    said = judged(folder_missing("n1"), folder_missing(), folder_missing("n3"))
    assert said.state == "quiet"
    assert "all 3 nodes" in said.reason and "F14" in said.reason and "manifest" in said.reason
    assert judged(mount_absent(), mount_absent(), mount_absent()).state == "quiet"


def test_both_of_two_nodes_show_no_pattern() -> None:
    [finding] = judged(folder_missing("n1"), folder_missing()).findings
    assert finding.where.nodes == ("n1", "n2")


def test_three_of_four_are_named_because_the_fourth_has_it() -> None:
    said = judged(dataset(), *(folder_missing(f"n{k}") for k in (2, 3, 4)))
    assert said.findings[0].where.nodes == ("n2", "n3", "n4")
    assert said.findings[0].commands[0].endswith("--to n2,n3,n4")


def test_a_manifest_newer_than_the_fleet_is_said() -> None:
    said = judged(files_missing(), other_version(), other_version(), other_version())
    assert f"3 nodes recorded another version ({OLDER}) than is wanted" in text_of(said)
    assert "the manifest may be newer" in text_of(said)


@pytest.mark.parametrize("state", ["ready", "copying", "failed"])
def test_another_version_is_for_f12(state: str) -> None:
    said = judged(dataset(), other_version(state=state))
    assert said.state == "quiet"
    assert "F12" in said.reason


def test_what_the_user_may_not_open_is_not_missing() -> None:
    denied = dataset("FAIL", "cannot be opened: Permission denied", level=0, record=None)
    said = judged(dataset(), denied)
    assert (said.state, "Permission denied" in said.reason) == ("quiet", True)


def test_a_version_that_the_manifest_does_not_describe_is_no_missing_file() -> None:
    asked = dataset("FAIL", "was asked for", described=OLDER, level=-1, record=None)
    assert judged(asked).state == "quiet"


def test_a_shared_copy_is_named_as_such_and_no_node() -> None:
    told = folder_missing()
    told["facts"]["tier"] = "shared"
    [finding] = judged(told).findings
    assert finding.title == "the dataset was not whole on the shared storage"
    assert finding.where.nodes == ()
    assert finding.commands[0] == f"slurm-io dataset stage c4@{CONTENT_ID} --tier shared"


def test_whole_everywhere_is_quiet_in_the_checks_words() -> None:
    said = judged(dataset(), dataset("DEGRADED", "2 extra", counts={"extra": 2}))
    assert (said.state, said.reason) == ("quiet", "nothing is missing: 2400 files, none bad")


def test_a_check_that_could_not_tell_gives_its_reason() -> None:
    said = judged(dataset(), dataset("UNKNOWN", "no time left"))
    assert (said.state, said.reason) == ("not enough evidence", "no time left")
    bare = check("dataset", "FAIL", "this site has no dataset 'c5'")
    assert judged(bare).reason == "this site has no dataset 'c5'"


def test_nobody_looked() -> None:
    said = judged(None, check("mounts"))
    assert said.state == "not enough evidence"
    assert "dataset=NAME" in said.reason


def test_no_prolog_is_told_in_the_words_of_all_rules_that_need_one() -> None:
    reasons = {answer(rule, checked({"n1": []})).reason for rule in (RULE, *OTHERS)}
    assert reasons == {"no prolog left its answers (checks.json)"}


def trained(told: Row) -> StandInStore:
    """Ranks 0 and 1 on n1 and n2; the second waits for storage."""
    slow, usual = (0.05, "storage"), (0.002, "pipe")
    ranks = several(2, nodes=2)
    store = job(*train_together(ranks, 200, 0.05, lambda rank, k: slow if rank else usual))
    for node, one in (("n1", dataset()), ("n2", told)):
        store.nodes[node].checks = {"request": {}, "checks": [one]}
    return store


def test_ranks_that_trained_there_all_the_same_are_named_with_their_part() -> None:
    said = answer(RULE, trained(files_missing()))
    assert said.findings[0].where.ranks == (1,)
    assert "1 rank trained on these nodes all the same, and held 100% of what" in text_of(said)


def test_ranks_that_never_began_there_are_told() -> None:
    store = trained(files_missing())
    store.nodes["n3"] = type(store.nodes["n1"])("n3", {})
    store.nodes["n3"].checks = {"checks": [folder_missing("n3")]}
    store.nodes["n2"].checks = {"checks": [dataset()]}
    assert "no rank was seen training on these nodes" in text_of(answer(RULE, store))


NONSENSE: list[Any] = [None, [], 3, {"counts": "x"}, {"counts": {"missing": -3}},
    {"counts": {"missing": True}}, {"counts": {"\x1b[2J": [1]}}, {"folder_missing": "yes"},
    {"record": 3}, {"record": {"state": [], "age_s": float("nan")}}, {"level": 10**40},
    {"absent_mount": {}, "wrong_version": 3, "described": []}]  # fmt: skip


@pytest.mark.parametrize("facts", NONSENSE, ids=repr)
def test_nonsense_in_the_facts_is_as_if_not_there(facts: object) -> None:
    said = judged(check("dataset", "FAIL", "od\x1bd") | {"facts": facts, "commands": {"a": 1}})
    assert (said.state, said.reason) == ("not enough evidence", "od?d")


@pytest.mark.parametrize("name", ["c4; rm -rf /", "-c4", "$(id)", "c4\n", "/path/c4", ""])
def test_a_strange_name_gets_no_command(name: str) -> None:
    [finding] = judged(folder_missing() | {"subject": name}).findings
    assert finding.commands == (VERIFY,)


@pytest.mark.parametrize("version", ["c1-$(id)", "c1-" + "A" * 32, "x y", None, 7])
def test_a_strange_version_is_left_out_of_the_command(version: object) -> None:
    told = folder_missing()
    told["facts"]["content_id"] = version
    assert judged(told).findings[0].commands[0] == "slurm-io dataset stage c4 --to n1"


@pytest.mark.parametrize("node", ["n2;id", "-n2", "n 2", "n2\n", "$(id)"])
def test_a_strange_node_gets_no_command(node: str) -> None:
    [finding] = answer(RULE, checked({node: [folder_missing()]})).findings
    assert finding.commands == (VERIFY,)


def test_hostile_words_reach_neither_terminal_nor_shell() -> None:
    told = folder_missing() | {
        "text": "a\x1b[2J\nb" * 1000, "subject": "c4; rm -rf /",
        "commands": ["true\nrm -rf /", 7, "\x1b[2J", VERIFY],
    }  # fmt: skip
    told["facts"] |= {"content_id": "c1-$(id)\n", "tier": "\ud800", "counts": {"x\ny": 2**61}}
    store = checked({"n1": [dataset()], "n2;id": [told, told], "n3\n": [told]})
    said = answer(RULE, store)
    [finding] = said.findings
    assert finding.commands == (VERIFY,)
    parts = [finding.title, finding.remedy, *(one.text for one in finding.evidence)]
    assert all(part.isprintable() and len(part) < 700 for part in parts)
