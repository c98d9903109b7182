"""``slurm-io rule``: the list with its thresholds, the page of one, a site's own rule tried out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from slurm_io import config
from slurm_io.commands.rule import command
from slurm_io.config import Thresholds, settings_of
from slurm_io.errors import ConfigError, StoreError, UsageError
from tests.analysis.site_rules.test_site_rules import toml


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site with a configuration file and a rule of its own."""
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "s01.toml").write_text(toml())
    path = tmp_path / "config.toml"
    path.write_text(f'[rules]\nsite_dir = "{rules}"\n[thresholds]\ndata_share = 0.05\n')
    monkeypatch.setattr(config, "DEFAULT_PATH", str(path))
    return rules


def rule(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments, catch_exceptions=False)


def listed() -> dict[str, Any]:
    return {one["code"]: one for one in json.loads(rule("list", "--json").output)["rules"]}


def test_json_holds_the_page_too() -> None:
    facts = json.loads(rule("show", "f01", "--json").output)
    assert facts["code"] == "F01"
    assert facts["text"] == rule("show", "F01").output.rstrip("\n")


def test_the_list_names_every_rule_that_can_be_asked_for() -> None:
    codes = set(listed())
    assert {"F01", "F08", "F10", "F17", "F24"} <= codes
    assert codes == {line[:3] for line in rule("list").output.splitlines() if line[:1] in "FS"}
    assert all(rule("show", code).exit_code == 0 for code in codes)


@pytest.mark.parametrize("code", ["F99", "S01", "x"])
def test_an_unknown_rule_is_wrong_use(code: str) -> None:
    with pytest.raises(UsageError, match="there are: F01"):
        rule("show", code)


def test_thresholds_in_the_pages_are_keys_of_the_configuration() -> None:
    """A reader looks for them there."""
    keys = {f"thresholds.{key}" for key in settings_of(Thresholds)}
    for code in listed():
        words = rule("show", code).output.rpartition("Thresholds\n")[2].split("``")[1::2]
        assert words
        assert set(words) <= keys


def test_thresholds_in_force_say_where_they_come_from(site: Path) -> None:
    [data, together] = listed()["F01"]["thresholds"]
    assert (data["key"], data["value"], data["source"]) == (
        "data_share", 0.05, str(site.parent / "config.toml"),
    )  # fmt: skip
    assert (together["key"], together["source"]) == ("storage_share", "default")
    assert "data_share 0.05 share (" in rule("list").output


def test_a_sites_rule_is_listed_and_shown(site: Path) -> None:
    own = listed()["S01"]
    assert own["thresholds"][0]["source"] == str(site / "s01.toml")
    text = rule("show", "s01").output
    assert "idle.data_storage is at or above 0.1 (bad)" in text
    assert "Only where: time.steps >= 200" in text
    assert "$ sacct -j JOB" in text


def test_a_broken_rule_of_the_site_is_told_and_ends_with_1(site: Path) -> None:
    (site / "s02.toml").write_text("code = 'S02'")
    found = rule("list")
    assert found.exit_code == 1
    assert "s02.toml: title is missing" in found.output
    assert "F01 " in found.output and "S01 " in found.output


def test_a_sound_rule(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(toml(expression="p99(fsclient.rtt_ms)", threshold=20))
    found = rule("check", str(path))
    assert found.exit_code == 0
    assert "p99(fsclient.rtt_ms) is at or above 20 ms" in found.output
    assert json.loads(rule("check", str(path), "--json").output)["unit"] == "ms"


def test_a_bad_rule_is_what_the_check_looks_for(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(toml(expression="p99(fsclient.rtt)"))
    found = rule("check", str(path))
    assert found.exit_code == 1
    assert "did you mean fsclient.rtt_ms?" in found.output
    assert json.loads(rule("check", str(path), "--json").output)["sound"] is False


def test_a_rule_tried_against_no_store(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(toml())
    with pytest.raises(StoreError):
        rule("check", str(path), "--against", str(tmp_path / "absent"))


def test_a_rule_that_cannot_be_read_is_not_called_unsound(tmp_path: Path) -> None:
    for path in (tmp_path / "absent.toml", tmp_path):
        with pytest.raises(ConfigError, match="cannot be read") as refused:
            rule("check", str(path), "--json")
        assert refused.value.exit_code == 3


def test_the_name_of_a_store_steers_no_terminal(tmp_path: Path) -> None:
    path, store = tmp_path / "s.toml", tmp_path / "x\x07"
    path.write_text(toml())
    store.mkdir()
    (store / "job.json").write_text('{"nodes_expected": ["n1"]}')
    found = rule("check", str(path), "--against", str(store))
    assert found.exit_code == 0
    assert "\x07" not in found.output
    assert "not enough evidence" in found.output


def test_no_digit_of_a_threshold_is_left_out() -> None:
    assert "shared_file_bytes 1073741824 B" in rule("list").output
