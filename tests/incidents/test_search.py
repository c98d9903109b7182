"""Searching incidents: what is found, in which order, and why."""

from __future__ import annotations

import dataclasses

from slurm_io.incidents.library import Incident, incidents
from slurm_io.incidents.search import search

BASE = dataclasses.replace(
    incidents()[0],
    id="base", title="t", symptoms=("s",), trigger="t", root_cause="r", detection="d",
    remediation=("r",), lessons=("l",), source="https://x", fstypes=(), rules={},
)  # fmt: skip


def incident(name: str, **facts: object) -> Incident:
    return dataclasses.replace(BASE, id=name, **facts)  # type: ignore[arg-type]


def ids(library: list[Incident], text: str = "", rule: str | None = None) -> list[str]:
    return [hit.incident.id for hit in search(library, text, rule)]


def test_symptoms_weigh_more_than_causes_and_these_more_than_lessons() -> None:
    library = [
        incident("a", lessons=("eviction",)),
        incident("b", root_cause="eviction"),
        incident("c", symptoms=("eviction",)),
    ]
    assert ids(library, "eviction") == ["c", "b", "a"]


def test_more_of_the_words_come_before_heavier_fields() -> None:
    library = [
        incident("a", symptoms=("latency",)),
        incident("b", lessons=("latency", "spikes")),
    ]
    assert ids(library, "latency spikes") == ["b", "a"]


def test_a_word_is_found_at_the_beginning_of_words_only() -> None:
    library = [incident("a", symptoms=("Evicted shards dropped",))]
    assert ids(library, "evict") == ["a"]
    assert ids(library, "DROPS") == ["a"]
    assert ids(library, "victed") == []


def test_small_words_are_left_out_beside_others_only() -> None:
    library = [incident("a", symptoms=("after the move",)), incident("b", symptoms=("drop",))]
    assert ids(library, "drops after the") == ["b"]
    assert ids(library, "after") == ["a"]


def test_it_says_where_each_word_was_found() -> None:
    library = [incident("a", symptoms=("slow",), root_cause="the disk is slow")]
    (hit,) = search(library, "slow disk moon")
    assert hit.found == (("slow", "symptoms"), ("disk", "root_cause"))
    assert hit.why == "slow (symptoms), disk (root cause)"


def test_a_rule_leaves_only_incidents_that_name_it() -> None:
    found = ids(list(incidents()), rule="f08")
    assert "smollm3-evicted-shards" in found
    assert all("F08" in one.rules for one in incidents() if one.id in found)
    assert ids(list(incidents()), "index grows", "F08") != ids(list(incidents()), "index grows")


def test_without_words_all_come_by_id() -> None:
    assert ids(list(incidents())) == [one.id for one in incidents()]


def test_the_second_cause_of_smollm3_is_found_by_what_its_team_saw() -> None:
    assert ids(list(incidents()), "throughput drops after moving to local NVMe")[0] == (
        "smollm3-index-growth"
    )
    assert ids(list(incidents()), "disk read latency spikes evicted")[0] == "smollm3-evicted-shards"
