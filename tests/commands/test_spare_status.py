"""``slurm-io spare status`` and the hidden ``node-report``: what they refuse at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slurm_io.commands import cli
from slurm_io.errors import UsageError
from tests.reservation.pools import FakeSlurm


def spare(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["spare", *arguments])


def test_the_report_of_a_node_is_no_command_for_people() -> None:
    listed = spare("--help").stdout
    assert "status" in listed
    assert "node-report" not in listed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"has no section \[reservation"),
        ("[reservation.a]\n[reservation.b]\n", "one of a, b"),
    ],
)
def test_without_a_name_there_must_be_one_reservation(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "site.toml"
    path.write_text(text)
    done = spare("status", "--config", str(path))
    assert isinstance(done.exception, UsageError)
    with pytest.raises(UsageError, match=said):
        raise done.exception


@pytest.mark.parametrize(
    "wrong",
    [("status", "-f", "pdf"), ("status", "-o", ""), ("node-report", "--limit", "1")],
)
def test_wrong_words_are_usage_errors(wrong: tuple[str, ...]) -> None:
    assert spare(*wrong).exit_code == 2


def test_nothing_known_of_any_spare_is_exit_code_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slurm_io.slurm.cli.CliSlurm", FakeSlurm)
    path = tmp_path / "site.toml"
    text = f'state_dir = "{tmp_path}/state"\n[reservation.train]\nfiller_qos = ["spare"]\n'
    path.write_text(text)
    done = spare("status", "train", "--quick", "--json", "--config", str(path))
    assert done.exit_code == 3, done.output
    assert json.loads(done.stdout)["spares"][0]["state"] == "unknown"
