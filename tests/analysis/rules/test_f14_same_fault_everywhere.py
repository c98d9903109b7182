"""F14: a fault of many nodes is a fault of none of them."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_io.analysis.picture import take_picture
from slurm_io.analysis.rules.base import RULES, Answer, ask
from slurm_io.analysis.thresholds import of_site
from slurm_io.config import Thresholds
from tests.analysis.rules.stores import Row, answer, check, checked, text_of

RULE = "f14_same_fault_everywhere"
FINE = check("mounts", kind="node")


def fault(node: str, answered: str = "FAIL", kind: str = "node", **more: Any) -> Row:
    text = f"mount /nvme/{node} is absent on node {node}"
    settings = {"kind": kind, "subject": f"/nvme/{node}", "action": "warn", **more}
    return check("mounts", answered, text, **settings)


def faults(count: int, seen: int, **more: Any) -> dict[str, list[Row]]:
    """`count` of `seen` nodes fail, each in words of its own."""
    names = [f"n{k}" for k in range(1, seen + 1)]
    return {name: [fault(name, **more) if k < count else FINE] for k, name in enumerate(names)}


def judged(by_node: dict[str, list[Row]], request: Row | None = None) -> Answer:
    return answer(RULE, checked(by_node, request))


def test_three_of_four_nodes_fail_alike_in_words_of_their_own() -> None:
    said = judged(faults(3, 4))
    [finding] = said.findings
    assert (finding.severity, finding.confidence) == ("warn", "likely")
    assert finding.title == "check mounts answers FAIL on 3 of 4 nodes"
    assert finding.where.nodes == ("n1", "n2", "n3")
    assert finding.remedy.startswith("drain none of these nodes")
    assert "1 node passed the same check" in text_of(said)
    assert "n1 says: mount /nvme/n1 is absent" in text_of(said)


@pytest.mark.parametrize(
    ("count", "seen", "state"),
    [
        (1, 1, "quiet"), (2, 2, "quiet"), (1, 3, "quiet"), (2, 3, "fired"), (1, 4, "quiet"),
        (2, 40, "quiet"), (3, 40, "fired"), (2, 39, "fired"), (3, 200, "fired"), (2, 200, "quiet"),
        (0, 8, "quiet"), (8, 8, "fired"),
    ],
)  # fmt: skip
def test_more_than_two_or_a_twentieth_and_never_one(count: int, seen: int, state: str) -> None:
    assert judged(faults(count, seen)).state == state


def test_the_sites_own_limits_count() -> None:
    site = of_site(Thresholds(alike_nodes=5, alike_share=1.0))
    for count, state in ((5, "quiet"), (6, "fired")):
        picture = take_picture(checked(faults(count, 8)), site)
        assert ask(RULES.get(RULE)(), picture).state == state


def test_degraded_alike_counts_too_and_apart_from_fail() -> None:
    assert judged(faults(3, 4, answered="DEGRADED")).state == "fired"
    mixed = faults(1, 40) | {"n2": [fault("n2", "DEGRADED")], "n3": [fault("n3", "DEGRADED")]}
    assert judged(mixed).state == "quiet"


def test_unknown_is_no_fault() -> None:
    assert judged(faults(4, 4, answered="UNKNOWN")).state == "quiet"


def test_other_checks_and_other_kinds_are_other_faults() -> None:
    nodes = [f"n{k}" for k in range(40)]
    by_node: dict[str, list[Row]] = {name: [FINE] for name in nodes}
    by_node |= {"n1": [fault("n1")], "n2": [fault("n2", kind="job")]}
    by_node["n3"] = [fault("n3") | {"check": "space"}]
    assert judged(by_node).state == "quiet"


def test_a_node_with_two_bad_mounts_is_one_node() -> None:
    by_node = faults(0, 4)
    by_node["n2"] = [fault("n2"), fault("n2"), fault("n2")]
    assert judged(by_node).state == "quiet"


def test_what_is_only_recorded_does_not_count() -> None:
    """Any user can put a line into the kernel's log."""
    assert judged(faults(4, 4, record_only=True)).state == "quiet"


def test_a_wave_that_the_prologs_knew_of_makes_it_proven() -> None:
    said = judged(faults(3, 4, policy="drain"))
    [finding] = said.findings
    assert finding.confidence == "proven"
    assert "guard against waves had 3 of them only warn" in text_of(said)
    stopped = judged(faults(3, 4, policy="drain", action="drain"))
    assert stopped.findings[0].confidence == "likely"


def test_a_job_that_asked_for_warnings_shows_no_wave() -> None:
    of_job = faults(3, 4, policy="stop", kind="job")
    assert judged(of_job, {"check": "warn"}).findings[0].confidence == "likely"
    assert judged(of_job).findings[0].confidence == "proven"


@pytest.mark.parametrize(
    ("kind", "words"), [("job", "manifest"), ("shared", "file server"), ("node", "share")]
)
def test_where_to_look_depends_on_whose_fault_it_is(kind: str, words: str) -> None:
    said = judged(faults(4, 4, kind=kind))
    assert words in said.findings[0].remedy
    assert "no node passed the same check" in text_of(said)


def test_where_others_pass_the_manifest_is_right() -> None:
    [finding] = judged(faults(3, 4, kind="job")).findings
    assert "manifest" not in finding.remedy and "the others lack" in finding.remedy


def test_the_most_nodes_come_first_and_four_findings_are_enough() -> None:
    names = [f"n{k}" for k in range(9)]
    by_node = {
        name: [fault(name) | {"check": f"check{c}"} for c in range(6) if k >= c]
        for k, name in enumerate(names)
    }
    found = judged(by_node).findings
    assert [one.title.split()[1] for one in found] == ["check0", "check1", "check2", "check3"]


def test_many_nodes_are_counted_and_some_named() -> None:
    [finding] = judged(faults(200, 300)).findings
    assert len(finding.where.nodes) == 64
    assert "and 192 more" in finding.evidence[0].text
    assert len(finding.evidence[0].text) < 200


def test_no_answers_no_word() -> None:
    said = judged({"n1": [], "n2": []})
    assert (said.state, "checks.json" in said.reason) == ("not enough evidence", True)


NONSENSE: list[Any] = [
    {"kind": []}, {"kind": None}, {"facts": 3}, {"policy": {}}, {"action": 7}, {"commands": 5},
    {"commands": [None, "a\nb"]}, {"record_only": "x"}, {"subject": []},
]  # fmt: skip


@pytest.mark.parametrize("odd", NONSENSE, ids=repr)
def test_odd_fields_harm_nobody(odd: Row) -> None:
    [finding] = judged(faults(3, 4, **odd)).findings
    assert finding.commands == ()


@pytest.mark.parametrize("request_", [None, [], {"check": []}, {"check": {}}], ids=repr)
def test_odd_requests_harm_nobody(request_: Any) -> None:
    store = checked(faults(3, 4, policy="stop", kind="job"))
    for view in store.nodes.values():
        assert view.checks is not None
        view.checks["request"] = request_
    assert answer(RULE, store).state == "fired"


def test_hostile_names_reach_no_terminal() -> None:
    odd = {"check": "\x1b[2J\n" * 100, "text": "\n\ud800" * 300}
    by_node = {f"n{k}\x07": [fault("x") | odd] for k in range(5)}
    [finding] = judged(by_node).findings
    parts = [finding.title, finding.remedy, *(one.text for one in finding.evidence)]
    assert all(part.isprintable() and len(part) < 700 for part in parts)
