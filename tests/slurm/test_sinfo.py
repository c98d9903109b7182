"""sinfo's tables with other partitions, marks and widths than the recorded ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.errors import SlurmError
from slurm_io.slurm.nodes import MARKS
from slurm_io.slurm.sinfo import parse_gpu_counts, parse_sinfo_nodes

GPUS = "gpu:a100:4(S:0-1)"


def row(name: str, state: str = "mixed", partition: str = "main", used: str = "2(IDX:0,3)") -> str:
    return f"{name} 100 1000 4/4/0/8 {state} {partition} {GPUS} gpu:a100:{used}\n"


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=9))
def test_however_often_a_node_is_printed_it_is_one(partitions: list[str]) -> None:
    table = parse_sinfo_nodes("".join(row("n1", partition=each) for each in partitions))
    (node,) = table.nodes
    assert node.partitions == tuple(sorted(set(partitions)))
    assert (node.gpus.devices, node.gpus_used.devices, node.gpus_usable) == (4, 2, 2)
    assert node.gpu_indices == (0, 3) and table.default_partition is None


@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_is_no_part_of_the_state(mark: str) -> None:
    table = parse_sinfo_nodes(row("n1", state=f"idle{mark}", partition="main*", used="0(IDX:N/A)"))
    (node,) = table.nodes
    assert (node.state, node.marks, node.gpus_usable) == ("idle", mark, 0)
    assert node.is_responding == (mark != "*")
    assert (node.partitions, table.default_partition) == (("main",), "main")


@pytest.mark.parametrize("state", ["drained", "draining", "maint", "reserved", "down", "allocated",
                                   "completing", "planned", "unknown", "future"])  # fmt: skip
def test_a_node_that_takes_no_job_has_nothing_to_give(state: str) -> None:
    (node,) = parse_sinfo_nodes(row("n1", state=state, used="0(IDX:N/A)")).nodes
    assert node.gpus_usable == 0 and node.gpus.devices == 4


def test_thousands_of_nodes_in_four_partitions() -> None:
    text = "".join(
        row(f"n{number}", partition=part) for part in "abcd" for number in range(3000, 0, -1)
    )
    nodes = parse_sinfo_nodes(text).nodes
    assert [node.name for node in nodes] == [f"n{number}" for number in range(1, 3001)]
    assert sum(node.gpus.devices for node in nodes) == 12000


@pytest.mark.parametrize(
    "text",
    ["n1 100\n", row("n1") + row("n1", state="idle"), row("n1").replace("8 mixed", "8mixed"),
     row("n[1-2]"), row("n1", used="8(IDX:0-7)"), row("n1").replace("(S:0-1)", "(S:0"),
     "NODELIST STATE\n"],
)  # fmt: skip
def test_a_damaged_table_is_refused(text: str) -> None:
    with pytest.raises(SlurmError):
        parse_sinfo_nodes(text)


@given(st.integers(1, 9999), st.sampled_from(["", " ", "   "]), st.integers(0, 8))
def test_a_count_may_touch_what_it_counts(nodes: int, between: str, gpus: int) -> None:
    used = "(IDX:0-3)" if gpus > 3 else ""
    totals = parse_gpu_counts(f"{nodes}{between}gpu:gb200:{gpus}{used}\n4   (null)\n")
    assert (totals.nodes, totals.gpus, totals.used) == (nodes + 4, nodes * gpus, None)


@pytest.mark.parametrize(
    "text", ["gpu:a:4\n", "x gpu:a:4\n", "10 gpu:a:4(S:0\n", "10\n", "-1 gpu:4\n"]
)
def test_a_line_without_a_count_is_refused(text: str) -> None:
    with pytest.raises(SlurmError):
        parse_gpu_counts(text)
