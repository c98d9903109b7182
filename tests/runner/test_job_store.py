"""Who may write into which store."""

from __future__ import annotations

import json
import os
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from slurm_io.model import JobIdentity
from slurm_io.runner.job_store import candidates, claim, told_by_nodes, write_exit_code, write_own
from slurm_io.runner.step import Step

NODES = ("n1", "n2")
JOB = JobIdentity("c", "7", 0, "u", os.getuid())


def facts(node: str = "n1", step: int | None = 0, **job: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "job": {**JOB.to_dict(), **job},
        "step": step,
        "nodes_expected": list(NODES) if step is not None else [node],
        "spool": {node: f"/spool/{node}"},
        "exit_code": None,
    }


def test_the_nodes_of_a_step_share_a_store_and_each_comes_once(tmp_path: Path) -> None:
    assert claim(tmp_path, facts("n1"), "n1")
    assert claim(tmp_path, facts("n2"), "n2")
    assert not claim(tmp_path, facts("n2"), "n2")
    spools = [told["spool"] for told in told_by_nodes(tmp_path)]
    assert spools == [None, {"n1": "/spool/n1"}, {"n2": "/spool/n2"}]
    assert {path.name for path in tmp_path.iterdir()} == {
        "job.json", "job.n1.json", "job.n2.json",
    }  # fmt: skip


@pytest.mark.parametrize(
    "other",
    [
        facts("n2", step=1),
        facts("n2", job="8"),
        facts("n2", restart=1),
        facts("n2", uid=12345),
        facts("n2", cluster="d"),
        facts("n2", step=None),
        facts("n3"),
    ],
)
def test_everybody_else_is_refused(tmp_path: Path, other: dict[str, Any]) -> None:
    assert claim(tmp_path, facts("n1"), "n1")
    assert not claim(tmp_path, other, next(iter(other["spool"])))
    assert {path.name for path in tmp_path.iterdir()} == {"job.json", "job.n1.json"}


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"job": 3, "step": 0}'])
def test_a_job_file_that_is_none_is_left_alone(tmp_path: Path, content: str) -> None:
    (tmp_path / "job.json").write_text(content)
    assert not claim(tmp_path, facts("n1"), "n1")
    assert (tmp_path / "job.json").read_text() == content


@pytest.mark.root
def test_a_strangers_store_that_looks_like_ours_is_not_joined(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to give folders away")
    store = tmp_path / "store"
    store.mkdir(mode=0o777)
    assert claim(store, facts("n1"), "n1")
    os.chown(store, 33, 33)
    assert not claim(store, facts("n2"), "n2")


@pytest.mark.parametrize(
    ("codes", "told"), [((0, 0), 0), ((0, 4), 4), ((-9, 4), -9), ((0, None), None), ((None, 2), 2)]
)
def test_the_steps_exit_code(
    tmp_path: Path, codes: tuple[int | None, int | None], told: int | None
) -> None:
    for node, code in zip(NODES, codes, strict=True):
        assert claim(tmp_path, facts(node), node)
        write_own(tmp_path, {**facts(node), "exit_code": code}, node)
    write_exit_code(tmp_path)
    assert json.loads((tmp_path / "job.json").read_text())["exit_code"] == told


def test_names(tmp_path: Path) -> None:
    step = Step("7", 0, 4, "n1", 0, 2, NODES)

    def first(output: Path | None, step: Step | None, numbered: bool = False) -> list[str]:
        return [str(path) for path in islice(candidates(output, JOB, step, numbered=numbered), 2)]

    assert first(None, None) == ["slurm-io-7", "slurm-io-7-2"]
    assert first(None, step) == ["slurm-io-7.step4", "slurm-io-7.step4-2"]
    assert first(Path("mine"), step) == ["mine"]
    assert first(Path("mine"), step, numbered=True) == ["mine", "mine-2"]
