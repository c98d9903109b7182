"""The dataset's striping, judged from a few files within the check's time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_io.config import DatasetConfig
from slurm_io.errors import ConfigError
from slurm_io.model import CheckResult
from slurm_io.prolog.checks.base import CHECKS
from tests.filesystems.layout.layout_tree import put, striped, tree
from tests.prolog.checks.job_context import context_for, proc_with_mounts

__all__ = ["tree"]
pytestmark = pytest.mark.root
GIB = 1 << 30


def run(
    tree: Path,
    nodes: int = 8,
    fstype: str = "lustre",
    budget_s: float = 5.0,
    own: dict[str, Any] | None = None,
    **dataset: Any,
) -> list[CheckResult]:
    proc = tree.parent / "proc"
    if not proc.exists():
        proc_with_mounts(proc, data=(tree, fstype))
    context = context_for(
        DatasetConfig(shared=str(tree), **dataset), proc_root=proc, own=own, budget_s=budget_s
    )
    names = tuple(f"n{number}" for number in range(nodes))
    return CHECKS.get("layout").run(replace(context, nodes=names, sys_root=str(tree.parent)))


def test_well_striped(tree: Path) -> None:
    put(tree / "a/f", striped(8), 20 * GIB)
    (result,) = run(tree)
    assert (result.answer, result.kind) == ("OK", "job")
    assert result.facts["layouts_read"] == 1


def test_large_file_on_one_ost_with_the_command(tree: Path) -> None:
    put(tree / "a/f", striped(1), 20 * GIB)
    (result,) = run(tree)
    assert result.answer == "DEGRADED"
    assert result.commands == (f"lfs migrate -c 8 {tree}/a/f",)
    assert result.facts["findings"] == ["narrow"]
    assert CheckResult.from_dict(result.to_dict()) == result


def test_the_largest_files_and_how_they_lie_are_kept_for_the_report(tree: Path) -> None:
    for number in range(30):
        put(tree / f"f{number:02}", striped(1), (10 + number) * GIB)
    (result,) = run(tree)
    largest = result.facts["largest"]
    assert (len(largest), largest[0]["osts"]) == (20, 1)
    assert (largest[0]["path"], largest[0]["size_bytes"]) == (f"{tree}/f29", 39 * GIB)
    spread = result.facts["spread"]
    assert (spread["files"], spread["osts"], spread["over_mean"]) == (30, 1, 1.0)
    assert CheckResult.from_dict(result.to_dict()) == result


def test_few_readers_do_not_mind(tree: Path) -> None:
    put(tree / "f", striped(1), 20 * GIB)
    assert run(tree, nodes=2)[0].answer == "OK"
    assert run(tree, nodes=2, readers=16)[0].answer == "DEGRADED", "the admin knows better"


def test_unknown_number_of_readers_is_unknown_only_where_it_matters(tree: Path) -> None:
    put(tree / "f", striped(8), 20 * GIB)
    assert run(tree, nodes=0)[0].answer == "OK"
    put(tree / "g", striped(1), 20 * GIB)
    assert run(tree, nodes=0)[0].answer == "UNKNOWN"


def test_only_the_largest_are_looked_at_and_the_rest_is_told(tree: Path) -> None:
    for number in range(10):
        put(tree / f"d{number}/f", striped(1 if number < 7 else 8), (10 + number) * GIB)
    (result,) = run(tree, own={"files": 3})
    assert result.answer == "OK"
    assert result.not_looked_at == ("layouts of 7 of 10 files (only the largest are read)",)


def test_many_small_files_with_stripes(tree: Path) -> None:
    for number in range(1100):
        put(tree / f"{number}", striped(2), 100)
    (result,) = run(tree)
    assert result.answer == "DEGRADED" and "pack them" in result.text
    assert result.facts["findings"] == ["small-wide"]


def test_nothing_for_other_file_systems_and_where_it_is_off(tree: Path) -> None:
    put(tree / "f", striped(1), 20 * GIB)
    assert run(tree, layout="off") == []
    assert CHECKS.get("layout").run(context_for()) == []
    (tree.parent / "proc/self/mountinfo").write_text("1 0 0:1 / / rw - ext4 /dev/root rw\n")
    assert run(tree) == []


def test_unreadable_is_unknown_with_the_reason(tree: Path) -> None:
    assert run(tree)[0].answer == "UNKNOWN", "empty"
    (tree / "f").write_text("x")
    (result,) = run(tree)
    assert result.answer == "UNKNOWN" and "no layout could be read" in result.text
    put(tree / "f", b"\xd0\x0b\xdf\x0b")
    assert "unknown magic" in run(tree)[0].text


def test_out_of_time_is_no_answer(tree: Path) -> None:
    put(tree / "f", striped(1), 20 * GIB)
    (result,) = run(tree, budget_s=0.0)
    assert result.answer == "UNKNOWN"


def test_hostile_names_are_printable(tree: Path) -> None:
    put(tree / "a\nb\x1b", striped(1), 20 * GIB)
    (result,) = run(tree)
    assert result.text.isprintable() and result.commands[0].isprintable()


def test_unknown_setting_is_an_error(tree: Path) -> None:
    put(tree / "f", striped(1))
    with pytest.raises(ConfigError, match="fils"):
        run(tree, own={"fils": 3})
