"""``scontrol -o show node`` read as 22.05 prints it, and as later versions may."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.errors import SlurmError
from slurm_io.slurm.node_state import NodeState, parse_nodes

CAPTURED = Path(__file__).parents[1] / "fixtures" / "slurm" / "show_node-22.05.8.txt"


def test_a_captured_cluster() -> None:
    first, second = parse_nodes(CAPTURED.read_text())
    assert first == NodeState(
        name="t1",
        state="IDLE+DRAIN",
        reason="slurm_io: mounts: /scratch is not mounted, 100% (a+b) [x",
        reason_at_s=1796012002,
        comment="slurm_io:failing:mounts@1764475273,arrays@1764475290",
        extra="some text State=DOWN",
    )
    assert second == NodeState("t2", "IDLE")


def line(**fields: str) -> str:
    return " ".join(f"{key}={value}" for key, value in fields.items())


@pytest.mark.parametrize("state", ["IDLE*+DRAIN", "MIXED+DRAIN+NOT_RESPONDING", "idle+drain"])
def test_flags(state: str) -> None:
    (node,) = parse_nodes(line(NodeName="a", State=state))
    assert "DRAIN" in node.flags


def test_a_free_text_cannot_pose_as_the_state() -> None:
    (node,) = parse_nodes(line(NodeName="a", State="IDLE", Comment="x State=DOWN NodeName=b"))
    assert (node.name, node.state) == ("a", "IDLE")
    assert node.comment == "x State=DOWN NodeName=b"


def test_odd_separators_in_a_text_end_no_line() -> None:
    (node,) = parse_nodes("NodeName=a State=IDLE Comment=x\x85y\u2028z\x1c1\n")
    assert node.comment == "x\x85y\u2028z\x1c1"


def test_a_comment_of_several_lines_stays_with_its_node() -> None:
    text = "NodeName=a State=IDLE Comment=bad DIMM\n\nsee ticket\nNodeName=b State=DOWN\n"
    first, second = parse_nodes(text)
    assert (first.name, first.comment) == ("a", "bad DIMM see ticket")
    assert (second.name, second.state) == ("b", "DOWN")


def test_empties_of_all_versions_are_empty() -> None:
    (node,) = parse_nodes(line(NodeName="a", State="IDLE", Comment="(null)", Extra="N/A"))
    assert (node.comment, node.extra, node.reason, node.reason_at_s) == ("", "", "", None)


def test_a_time_that_is_not_in_seconds_is_unknown() -> None:
    (node,) = parse_nodes(line(NodeName="a", State="IDLE", Reason="x [root@2026-11-30T04:00:00]"))
    assert (node.reason, node.reason_at_s) == ("x", None)


@pytest.mark.parametrize("text", ["nonsense", "NodeName= State=IDLE", "Node t9 not found"])
def test_what_is_no_node_is_an_error(text: str) -> None:
    with pytest.raises(SlurmError, match="not a node's line"):
        parse_nodes(text)


@given(st.text(max_size=300))
def test_any_text_is_nodes_or_one_error(text: str) -> None:
    with contextlib.suppress(SlurmError):
        parse_nodes(f"NodeName=a State=IDLE {text}")
