"""``slurm-io plan spares``: how many spare nodes, and whether they pay."""

from __future__ import annotations

import json

import click

from slurm_io import config
from slurm_io.commands import FiniteRange
from slurm_io.errors import UsageError

_ABOVE_0 = FiniteRange(0, 1e12, min_open=True)
_SHARE = FiniteRange(0, 1)
_PROBABILITY = FiniteRange(0, 1, min_open=True, max_open=True)


@click.command(
    "spares",
    short_help="How many spare nodes, and whether they pay.",
    epilog="Example: slurm-io plan spares --nodes 48 --copy 1.5",
)
@click.option("--nodes", type=click.IntRange(1, 10_000_000), required=True, metavar="N",
              help="Nodes of the job.")  # fmt: skip
@click.option("--rate", type=FiniteRange(0, 100), metavar="SHARE",
              help="Failures per node and week; else spares.failures_per_node_week.")  # fmt: skip
@click.option("--node-mtbf", "node_mtbf_h", type=_ABOVE_0, metavar="HOURS",
              help="Mean time between failures of one node, instead of --rate.")  # fmt: skip
@click.option("--cover", "covers_h", type=_ABOVE_0, multiple=True, metavar="HOURS",
              help="Until a used spare is replaced; may be repeated [several].")  # fmt: skip
@click.option("--confidence", type=_PROBABILITY, default=0.99, show_default=True, metavar="SHARE",
              help="Spares are enough in so many of all cover times.")  # fmt: skip
@click.option("--dispersion", type=FiniteRange(1, 1000), default=1.0, show_default=True,
              metavar="D", help="Variance of the failures over their mean; above 1: bursts, few "
              "bad nodes (negative binomial).")  # fmt: skip
@click.option("--copy", "copies_h", type=_ABOVE_0, multiple=True, metavar="HOURS",
              help="Without a spare: until a new node has the data; may be repeated.")  # fmt: skip
@click.option("--gpus", type=click.IntRange(1, 1024), default=8, show_default=True, metavar="N",
              help="GPUs of a node.")  # fmt: skip
@click.option("--swap", "swap_min", type=FiniteRange(0, 1e7), default=0.0, show_default=True,
              metavar="MINUTES", help="With a spare: failure to first step.")  # fmt: skip
@click.option("--useful", "useful_share", type=_SHARE, default=0.0, show_default=True,
              metavar="SHARE", help="Of a spare's time, in which it runs other work.")  # fmt: skip
@click.option(
    "--price",
    type=FiniteRange(0, 1e6, min_open=True),
    metavar="USD",
    help="Of one GPU for an hour.",
)
@click.option("--save-interval", "save_min", type=_ABOVE_0, metavar="MINUTES",
              help="Training between checkpoints, to show the work lost.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(
    nodes: int,
    rate: float | None,
    node_mtbf_h: float | None,
    covers_h: tuple[float, ...],
    confidence: float,
    dispersion: float,
    copies_h: tuple[float, ...],
    gpus: int,
    swap_min: float,
    useful_share: float,
    price: float | None,
    save_min: float | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Spare nodes so that a failure finds one ready, at a given confidence.

    A spare that took over is missing until its place is filled again (the cover time): a day when
    somebody repairs at once, weeks when parts have to come. With --copy also whether a spare pays.
    """
    from slurm_io.analysis.plan import spares_text as text

    if not copies_h and (price is not None or save_min is not None or swap_min or useful_share):
        raise UsageError(
            "--price, --save-interval, --swap and --useful are about whether a spare pays: give "
            "--copy HOURS too"
        )
    if rate is not None and node_mtbf_h is not None:
        raise UsageError("--rate and --node-mtbf say the same: give one of them")
    if rate is not None:
        fleet_rate, base = rate, "as given"
    elif node_mtbf_h is not None:
        fleet_rate, base = 168 / node_mtbf_h, f"168 h / {node_mtbf_h:g} h"
    else:
        fleet_rate, base = config.load().spares.failures_per_node_week, "[spares], not measured"
    fleet = text.Fleet(nodes, fleet_rate, base, confidence, dispersion)
    save_h = None if save_min is None else save_min / 60
    prices = text.Prices(gpus, copies_h, swap_min / 60, useful_share, price, save_h)
    try:
        found = text.compute(fleet, covers_h or text.USUAL_COVERS_H, prices)
    except ValueError as error:
        raise UsageError(f"{error}; look at --rate and --cover") from error
    click.echo(json.dumps(found, indent=2) if as_json else text.render(found))
