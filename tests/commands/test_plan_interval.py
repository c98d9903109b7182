"""``slurm-io plan interval``: known values, their base, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slurm_io.commands import cli


def plan(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["plan", "interval", *arguments])


def test_a_known_value_with_its_base() -> None:
    done = plan("--cost", "11.2", "--nodes", "128", "--node-mtbf", "5600", "--json")
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    [option] = told["options"]
    assert option["young_s"] == pytest.approx(1878.3, rel=1e-4)
    assert told["base"] == "M = 5600 h of a node / 128"


def test_the_present_interval_is_weighed_beside_it() -> None:
    done = plan("--cost", "11.2", "--nodes", "128", "--node-mtbf", "5600", "--now", "25000")
    assert "25000 s lose 7.7" in done.stdout
    assert "sqrt(2 C M)" in done.stdout


def test_without_a_failure_rate_a_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("slurm_io.config.DEFAULT_PATH", str(tmp_path / "none.toml"))
    (tmp_path / "none.toml").write_text("")
    told = json.loads(plan("--cost", "10", "--json").stdout)
    assert len(told["options"]) == 3
    assert "not known" in told["base"]


def test_the_sites_failure_rate_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text("[thresholds]\nnode_mtbf_h = 5600\n")
    monkeypatch.setattr("slurm_io.config.DEFAULT_PATH", str(tmp_path / "site.toml"))
    told = json.loads(plan("--cost", "11.2", "--nodes", "128", "--json").stdout)
    assert told["node_mtbf_h"] == 5600


@pytest.mark.parametrize("bad", ["0", "-3", "soon"])
def test_a_cost_that_is_none_is_a_usage_error(bad: str) -> None:
    assert plan("--cost", bad).exit_code == 2
    assert plan().exit_code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("--cost", "nan"), ("--cost", "inf"), ("--cost", "1", "--restart", "nan"),
        ("--cost", "1", "--node-mtbf", "inf"), ("--cost", "1", "--nodes", "9" * 400),
    ],
)  # fmt: skip
def test_what_is_no_number_to_reckon_with_is_wrong_use(arguments: tuple[str, ...]) -> None:
    done = plan(*arguments)
    assert done.exit_code == 2
    assert "Invalid value for" in done.stderr


def test_a_number_of_nodes_that_is_not_used_is_told() -> None:
    text = plan("--cost", "60", "--nodes", "9").stdout
    assert "how often a node fails is not known (--node-mtbf)" in text
