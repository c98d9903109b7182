"""``slurm-io incidents``: list, search, one; exit codes."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from slurm_io.commands.incidents import command
from slurm_io.errors import UsageError
from slurm_io.incidents.library import incidents


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, catch_exceptions=False)


def test_the_list_names_all_and_each_can_be_shown() -> None:
    assert len(run().output.splitlines()) == len(incidents())
    for one in json.loads(run("--json").output):
        assert one["title"] in run(one["id"]).output
        shown = json.loads(run(one["id"], "--json").output)
        assert shown == {key: one[key] for key in shown}


def test_a_search_says_what_was_found_where() -> None:
    lines = run("--symptom", "evicted shards").output.splitlines()
    assert lines[0].startswith("smollm3-evicted-shards: ")
    assert lines[1] == "    found evicted (symptoms), shards (symptoms)"
    found = json.loads(run("--symptom", "evicted shards", "--json").output)
    assert found[0]["found"] == {"evicted": "symptoms", "shards": "symptoms"}


def test_a_rule_and_a_symptom_narrow_together() -> None:
    both = json.loads(run("--rule", "f13", "--symptom", "symlink lustre", "--json").output)
    assert [one["id"] for one in both] == ["kempner-latest-before-durable"]


def test_nothing_found_is_no_error() -> None:
    result = run("--symptom", "zeppelin")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "no incident" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("nobody",), ("--rule", "F99"), ("--rule", "S01"), ("--symptom", "..."),
        ("smollm3-index-growth", "--rule", "F09"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_for_is_wrong_use(arguments: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        run(*arguments)


def test_a_rule_that_no_incident_names_is_a_rule_all_the_same() -> None:
    result = run("--rule", "F25")
    assert result.exit_code == 0
    assert "no incident" in result.stderr
