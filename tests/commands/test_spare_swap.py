"""``slurm-io spare swap`` and ``spare plan``: arguments, answers, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from slurm_io.errors import UsageError
from slurm_io.reservation.swap import real_world
from tests.reservation.swap.fake import NAME
from tests.reservation.swap.lab import Lab, filler, lab, lose, training

CONFIG = "[reservation.R]\n"


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    return str(path)


def run(it: Lab, config: str, monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, str]:
    """``spare WORDS`` on the lab's world."""
    from slurm_io.commands.spare import plan, swap

    monkeypatch.setattr(real_world, "open_world", lambda *given: it.world)
    command = {"swap": swap.command, "plan": plan.command}[words[0]]
    done = CliRunner().invoke(command, [*words[1:], "--config", config])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


def test_the_command_shows_each_step_and_ends_with_the_answers_code(
    tmp_path: Path, config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = lab(tmp_path, training(), filler())
    lose(it.slurm, "t3")
    code, text = run(it, config, monkeypatch, "swap", NAME, "--dry-run")
    assert code == 0 and "fence        would" in text and it.slurm.log == []
    code, text = run(it, config, monkeypatch, "swap", NAME, "t3", "--yes", "--json")
    answer = json.loads(text)
    assert (code, answer["state"], answer["facts"]["bad"]) == (0, "done", "t3")


def test_without_a_terminal_it_does_nothing_unless_told(
    tmp_path: Path, config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = lab(tmp_path, training())
    lose(it.slurm, "t3")
    with pytest.raises(UsageError, match="--yes"):
        run(it, config, monkeypatch, "swap", NAME)
    with pytest.raises(UsageError, match="two bad nodes"):
        run(it, config, monkeypatch, "swap", NAME, "t3", "--bad", "t2", "--yes")
    with pytest.raises(UsageError, match="--resume"):
        run(it, config, monkeypatch, "swap", NAME, "t3", "--resume")
    assert it.slurm.log == []


def test_plan_b_is_shown_and_the_code_is_3(
    tmp_path: Path, config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = lab(tmp_path, training())
    it.slurm.nodes_.pop("t5")
    for name in ("t3", "t4"):
        lose(it.slurm, name)
    code, text = run(it, config, monkeypatch, "swap", NAME, "--yes")
    assert code == 3 and "plan B       run on 2 nodes" in text
    code, text = run(it, config, monkeypatch, "plan", NAME)
    assert code == 0 and "no protected job runs" in text


def test_ctrl_c_in_the_grace_names_no_roll_back(
    tmp_path: Path, config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(slurm: object) -> None:
        raise KeyboardInterrupt

    it = lab(tmp_path, training())
    lose(it.slurm, "t3", since_s=12)
    it.slurm.happens.append((it.slurm.clock.now_s() + 5, interrupt))
    code, text = run(it, config, monkeypatch, "swap", NAME, "--yes")
    assert code != 0 and "t3 has looked bad for 12 s; waiting 18 s more" in text
    assert "stopped: nothing was done" in text and "--roll-back" not in text
