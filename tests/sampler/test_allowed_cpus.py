"""CPUs the ranks may run on, from real and from damaged status files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.collectors.base import Member
from slurm_io.sampler.allowed_cpus import AllowedCpus, cpus_of_status


def member(pid: int, role: str = "rank") -> Member:
    return Member(pid, 7, 1, "python", 0, role)  # type: ignore[arg-type]


def status(root: Path, pid: int, cpus: str) -> None:
    (root / str(pid)).mkdir()
    (root / str(pid) / "status").write_text(f"Name:\tpython\nCpus_allowed_list:\t{cpus}\nX:\t1\n")


@pytest.mark.parametrize(
    ("text", "count"), [("0", 1), ("0-3", 4), ("0-3,8,64-95", 37), ("1,3,5", 3)]
)
def test_lists_of_cpus(text: str, count: int) -> None:
    assert len(cpus_of_status(f"Name:\tx\nCpus_allowed_list:\t{text}\n")) == count


@pytest.mark.parametrize("text", ["", "x", "3-", "-3", "5-2", "0-99999999", "1,,2", "0x3"])
def test_a_damaged_list_is_none(text: str) -> None:
    assert cpus_of_status(f"\nCpus_allowed_list:\t{text}\n") == frozenset()


@given(st.text())
def test_no_text_breaks_it(text: str) -> None:
    assert isinstance(cpus_of_status(text), frozenset)
    assert isinstance(cpus_of_status(f"\nCpus_allowed_list:{text}"), frozenset)


def test_ranks_of_a_node_together_and_the_one_with_fewest(tmp_path: Path) -> None:
    status(tmp_path, 1, "0-7")
    status(tmp_path, 2, "8-11")
    status(tmp_path, 3, "0-127")
    seen = AllowedCpus(tmp_path)
    assert seen.to_dict() is None
    seen.note([member(1), member(2), member(3, "worker"), member(4)])
    assert seen.to_dict() == {"node": 12, "rank": 4}


def test_a_rank_is_looked_at_once(tmp_path: Path) -> None:
    status(tmp_path, 1, "0-7")
    seen = AllowedCpus(tmp_path)
    seen.note([member(1)])
    (tmp_path / "1" / "status").write_text("\nCpus_allowed_list:\t0\n")
    seen.note([member(1)])
    assert seen.to_dict() == {"node": 8, "rank": 8}


def test_the_kernels_own_file_agrees_with_what_this_process_may_use() -> None:
    text = Path(f"/proc/{os.getpid()}/status").read_text()
    assert cpus_of_status(text) == os.sched_getaffinity(0)
