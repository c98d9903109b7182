"""What a job stands on: spool and dataset, links followed by a child that may hang."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from slurm_io.config import Config, DatasetConfig
from slurm_io.prolog.checks.base import CheckContext
from slurm_io.prolog.needed_paths import NeededPath, needed_paths, resolve
from slurm_io.spec import JobSpec

CONTEXT = CheckContext(
    "node1.site", Config(datasets={"c4": DatasetConfig(local="/raid/%N/c4")}), JobSpec(), 1.0,
    "user1", 1000, 1000,
)  # fmt: skip
SPOOL = NeededPath("spool", "/var/spool/slurm_io", writable=True)


def test_a_job_without_a_dataset_needs_the_spool() -> None:
    assert needed_paths(CONTEXT) == [SPOOL]


def test_a_dataset_of_the_registry() -> None:
    context = replace(CONTEXT, spec=JobSpec(dataset="c4@abcd"))
    assert needed_paths(context) == [SPOOL, NeededPath("dataset c4", "/raid/node1/c4")]


def test_a_path_of_the_users_choice_is_marked() -> None:
    context = replace(CONTEXT, spec=JobSpec(dataset="/home/u/data"))
    assert needed_paths(context)[1].by_user


def test_an_unknown_dataset_is_another_checks_affair() -> None:
    assert needed_paths(replace(CONTEXT, spec=JobSpec(dataset="c5"))) == [SPOOL]


def test_links_are_followed_and_what_is_not_there_stays(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    found = resolve([f"{tmp_path}/link/x", "/no/such"], 5.0)
    assert found == {f"{tmp_path}/link/x": f"{tmp_path}/x", "/no/such": "/no/such"}


def test_a_path_that_hangs_stands_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.path.realpath

    def slow(path: str) -> str:
        if path == "/hung":
            time.sleep(60)
        return str(real(path))

    monkeypatch.setattr(os.path, "realpath", slow)
    assert resolve(["/", "/hung"], 0.2) == {"/": "/", "/hung": "/hung"}
