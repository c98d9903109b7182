"""``slurm-io health-socket``: answer NVRx's launcher about this node's health."""

from __future__ import annotations

import json
import signal
import sys

import click

from slurm_io.commands import GIVEN, SETTINGS_OPTION, FiniteRange

DEFAULT_PATH = "/run/slurm_io/health.sock"


@click.command(
    "health-socket",
    short_help="Answer NVRx about this node's health.",
    epilog="Example: slurm-io health-socket --once",
)
@click.option(
    "--path", type=GIVEN, default=DEFAULT_PATH, show_default=True, help="The Unix socket."
)
@click.option(
    "--period",
    type=FiniteRange(1, 3600),
    default=60.0,
    show_default=True,
    metavar="S",
    help="Time between two runs of the checks.",
)
@click.option("--once", is_flag=True, help="Run the checks once, show the answer, listen nowhere.")
@SETTINGS_OPTION
@click.option("--json", "as_json", is_flag=True, help="With --once: the answer as JSON.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(
    path: str, period: float, once: bool, config_path: str | None, as_json: bool, debug: bool
) -> None:
    """Listen on a Unix socket and answer with the node checks that FAIL (gRPC, nvhcd).

    ft_launcher of nvidia-resiliency-ext asks there before a restart:
    --ft-node-health-check-endpoint PATH. Every user may ask; nobody but root may change anything.
    Exit code 0: ended by a signal, or with --once no check FAILs; 1: with --once one does; 3: no
    socket to be had.
    """
    import time

    from slurm_io.config import load
    from slurm_io.reservation.health_socket.cached import CachedHealth, check_node
    from slurm_io.reservation.health_socket.server import serve
    from slurm_io.reservation.watch.notify import notify_systemd

    load(config_path)  # complain of a bad one now, not in each check
    health = CachedHealth(lambda: check_node(period, config_path), period)
    found = health.now()
    if once:
        failed = [f"FAIL {name}: {text}" for name, text in found.failed]
        told = failed or [found.problem or "no check FAILs"]
        click.echo(found.output(time.time()) if as_json else "\n".join(told))
        sys.exit(1 if failed else 0)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        serve(path, health, lambda: _ready(path, as_json, notify_systemd))
    except KeyboardInterrupt:
        notify_systemd("STOPPING=1")


def _ready(path: str, as_json: bool, notify: object) -> None:
    assert callable(notify)
    notify("READY=1")
    text = json.dumps({"event": "listening", "path": path}) if as_json else f"listening on {path}"
    click.echo(text, err=True)
