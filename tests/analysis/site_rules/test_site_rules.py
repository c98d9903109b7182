"""Files of site rules, a folder of them, and what a report makes of it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slurm_io.analysis.api import analyse_store
from slurm_io.analysis.site_rules.folder import read_rules
from slurm_io.analysis.site_rules.rule_file import SiteRule, parse_rule, read_rule
from slurm_io.analysis.thresholds import Site, Thresholds
from slurm_io.errors import ConfigError
from tests.analysis.report_shape import problems
from tests.analysis.stand_in import StandInStore
from tests.analysis.test_asked import slow_store

RULE: dict[str, Any] = {
    "code": "S01", "title": "storage takes more than our contract says",
    "expression": "idle.data_storage", "threshold": 0.1, "remedy": "write to the storage team",
    "commands": ["sacct -j JOB"], "severity": "bad", "guard": "time.steps >= 200",
}  # fmt: skip


def parsed(**changes: Any) -> SiteRule:
    data = {key: value for key, value in (RULE | changes).items() if value is not None}
    return parse_rule(data, "s.toml")


def toml(**changes: Any) -> str:
    data = RULE | changes
    return "".join(f"{key} = {value!r}\n" for key, value in data.items() if value is not None)


def report_with(folder: Path, store: StandInStore | None = None) -> dict[str, Any]:
    thresholds = replace(Thresholds(), site=Site(str(folder)))
    report = analyse_store(store or slow_store(), thresholds)
    assert problems(report) == []
    return report


def missing(report: dict[str, Any], source: str) -> list[str]:
    return [one["reason"] for one in report["coverage"]["missing"] if one["source"] == source]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"code": "F01"}, "S01 to S99"),
        ({"code": "S00"}, "S01 to S99"),
        ({"code": 1}, "code must be one line"),
        ({"title": ""}, "title must be one line"),
        ({"title": "a\nb"}, "title must be one line"),
        ({"title": "x" * 301}, "longer than 300"),
        ({"remedy": None}, "remedy is missing"),
        ({"threshold": "0.1"}, "threshold must be a number"),
        ({"threshold": True}, "threshold must be a number"),
        ({"expression": "time.steps * 0x" + "f" * 300}, "is no number"),
        ({"guard": "time.steps > 1" + "0" * 400}, "is no number"),
        ({"unit": "x" * 1000}, "unit must be"),
        ({"threshold": float("nan")}, "threshold must be a number"),
        ({"expression": "idle.data_storag"}, "expression: there is no idle.data_storag; did you"),
        ({"expression": 5}, "expression must be an expression in quotes"),
        ({"guard": "time.steps"}, "guard: time.steps is a number"),
        ({"severity": "awful"}, "one of info, warn, bad"),
        ({"fires": "over"}, "one of above, below"),
        ({"fires": ["above"]}, "one of above, below"),
        ({"unit": "ms"}, "unit says 'ms'"),
        ({"unit": 3}, "unit in quotes"),
        ({"commands": "ls"}, "list of single lines"),
        ({"commands": ["a\nb"]}, "list of single lines"),
        ({"commands": ["ls"] * 9}, "at most 8"),
        ({"thresold": 3}, "unknown key 'thresold'; did you mean threshold?"),
    ],
)
def test_every_mistake_names_file_key_and_fix(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parsed(**changes)
    assert str(caught.value).startswith("s.toml: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_unit_may_be_named_and_is_checked() -> None:
    assert parsed(expression="p99(fsclient.rtt_ms)", unit="ms").threshold == 0.1
    with pytest.raises(ConfigError, match=r"is in ms, unit says 's'.*base_unit"):
        parsed(expression="p99(fsclient.rtt_ms)", unit="s")


def test_files_that_are_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "large.toml").write_bytes(b"#" * (65 << 10))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "deep.toml").write_text("a = " + "[" * 60_000)
    (tmp_path / "folder.toml").mkdir()
    for name in ("pipe", "large", "binary", "deep", "folder", "absent"):
        with pytest.raises(ConfigError, match=f"{name}.toml: "):
            read_rule(str(tmp_path / f"{name}.toml"))


def test_a_broken_rule_hides_no_other_and_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("not toml")
    (tmp_path / "b.toml").write_text(toml())
    (tmp_path / "c.toml").write_text(toml(title="the same code"))
    (tmp_path / "d.toml").write_text(toml(code="S02", expression="idle.nothing"))
    (tmp_path / "notes.txt").write_text("no rule")
    (tmp_path / ".hidden.toml").write_text("no rule")
    found = read_rules(str(tmp_path))
    assert [rule.code for rule in found.rules] == ["S01"]
    assert [Path(path).name for path, _ in found.broken] == ["a.toml", "c.toml", "d.toml"]
    report = report_with(tmp_path)
    assert {"F01", "F04", "S01"} <= {one["rule"] for one in report["findings"]}
    assert "is taken by" in missing(report, f"site rule {tmp_path}/c.toml")[0]


def test_a_folder_that_is_not_there_costs_the_report_nothing(tmp_path: Path) -> None:
    report = report_with(tmp_path / "absent")
    assert {"F01", "F04"} <= {one["rule"] for one in report["findings"]}
    assert "cannot be listed" in missing(report, f"site rule {tmp_path}/absent")[0]


def test_a_rule_that_fires_is_a_finding_like_any_other(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(toml())
    report = report_with(tmp_path)
    finding = next(one for one in report["findings"] if one["rule"] == "S01")
    assert (finding["severity"], finding["confidence"]) == ("bad", "likely")
    assert finding["remedy"] == RULE["remedy"]
    assert finding["commands"] == RULE["commands"]
    assert finding["evidence"][0]["threshold"] == 0.1
    assert finding["evidence"][0]["value"] > 0.1
    assert str(tmp_path / "s.toml") in finding["evidence"][0]["text"]
    plain = analyse_store(slow_store())
    assert (report["verdict"], report["idle"]) == (plain["verdict"], plain["idle"])


@pytest.mark.parametrize(
    "changes",
    [{"threshold": 0.9}, {"fires": "below"}, {"guard": "time.steps >= 10_000"}],
    ids=["below its threshold", "fires below", "its guard"],
)
def test_a_rule_that_does_not_fire_says_nothing(tmp_path: Path, changes: dict[str, Any]) -> None:
    (tmp_path / "s.toml").write_text(toml(**changes))
    report = report_with(tmp_path)
    assert "S01" not in {one["rule"] for one in report["findings"]}
    assert missing(report, "rule S01") == []


def test_what_it_lacks_is_told_where_other_gaps_are(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(toml(expression="mean(gpu.util_share)"))
    assert "table gpu has no rows" in missing(report_with(tmp_path), "rule S01")[0]


def test_a_job_can_silence_it_and_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(toml())
    report = report_with(tmp_path, slow_store("slurm-io: silence=S01"))
    assert "S01" not in {one["rule"] for one in report["findings"]}
    assert "silence" in missing(report, "rule S01")[0]
    assert "F01" in {one["rule"] for one in report["findings"]}


def test_a_fault_of_ours_in_one_rule_is_that_rules_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> float:
        raise KeyError("x\ny")

    monkeypatch.setattr("slurm_io.analysis.site_rules.judge.Evaluator.value", broken)
    (tmp_path / "s.toml").write_text(toml())
    report = report_with(tmp_path)
    assert "the rule failed (KeyError" in missing(report, "rule S01")[0]
    assert "F01" in {one["rule"] for one in report["findings"]}


def test_a_number_of_thousands_of_digits_costs_its_own_rule_only(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(f"threshold = {'1' * 5000}\n")
    (tmp_path / "b.toml").write_text(toml())
    found = read_rules(str(tmp_path))
    assert [one.code for one in found.rules] == ["S01"]
    assert "not valid TOML" in found.broken[0][1]
