"""The text report: one screen, golden, and safe whatever the job called its files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from slurm_io.analysis.api import analyse_store
from slurm_io.analysis.reports.base import FORMATS
from slurm_io.analysis.reports.text import WIDTH, render, render_for_terminal, render_text
from tests.analysis.report_shape import problems
from tests.analysis.rules.stores import HEALTHY_CHECKS
from tests.analysis.stand_in import Job, one_rank

GOLDEN = Path(__file__).parents[1] / "fixtures" / "analysis"
REWRITE = "SLURM_IO_REWRITE_GOLDEN"


def slow_job(**settings: Any) -> Job:
    rank = one_rank()
    for k in range(400):
        rank.batch(0.05 if k else 0.5, index=k)
        rank.compute(0.05)
        if k % 100 == 50:
            rank.event("ckpt_save", 0.4, bytes=10**8, path="/scratch/ckpt/a.pt")
    return Job([rank], **settings)


@pytest.mark.parametrize("name", sorted(FORMATS.discover()))
def test_golden(name: str) -> None:
    """Compare with the file of that format; SLURM_IO_REWRITE_GOLDEN=1 writes it anew."""
    text = FORMATS.get(name)(analyse_store(slow_job().store()))
    path = GOLDEN / f"slow.{name}"
    if os.environ.get(REWRITE):
        path.write_text(text)
    assert text == path.read_text()


def test_golden_files_belong_to_formats() -> None:
    assert {path.suffix[1:] for path in GOLDEN.glob("slow.*")} == set(FORMATS.discover())


def test_json_is_the_object_itself() -> None:
    report = analyse_store(slow_job().store())
    assert json.loads(FORMATS.get("json")(report)) == report
    assert problems(report) == []


def test_one_screen_verdict_first() -> None:
    lines = render(analyse_store(slow_job().store())).splitlines()
    assert lines[0].startswith("slurm-io: STORAGE")
    assert len(lines) <= 50
    assert [line for line in lines if "$ " not in line and len(line) > WIDTH] == []


def test_rules_that_lack_the_same_kind_of_thing_share_a_line() -> None:
    """No prolog is a word in the line of what was seen; empty tables are one line."""
    store = slow_job().store()
    report = analyse_store(store)
    assert {"rule F11", "rule F14"} <= {one["source"] for one in report["coverage"]["missing"]}
    text = " ".join(render(report).split())
    assert "stacks off, checks off" in text
    assert "rule F11" not in text
    assert "rule F18, rule F20: no rows of the training in table fsclient, table gpu" in text
    store.nodes["n1"].checks = {"checks": [dict(HEALTHY_CHECKS[0])]}
    assert "checks off" not in render(analyse_store(store))


def test_colour_only_when_asked() -> None:
    report = analyse_store(slow_job().store())
    assert "\x1b[" not in render(report)
    assert "\x1b[" in render_text(report, 80, colour=True)


def test_hostile_file_names_are_shown_and_not_obeyed() -> None:
    """Escapes, markup, newlines and right-to-left marks come from paths and mounts."""
    evil = "/data\x1b[2J\r\n[bold]x[/]\u202egpj"
    report = analyse_store(slow_job(mount=evil).store())
    text = render(report)
    assert "\x1b" not in text
    assert "\r" not in text
    assert "\u202e" not in text
    assert "[bold]x[/]" in text
    assert "\\x1b[2J" in text


def test_commands_quote_what_the_job_named() -> None:
    report = analyse_store(slow_job(mount="/data/$(reboot);x y").store())
    commands = report["findings"][0]["commands"]
    assert any("'/data/$(reboot);x y/data/'" in command for command in commands)


def test_a_price_makes_a_cost() -> None:
    store = slow_job(gpus_on_node=1000).store()
    assert store.job is not None
    priced = {**store.job.to_dict(), "comment": "slurm-io: price=3.00"}
    store.job = type(store.job).from_dict(priced)
    finding = analyse_store(store)["findings"][0]
    assert finding["cost"] == pytest.approx(finding["gpu_hours"] * 3, abs=0.01)
    assert finding["gpu_hours"] > 5


def test_a_terminal_sets_width_and_colour() -> None:
    report = analyse_store(slow_job().store())
    narrow = render_for_terminal(report, 60, {"TERM": "xterm", "NO_COLOR": "1"})
    assert "\x1b" not in narrow
    assert [line for line in narrow.splitlines() if "$ " not in line and len(line) > 60] == []
    assert "\x1b[" in render_for_terminal(report, 60, {"TERM": "xterm"})
    assert "\x1b" not in render_for_terminal(report, 60, {"TERM": "dumb"})
    wide = render_for_terminal(report, 300, {})
    assert wide == render(report)


def test_one_reason_for_several_sources_is_one_line() -> None:
    text = render(analyse_store(Job([one_rank()]).store()))
    assert "rule F01, rule F02, rule F0" in text
    assert text.count("no training batches were recorded (hook)") == 1  # the verdict has a capital


def test_the_hint_names_the_module_that_jobs_can_import() -> None:
    """`slurm_io` itself is not on a job's import path, `slurm_io_hook` is."""
    text = " ".join(render(analyse_store(Job([one_rank()]).store())).split())
    assert "slurm_io_hook.watch(loader)" in text
    assert "slurm_io.hook" not in text


def test_a_run_of_a_moment_has_no_share_of_a_core() -> None:
    """Starting up is all the sampler does then: 105 % of a core would be true and mislead."""
    report = analyse_store(slow_job().store())
    report["overhead"] |= {"cpu_s": 0.02, "cpu_share": 1.05}
    report["time"] |= {"wall_s": 0.02}
    assert "of a core" not in render(report)
    report["time"] |= {"wall_s": 60.0}
    assert "105.00% of a core" in render(report)


def test_a_job_nobody_told_of_is_no_job_called_none() -> None:
    report = analyse_store(slow_job().store())
    report["job"] |= {"id": None, "user": None}
    text = render(report)
    assert "job ? (" in text and ", user ?, 1 node" in text
    assert "None" not in text
