"""``slurm-io check``: what the prolog checks before a job, now and by hand."""

from __future__ import annotations

import json
import sys

import click

from slurm_io import config as site
from slurm_io.commands import GIVEN
from slurm_io.errors import UsageError


@click.command("check", short_help="Check this node, and what a job needs of it.")
@click.option("--only", metavar="NAME,...", help="These checks (see --list) and no others.")
@click.option("--dataset", metavar="NAME[@CONTENT-ID]", help="As if a job asked for this dataset.")
@click.option("--ckpt", metavar="PATH", help="As if a job wrote checkpoints here.")
@click.option("--node-only", is_flag=True, help="Only what concerns the node itself.")
@click.option("--node", metavar="NAME", help="Slurm's name of this node, where it is not clear.")
@click.option(
    "--undrain", is_flag=True, help="Resume the node if slurm_io drained it and all is well now."
)
@click.option("--list", "show_list", is_flag=True, help="Show the checks and run none.")
@click.option(
    "--config", "config_path", type=GIVEN, metavar="FILE", help="The site's configuration file."
)
@click.option("--json", "as_json", is_flag=True, help="The results as JSON.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(
    only: str | None,
    dataset: str | None,
    ckpt: str | None,
    node_only: bool,
    node: str | None,
    undrain: bool,
    show_list: bool,
    config_path: str | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Check what a job needs of this node: mounts, disks, its dataset, its checkpoint folder.

    Exit code 0: all OK; 1: something is FAIL or DEGRADED; 3: something could not be told (not
    root: the kernel's log cannot). As slurmd's HealthCheckProgram: slurm-io check --node-only
    --undrain.
    """
    from slurm_io.prolog import by_hand
    from slurm_io.prolog.own_settings import prove_own_settings

    config = site.load(config_path)
    prove_own_settings(config, config_path or site.DEFAULT_PATH)
    if show_list:
        _show_list(by_hand.list_checks(config), as_json)
        return
    if node_only and (dataset or ckpt):
        raise UsageError("--node-only looks at no dataset and no checkpoint folder: leave one out")
    names = tuple(name for name in (only or "").split(",") if name)
    if only is not None and not names:
        raise UsageError("--only names no check; slurm-io check --list shows them")
    wanted = by_hand.Wanted(names, by_hand.spec_of(dataset, ckpt), node_only)
    where = node or by_hand.default_node()
    checked = by_hand.check_node(config, where, wanted)
    undrained = by_hand.undrain_node(config, where, checked) if undrain else None
    if as_json:
        click.echo(json.dumps(by_hand.as_json(where, checked, undrained), indent=2))
    else:
        for line in (*by_hand.as_lines(checked), *([undrained] if undrained else [])):
            click.echo(line)
    sys.exit(by_hand.exit_code(checked))


def _show_list(listed: list[dict[str, object]], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(listed, indent=2))
        return
    for each in listed:
        state = "" if each["enabled"] else "  (off)"
        where = "each node" if each["scope"] == "node" else "one node"
        click.echo(
            f"{each['check']:<18} fault: {each['kind']:<7} runs on {where:<9} "
            f"as {each['identity']:<5} policy {each['policy']}{state}"
        )
