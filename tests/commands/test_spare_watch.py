"""The commands around the watch, on a machine without a cluster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFIG = """\
state_dir = "{state}"
[reservation.train]
filler_user = "games"
"""

SLURM_CONF = """\
ClusterName=none
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=1
AuthType=auth/munge
NodeName=t1 NodeHostname=localhost
PartitionName=main Nodes=t1
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    path = tmp_path / "config.toml"
    path.write_text(CONFIG.format(state=tmp_path / "state"))
    return path


def ours(*arguments: str, config: Path) -> subprocess.CompletedProcess[str]:
    """With a slurm.conf whose controller is not there."""
    conf = config.with_name("slurm.conf")
    conf.write_text(SLURM_CONF)
    argv = [sys.executable, "-m", "slurm_io", *arguments, "--config", str(config)]
    environment = {**os.environ, "SLURM_CONF": str(conf)}
    return subprocess.run(
        argv, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_watch_without_a_controller_stands_still_and_says_so_once(config: Path) -> None:
    first = ours("spare", "watch", "--once", "--json", config=config)
    assert first.returncode == 1, first.stderr
    event = json.loads(first.stdout)
    assert event["event"] == "standstill" and event["reservation"] == "train"
    assert "nothing is done" in event["text"] and "\n" not in event["text"]
    assert ours("spare", "watch", "--once", config=config).returncode == 0


def test_watch_of_a_reservation_without_settings_is_a_usage_error(config: Path) -> None:
    done = ours("spare", "watch", "other", "--once", config=config)
    assert done.returncode == 2 and "no section for reservation 'other'" in done.stderr
    assert "Traceback" not in done.stderr


def test_watch_with_nothing_to_watch_is_a_usage_error(config: Path) -> None:
    config.write_text("")
    done = ours("spare", "watch", "--once", config=config)
    assert done.returncode == 2 and "[reservation.NAME]" in done.stderr


def test_command_without_a_controller_fails_in_one_line(config: Path) -> None:
    done = ours("spare", "add", "train", "t1", config=config)
    assert done.returncode == 3 and len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_nothing_is_given_back_where_nothing_is_owed(config: Path) -> None:
    done = ours("spare", "drill", "train", "--give-back", config=config)
    assert done.returncode == 3 and "owes" in done.stderr


def test_unit_is_printed_without_asking_slurm(config: Path) -> None:
    done = ours("spare", "watch", "train", "--print-unit", config=config)
    assert done.returncode == 0 and f"--config {config}" in done.stdout


def test_health_is_shown_once_without_a_socket(config: Path) -> None:
    config.write_text("[check.kernel_log]\nenabled = false\n")
    done = ours("health-socket", "--once", "--json", config=config)
    assert json.loads(done.stdout)["failed_checks"] == [], done.stdout


def test_the_unit_names_the_settings_by_their_whole_path(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """systemd and nodes begin in another folder."""
    monkeypatch.chdir(config.parent)
    done = ours("spare", "watch", "train", "--print-unit", config=Path(config.name))
    assert f"--config {config}" in done.stdout, done.stderr
