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
from slurm_io.prolog.by_hand import answers_of, as_lines, exit_code
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
    done = check(config, "--only=mounts,pcie_links")
    assert " layout" not in done.output
    done = check(config)
    assert "not run: the job named neither dataset nor ckpt" in done.output


def test_columns_stand_below_each_other(config: Path) -> None:
    """Also where the longest name is that of a check that did not run."""
    lines = [line for line in check(config).output.splitlines() if not line.startswith(" ")]
    assert len({len(line[10:]) - len(line[10:].split("  ", 1)[1].lstrip()) for line in lines}) == 1


def test_checks_that_did_not_run_are_in_the_order_of_their_names(config: Path) -> None:
    not_run = [each["check"] for each in json.loads(check(config, "--json").output)["not_run"]]
    assert not_run == sorted(not_run)
    assert len(not_run) > 2


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (["--only=mounts,nonsense"], UsageError, "no check called nonsense; there are: "),
        (["--only=,"], UsageError, "names no check"),
        (
            ["--only=dataset"],
            UsageError,
            "give --dataset or --ckpt",
        ),  # 0 would read as "it is well"
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


def test_a_section_of_no_check_is_said(config: Path) -> None:
    config.write_text('[check.mount]\npolicy = "stop"\n')
    with pytest.raises(ConfigError, match="did you mean 'mounts'"):
        check(config, "--list")


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


def test_a_note_is_shown_and_changes_neither_exit_code_nor_what_an_undrain_goes_by() -> None:
    note = result("DEGRADED", text="2 tasks slept", record_only=True)
    ran = [RanCheck("a", make_check(result()), (note,), 0.1, 0.1)]
    checked = CheckedNode(judge(ran, make_config()))
    assert exit_code(checked) == 0
    assert answers_of(checked) == {"stand_in": "OK"}
    (line,) = as_lines(checked)
    assert line.startswith("DEGRADED ") and line.endswith("2 tasks slept (recorded only)")
