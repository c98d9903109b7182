"""``slurm-io rule``: the list of rules and the page of one."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from slurm_io.commands.rule import command
from slurm_io.config import Thresholds, settings_of
from slurm_io.errors import UsageError


def rule(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, catch_exceptions=False)


def test_json_holds_the_page_too() -> None:
    facts = json.loads(rule("f01", "--json").output)
    assert facts["code"] == "F01"
    assert facts["text"] == rule("F01").output.rstrip("\n")


def test_the_list_names_every_rule_that_can_be_asked_for() -> None:
    listed = json.loads(rule("--json").output)
    assert len(listed) == len(rule().output.splitlines())
    assert all(rule(each["code"]).exit_code == 0 for each in listed)


@pytest.mark.parametrize("code", ["F99", ""])
def test_an_unknown_rule_is_wrong_use(code: str) -> None:
    with pytest.raises(UsageError, match="there are: F01"):
        rule(code)


def test_thresholds_in_the_pages_are_keys_of_the_configuration() -> None:
    """A reader looks for them there."""
    keys = {f"thresholds.{key}" for key in settings_of(Thresholds)}
    for each in json.loads(rule("--json").output):
        words = rule(each["code"]).output.rpartition("Thresholds\n")[2].split("``")[1::2]
        assert words
        assert set(words) <= keys
