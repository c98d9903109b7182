"""The reader of the peer's output: its units are not what its keys say everywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.labs.iostat import kilobytes_s, parse_json, parse_table

CASE = Path(__file__).parents[1] / "fixtures" / "cases" / "F06"


def test_case_f06_sectors_under_the_name_of_megabytes_and_decimal_commas() -> None:
    expected = json.loads((CASE / "expected.json").read_text())
    answer, slack = expected["answer"], expected["tolerance"]["wMB_s"]
    (by_json,) = parse_json((CASE / "iostat.json").read_text())
    (by_table,) = parse_table((CASE / "iostat_table.txt").read_text())
    for row in (by_json["sda"], by_table["sda"]):
        assert kilobytes_s(row, "w") == pytest.approx(answer["wkB_s"])
        assert kilobytes_s(row, "w") / 1024 == pytest.approx(answer["wMB_s"], abs=slack)
    stated = by_json["sda"]["wMB/s"] * 1024
    assert (kilobytes_s(by_json["sda"], "w") == stated) is answer["json_wMB_s_usable"]
    table = answer["table_values"]
    assert [by_table["sda"][name] for name in ("w/s", "wMB/s", "w_await", "wareq-sz", "util")] == [
        table["w_s"], table["wMB_s"], table["w_await"], table["wareq_sz"], table["util"],
    ]  # fmt: skip


def test_kilobytes_are_taken_as_stated_where_they_are_right() -> None:
    row = {"r/s": 100.0, "rkB/s": 400.21, "rareq-sz": 4.0}
    assert kilobytes_s(row, "r") == 400.21
    assert kilobytes_s({**row, "rkB/s": 800.42}, "r") == 400.0
    assert kilobytes_s({"r/s": 0.0, "rkB/s": 0.0, "rareq-sz": 0.0}, "r") == 0.0


def test_several_reports_with_banner_and_blank_lines() -> None:
    text = "Linux 6.1 (n1)\n\nDevice r/s %util\nsda 1.00 2.00\nsdb 3.00 4.00\n\nDevice r/s %util\n"
    assert parse_table(text + "sda 5.00 6.00\n\n") == [
        {"sda": {"r/s": 1, "util": 2}, "sdb": {"r/s": 3, "util": 4}},
        {"sda": {"r/s": 5, "util": 6}},
    ]
