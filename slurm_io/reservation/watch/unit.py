"""The systemd unit that keeps a watch running."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

from slurm_io.config import SparesConfig

_UNIT = """\
# /etc/systemd/system/{name}
# systemctl daemon-reload && systemctl enable --now {name}
[Unit]
Description=slurm_io: watch over the spare nodes ({reservations})
Wants=network-online.target
After=network-online.target munge.service slurmctld.service

[Service]
Type=notify
ExecStart={command}
Restart=always
RestartSec=10
WatchdogSec={watchdog_s}
# A swap is a process of its own and must go on when the watch is stopped.
KillMode=process
TimeoutStopSec=10
# Slurm's commands, ours on nodes, and state_dir is all that it needs.
ProtectHome=read-only
PrivateTmp=yes

[Install]
WantedBy=multi-user.target
"""


def unit_text(reservations: Sequence[str], spares: SparesConfig, config_path: str | None) -> str:
    """The unit's text. A look may take as long as its slowest question, so the watchdog waits for
    four of them."""
    command = [sys.executable, "-m", "slurm_io", "spare", "watch", *reservations]
    command += ["--config", config_path] if config_path else []
    return _UNIT.format(
        name="-".join(("slurm-io-watch", *reservations)) + ".service",
        reservations=", ".join(reservations) or "all in the configuration",
        command=shlex.join(command).replace("%", "%%"),
        watchdog_s=round(4 * (spares.period_s + 4 * spares.ask_s)),
    )
