"""``slurm-io check``: the prolog's checks by hand, with exit codes for scripts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from slurm_io.commands.check import command
from slurm_io.errors import ConfigError, HostError, SpecError, UsageError
from slurm_io.prolog.by_hand import exit_code
from slurm_io.prolog.checks.base import CHECKS
from slurm_io.prolog.checks_file import CheckedNode
from slurm_io.prolog.policy import judge
from slurm_io.prolog.run_checks import RanCheck
from tests.prolog.stand_ins import make_check, make_config, result


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A site whose nodes must have a mount that is not there."""
    path = tmp_path / "config.toml"
    path.write_text(
        f'state_dir = "{tmp_path}/lib"\n[check.mounts]\nrequired = ["/nowhere/%n"]\n'
        f'[dataset.c4]\nlocal = "{tmp_path}/data"\n'
    )
    return path


def check(config: Path, *arguments: str) -> Result:
    return CliRunner().invoke(
        command, ["--config", str(config), "--node=t1", *arguments], catch_exceptions=False
    )


def test_a_fault_is_a_line_and_exit_code_1(config: Path) -> None:
    done = check(config, "--only=mounts")
    assert done.exit_code == 1
    assert "FAIL      mounts  " in done.output
    assert "/nowhere/t1" in done.output


def test_json_holds_the_same(config: Path) -> None:
    done = check(config, "--only=mounts", "--json")
    assert done.exit_code == 1
    content = json.loads(done.output)
    assert content["node"] == "t1"
    failed = [each for each in content["checks"] if each["answer"] == "FAIL"]
    assert {each["check"] for each in failed} == {"mounts"}
    assert {"policy", "action", "wall_s", "cpu_s"} <= set(failed[0])


def test_list_shows_every_check_with_its_policy(config: Path) -> None:
    listed = json.loads(check(config, "--list", "--json").output)
    assert [each["check"] for each in listed] == sorted(CHECKS.discover())
    assert all(each["policy"] in ("record", "warn", "stop", "drain") for each in listed)
    assert len(check(config, "--list").output.splitlines()) == len(listed)


def test_node_only_leaves_the_jobs_data_out(config: Path) -> None:
    content = json.loads(check(config, "--node-only", "--json").output)
    assert {each["kind"] for each in content["checks"]} <= {"node", "shared"}
    names = {each["check"] for each in (*content["checks"], *content["not_run"])}
    assert "dataset" not in names
    assert "mounts" in names


def test_a_dataset_is_looked_at_as_if_a_job_had_asked(config: Path) -> None:
    done = check(config, "--only=dataset", "--dataset=c4", "--json")
    assert done.exit_code == 1
    (found,) = json.loads(done.output)["checks"]
    assert (found["check"], found["answer"]) == ("dataset", "FAIL")


def test_without_a_dataset_there_is_nothing_to_check(config: Path) -> None:
    done = check(config, "--only=dataset")
    assert done.exit_code == 0
    assert "not run: the job named neither dataset nor ckpt" in done.output


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (["--only=mounts,nonsense"], UsageError, "no check called nonsense; there are: "),
        (["--node=t1,t2"], UsageError, "is no node's name"),
        (["--node=../x"], UsageError, "is no node's name"),
        (["--node-only", "--ckpt=/x"], UsageError, "leave one out"),
        (["--dataset=a b"], SpecError, "dataset must be NAME"),
        (["--ckpt=relative"], SpecError, "ckpt must be an absolute path"),
    ],
)
def test_wrong_use_is_said(config: Path, arguments: list[str], error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        check(config, *arguments)


def test_a_broken_configuration_is_said(config: Path) -> None:
    config.write_text("spool_dri = 3")
    with pytest.raises(ConfigError, match="spool_dir"):
        check(config)


def test_undrain_is_for_root(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(HostError, match="only root"):
        check(config, "--only=mounts", "--undrain")


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ([], 0),
        (["OK", "OK"], 0),
        (["OK", "DEGRADED"], 1),
        (["FAIL", "UNKNOWN"], 1),
        (["DEGRADED", "UNKNOWN"], 1),
        (["OK", "UNKNOWN"], 3),
    ],
)
def test_exit_codes(answers: list[Any], code: int) -> None:
    ran = [RanCheck("a", make_check(result()), tuple(map(result, answers)), 0.1, 0.1)]
    assert exit_code(CheckedNode(judge(ran, make_config()))) == code
