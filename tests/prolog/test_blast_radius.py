"""At most a few nodes ever drain for one fault, in whatever order and however fast they fail."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.prolog import blast_radius
from slurm_io.prolog.blast_radius import (
    check_of_reason,
    drain_limit,
    is_own_drain,
    joins_wave,
    mark_text,
    read_marks,
    reason_print,
    rule,
)
from slurm_io.slurm.node_state import NodeState
from tests.prolog.stand_ins import make_config

NOW_S = 1_764_475_273
CHECKS = make_config().checks


def node(name: str, state: str = "IDLE", reason: str = "", marks: str = "") -> NodeState:
    comment = f"slurm_io:failing:{marks}" if marks else ""
    return NodeState(name, state, reason, NOW_S if reason else None, comment)


def cluster(*failing: NodeState, total: int = 100) -> list[NodeState]:
    names = {each.name for each in failing}
    return [*failing, *(node(f"n{k}") for k in range(total) if f"n{k}" not in names)]


def mark(name: str, age_s: int = 0, **more: str) -> NodeState:
    return node(name, marks=f"mounts@{NOW_S - age_s}", **more)


def may_drain(*failing: NodeState, total: int = 100, asking: str = "n0") -> bool:
    return rule("mounts", asking, cluster(*failing, total=total), CHECKS, NOW_S).may_drain


def test_one_node_alone_drains_even_in_a_small_cluster() -> None:
    assert may_drain(mark("n0"))
    assert may_drain(mark("n0"), total=4)


def test_the_share_bounds_small_clusters_and_the_number_large_ones() -> None:
    assert [drain_limit(total, CHECKS) for total in (1, 4, 39, 40, 1000)] == [1, 1, 1, 2, 2]
    assert may_drain(mark("n0"), mark("n1"))
    assert not may_drain(mark("n0"), mark("n1"), total=4)
    assert not may_drain(mark("n0"), mark("n1"), mark("n2"))


def test_zero_nodes_means_never() -> None:
    checks = make_config(checks={"blast_nodes": 0}).checks
    assert not rule("mounts", "n0", cluster(mark("n0")), checks, NOW_S).may_drain


def test_another_check_is_another_fault() -> None:
    others = [node(f"n{k}", marks=f"arrays@{NOW_S}") for k in (1, 2, 3)]
    assert may_drain(mark("n0"), *others)


def test_drained_nodes_count_for_the_window_and_no_longer() -> None:
    gone = [mark(f"n{k}", 700, state="IDLE+DRAIN") for k in (1, 2, 3)]
    assert may_drain(mark("n0"), *gone)
    fresh = [mark(f"n{k}", 500, state="IDLE+DRAIN") for k in (1, 2)]
    assert not may_drain(mark("n0"), *fresh)


def test_nodes_that_the_guard_kept_in_service_count_as_long_as_they_fail() -> None:
    """Else a lasting fault would empty the cluster by two nodes each window."""
    assert not may_drain(mark("n0"), mark("n1", 5000), mark("n2", 5000))
    assert may_drain(mark("n0"), mark("n1", 90000), mark("n2", 90000))


def test_our_drains_count_though_their_mark_is_gone_and_foreign_ones_do_not() -> None:
    ours = [node(f"n{k}", "IDLE+DRAIN", "slurm_io: mounts: gone") for k in (1, 2)]
    theirs = [node(f"n{k}", "IDLE+DRAIN", "NHC: mounts") for k in (1, 2, 3)]
    assert not may_drain(mark("n0"), *ours)
    assert may_drain(mark("n0"), *theirs)


def test_a_node_that_its_peers_cannot_see_does_not_drain() -> None:
    ruling = rule("mounts", "n0", cluster(), CHECKS, NOW_S)
    assert not ruling.may_drain
    assert "could not be seen" in ruling.reason


def test_clocks_may_differ() -> None:
    assert not may_drain(mark("n0"), mark("n1", -300), mark("n2", 300))


@settings(max_examples=200, deadline=None)
@given(st.integers(3, 30), st.integers(0, 2**31), st.sampled_from([20, 60, 100]))
def test_in_no_order_of_events_do_more_than_the_limit_drain(
    failing: int, seed: int, total: int
) -> None:
    """Each node announces, then looks: the steps of all nodes interleaved at random."""
    chance = random.Random(seed)
    states = {each.name: each for each in cluster(total=total)}
    names = list(states)[:failing]
    steps = [name for name in names for _ in range(2)]
    chance.shuffle(steps)
    drained = 0
    announced: set[str] = set()
    for name in steps:
        if name not in announced:
            announced.add(name)
            states[name] = mark(name)
        elif rule("mounts", name, states.values(), CHECKS, NOW_S).may_drain:
            drained += 1
            states[name] = replace(states[name], state="IDLE+DRAIN")
    assert drained <= drain_limit(total, CHECKS)


def test_when_all_have_announced_before_any_looks_none_drains() -> None:
    states = cluster(*(mark(f"n{k}") for k in range(3)), total=4)
    assert not any(rule("mounts", f"n{k}", states, CHECKS, NOW_S).may_drain for k in range(3))


def test_marks_survive_the_way_through_slurm() -> None:
    marks = {"mounts": NOW_S, "pcie_links": 7}
    bare = NodeState("a", "IDLE")
    text = mark_text(marks, bare, {"mounts": "slurm_io: mounts: gone"})
    assert (
        text
        == f"slurm_io:failing:mounts@{NOW_S}:{reason_print('slurm_io: mounts: gone')},pcie_links@7"
    )
    assert read_marks(NodeState("a", "IDLE", comment=text)) == marks
    assert read_marks(NodeState("a", "IDLE", extra=text)) == marks
    assert mark_text(marks, NodeState("a", "IDLE", comment=text), {}) == text
    assert mark_text({}, bare, {}) == ""


def test_a_drain_is_ours_while_its_reason_is_the_one_we_announced() -> None:
    reason = "slurm_io: mounts: gone"
    comment = mark_text({"mounts": 7}, NodeState("a", "IDLE"), {"mounts": reason})
    ours = NodeState("a", "IDLE+DRAIN", reason, comment=comment)
    assert is_own_drain(ours, "mounts")
    for other in (
        replace(ours, reason=f"{reason}:do not touch, Ada"),
        replace(ours, reason="broken fan"),
        replace(ours, state="IDLE"),
        replace(ours, comment="slurm_io:failing:mounts@7"),
        replace(ours, comment=""),
    ):
        assert not is_own_drain(other, "mounts")
    assert not is_own_drain(ours, "arrays")


@pytest.mark.parametrize(
    ("others", "total", "joins"), [(0, 4, False), (1, 4, True), (1, 100, False), (2, 100, True)]
)
def test_a_node_that_has_not_announced_yet_joins_a_wave_as_one_more(
    others: int, total: int, joins: bool
) -> None:
    states = cluster(*(mark(f"n{k + 1}") for k in range(others)), total=total)
    assert joins_wave("mounts", "n0", states, CHECKS, NOW_S) == joins
    assert not joins_wave("arrays", "n0", states, CHECKS, NOW_S)


def test_alone_nobody_joins_a_wave_even_where_no_node_may_drain() -> None:
    checks = make_config(checks={"blast_nodes": 0}).checks
    assert not joins_wave("mounts", "n0", cluster(mark("n0")), checks, NOW_S)
    assert joins_wave("mounts", "n0", cluster(mark("n1")), checks, NOW_S)


@given(st.text(max_size=200))
def test_any_comment_can_be_read(text: str) -> None:
    marks = read_marks(NodeState("a", "IDLE", comment=f"slurm_io:failing:{text}"))
    assert all(check.isidentifier() and at_s >= 0 for check, at_s in marks.items())


@pytest.mark.parametrize(
    ("comment", "extra", "field"),
    [
        ("", "", "Comment"),
        ("slurm_io:failing:a@1", "theirs", "Comment"),
        ("rack 7", "", "Extra"),
        ("rack 7", "slurm_io:failing:a@1", "Extra"),
        ("", "slurm_io:failing:a@1", "Extra"),
        ("rack 7", "theirs", None),
    ],
)
def test_only_text_of_ours_is_replaced(comment: str, extra: str, field: str | None) -> None:
    assert blast_radius.mark_field(NodeState("a", "IDLE", comment=comment, extra=extra)) == field


@given(st.text(max_size=500))
def test_a_reason_is_short_ascii_and_names_its_check(text: str) -> None:
    reason = blast_radius.reason_text("pcie_links", text)
    assert reason.isascii()
    assert reason.isprintable()
    assert len(reason) <= 200
    assert not set(reason) & set("\"'`\\[]{}$;|&<>*")
    assert check_of_reason(reason) == "pcie_links"


@pytest.mark.parametrize(
    "reason",
    ["", "NHC: mounts: x", "slurm_io", "slurm_io: ", "slurm_io: UPPER: x", "x slurm_io: a: b"],
)
def test_a_reason_that_is_not_ours(reason: str) -> None:
    assert check_of_reason(reason) is None


def orders(names: Sequence[str]) -> list[tuple[str, ...]]:
    return list(itertools.permutations(names))


@pytest.mark.parametrize("order", orders(["n0", "n1", "n2"]))
def test_one_after_the_other_only_the_first_drain(order: tuple[str, ...]) -> None:
    states = {each.name: each for each in cluster()}
    drained = []
    for name in order:
        states[name] = mark(name)
        if rule("mounts", name, states.values(), CHECKS, NOW_S).may_drain:
            drained.append(name)
            states[name] = replace(states[name], state="IDLE+DRAIN", reason="slurm_io: mounts: x")
    assert drained == list(order[:2])
