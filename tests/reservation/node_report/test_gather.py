"""The whole report, made on this machine as it would be on a node."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

from slurm_io.config import parse
from slurm_io.reservation.node_report import gather as gathering
from slurm_io.reservation.node_report.gather import Asked, gather
from slurm_io.reservation.node_report.says import MOST_BYTES, parse_says


def site(tmp_path: Path) -> Path:
    path = tmp_path / "site.toml"
    path.write_text(
        f'state_dir = "{tmp_path}/lib/%N"\n[check.kernel_log]\nenabled = false\n'
        f'[dataset.c4]\nlocal = "{tmp_path}/%N/c4"\n'
    )
    return path


def test_the_command_prints_one_report_that_can_be_read(tmp_path: Path) -> None:
    words = ["spare", "node-report", "--dataset=c4", f"--config={site(tmp_path)}"]
    slurm_conf = tmp_path / "slurm.conf"
    slurm_conf.write_text("ClusterName=x\nSlurmctldHost=nowhere\n")
    environment = {**os.environ, "SLURMD_NODENAME": "t7", "SLURM_CONF": str(slurm_conf)}
    done = subprocess.run(
        [sys.executable, "-m", "slurm_io", *words],
        env=environment,
        capture_output=True,
        check=True,
        timeout=120,
    )
    assert len(done.stdout) < MOST_BYTES
    assert json.loads(done.stdout)["node"] == "t7"
    says = parse_says("t7", 0.0, done.stdout)
    assert says.data is not None
    assert says.data.state == "absent"
    assert says.health["mounts"][0] == "OK"
    assert says.drift["kernel"] == os.uname().release
    assert says.free_bytes


def test_checks_that_cannot_be_run_cost_themselves_only(tmp_path: Path) -> None:
    asked = Asked("t7", "c4", config_path=str(tmp_path / "missing.toml"), limit_s=60.0)
    found = gather(parse({"dataset": {"c4": {"local": str(tmp_path)}}}), asked)
    assert found["health"] == {}
    assert "no such file" in found["unread"]["health"]
    assert found["drift"]["kernel"]


def test_what_hangs_is_left_out_and_named(tmp_path: Path) -> None:
    """A named pipe stands where the image's name should be read."""
    fifo = tmp_path / "image"
    os.mkfifo(fifo)
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    config = parse({"spares": {"image_file": str(fifo)}})
    before = gathering._FACTS_S
    gathering._FACTS_S = 0.3
    try:
        found = gather(config, Asked("t7", limit_s=60.0))
    finally:
        gathering._FACTS_S = before
    assert "no answer within 0.3 s" in found["unread"]["drift"]
    assert found["health"]
