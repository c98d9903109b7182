"""``slurm-io plan interval``: how often to save a checkpoint."""

from __future__ import annotations

import json
from typing import Any

import click

from slurm_io import config
from slurm_io.commands import FiniteRange

_ABOVE_0 = FiniteRange(min=0, min_open=True)


@click.command("interval", short_help="How often to save a checkpoint (Young, Daly).")
@click.option("--cost", "cost_s", type=_ABOVE_0, required=True, metavar="SECONDS",
              help="Time that a save holds training up.")  # fmt: skip
@click.option("--nodes", type=click.IntRange(1, 10_000_000), default=1, show_default=True,
              metavar="N", help="Nodes of the job.")  # fmt: skip
@click.option("--node-mtbf", "node_mtbf_h", type=_ABOVE_0, metavar="HOURS",
              help="Mean time between failures of one node; else thresholds.node_mtbf_h, "
              "else a table.")  # fmt: skip
@click.option("--now", "now_s", type=_ABOVE_0, metavar="SECONDS",
              help="Training between two saves as it is, to compare with.")  # fmt: skip
@click.option("--restart", "restart_s", type=FiniteRange(min=0), default=0.0,
              metavar="SECONDS", help="From a failure to the first step after it.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(
    cost_s: float,
    nodes: int,
    node_mtbf_h: float | None,
    now_s: float | None,
    restart_s: float,
    as_json: bool,
    debug: bool,
) -> None:
    """Training between two saves that loses least time, saving and work done twice together.

    A saved checkpoint is worth the work behind it when a node fails; saving costs. How often nodes
    fail is yours to know: about 3 % of them in a week (5600 h) is what large clusters publish.
    """
    from slurm_io.analysis.plan.interval_text import compute, render

    known_h = node_mtbf_h or config.load().thresholds.node_mtbf_h or None
    found: dict[str, Any] = compute(cost_s, nodes, known_h, now_s, restart_s)
    click.echo(json.dumps(found, indent=2) if as_json else render(found))
