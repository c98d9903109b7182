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


def test_a_path_of_the_users_choice_is_none_that_root_looks_at() -> None:
    context = replace(CONTEXT, spec=JobSpec(dataset="/home/u/data"))
    assert needed_paths(context) == [SPOOL]


def test_an_unknown_dataset_is_another_checks_affair() -> None:
    assert needed_paths(replace(CONTEXT, spec=JobSpec(dataset="c5"))) == [SPOOL]


def test_links_are_followed_and_what_is_not_there_stays(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    found = resolve([f"{tmp_path}/link/x", "/no/such"], 5.0, 5, "/proc")
    assert found == {f"{tmp_path}/link/x": f"{tmp_path}/x", "/no/such": "/no/such"}


def test_a_path_that_hangs_stands_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    lstat = os.lstat

    def slow(path: str) -> os.stat_result:
        if path == "/hung":
            time.sleep(60)
        return lstat(path)

    monkeypatch.setattr(os, "lstat", slow)
    assert resolve(["/", "/hung"], 0.2, 5, "/proc") == {"/": "/", "/hung": "/hung"}


@pytest.mark.root
def test_root_follows_no_link_of_the_jobs_user_and_he_himself_does(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/")
    os.lchown(tmp_path / "link", 5, -1)
    asked = f"{tmp_path}/link"
    assert resolve([asked], 5.0, 5, "/proc") == {asked: str(tmp_path)}
