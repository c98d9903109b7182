"""The checkpoint folder's template against the ranks that will write there."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_io.model import CheckResult
from slurm_io.prolog.checks.base import CHECKS
from slurm_io.spec import JobSpec
from tests.filesystems.layout.layout_tree import tree
from tests.filesystems.layout.lov_maker import Part, composite, plain
from tests.prolog.checks.job_context import context_for, proc_with_mounts

__all__ = ["tree"]
pytestmark = pytest.mark.root
GIB = 1 << 30


def run(
    tree: Path, path: Path, nodes: int = 16, gpus: int | None = 8, osts: int = 100, **own: Any
) -> list[CheckResult]:
    proc = tree.parent / "proc"
    if not proc.exists():
        proc_with_mounts(proc, data=(tree, "lustre"))
        for number in range(osts):
            device = tree.parent / f"sys/fs/lustre/osc/fs-OST{number:04x}-osc-0123456789abcdef"
            device.mkdir(parents=True)
    context = replace(
        context_for(spec=JobSpec(ckpt=str(path)), proc_root=proc, own=own),
        nodes=tuple(f"n{number}" for number in range(nodes)),
        gpus_on_node=gpus,
        sys_root=str(tree.parent / "sys"),
    )
    return CHECKS.get("checkpoint_layout").run(context)


def template(folder: Path, data: bytes) -> None:
    os.setxattr(folder, "trusted.lov", data)


def test_count_1_fits_a_file_per_rank(tree: Path) -> None:
    template(tree, plain(Part(count=1)))
    (result,) = run(tree, tree)
    assert result.answer == "OK"
    assert result.facts["ranks"] == 128 and result.facts["active_osts"] == 100
    assert result.facts["default"] == "1 x 1 MiB"


def test_all_osts_are_too_many_for_many_ranks(tree: Path) -> None:
    template(tree, plain(Part(count=-1)))
    (result,) = run(tree, tree / "not/yet/there")
    assert (result.answer, result.kind) == ("DEGRADED", "job")
    assert "128 ranks' files would take 100 OSTs" in result.text
    assert result.commands == (f"lfs setstripe -c 1 {tree}",)


def test_one_shared_file_on_one_ost(tree: Path) -> None:
    template(tree, plain(Part(count=1)))
    (result,) = run(tree, tree, habit="shared-file")
    assert result.answer == "DEGRADED"
    assert result.commands == (f"lfs setstripe -c 16 {tree}",)


def test_progressive_template_is_good(tree: Path) -> None:
    template(
        tree,
        composite(
            [
                Part(count=1, flags=0, end=GIB, identity=0),
                Part(count=-1, flags=0, start=GIB, identity=0),
            ]
        ),
    )
    assert run(tree, tree)[0].answer == "OK"


def test_folder_without_template_has_the_one_of_the_root(tree: Path) -> None:
    template(tree, plain(Part(count=64)))
    (tree / "runs").mkdir()
    # ext4 and tmpfs answer as a file system without lustre. attributes: told as it is.
    (result,) = run(tree, tree / "runs")
    assert result.answer == "UNKNOWN" and "cannot be read" in result.text


def test_all_osts_of_an_unknown_number_is_unknown(tree: Path) -> None:
    template(tree, plain(Part(count=-1)))
    (result,) = run(tree, tree, osts=0)
    assert result.answer == "UNKNOWN" and "not known" in result.text


def test_damaged_template_is_unknown(tree: Path) -> None:
    template(tree, plain(Part(count=1))[:-1])
    assert run(tree, tree)[0].answer == "UNKNOWN"


def test_ranks_not_known(tree: Path) -> None:
    template(tree, plain(Part(count=4)))
    (result,) = run(tree, tree, gpus=None)
    assert result.answer == "OK" and result.facts["ranks"] is None


def test_nothing_without_a_path_or_lustre(tree: Path) -> None:
    assert CHECKS.get("checkpoint_layout").run(context_for()) == []
    assert run(tree, tree.parent / "elsewhere") == []


def test_link_leads_to_where_it_leads(tree: Path, tmp_path: Path) -> None:
    template(tree, plain(Part(count=1)))
    (tmp_path / "link").symlink_to(tree)
    assert run(tree, tmp_path / "link")[0].subject == str(tree)
