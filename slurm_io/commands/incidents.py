"""``slurm-io incidents``: public incidents, listed, searched, shown."""

from __future__ import annotations

import json

import click

from slurm_io.commands import GIVEN, columns
from slurm_io.errors import UsageError


@click.command("incidents", short_help="Public incidents: list, search, show one.")
@click.argument("identifier", metavar="[ID]", required=False, type=GIVEN)
@click.option("--symptom", type=GIVEN, metavar="TEXT", help="Those that speak of these words.")
@click.option(
    "--rule", "code", type=GIVEN, metavar="CODE", help="Those like findings of this rule."
)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(
    identifier: str | None, symptom: str | None, code: str | None, as_json: bool, debug: bool
) -> None:
    """List public incidents, search them, or show the one called ID.

    Exit code 0, also when nothing is found; 2 when there is no such incident or rule.
    """
    from slurm_io.incidents.library import incidents
    from slurm_io.incidents.page import listing, show
    from slurm_io.incidents.search import search, words_of

    known = {one.id: one for one in incidents()}
    if identifier is not None:
        if symptom is not None or code is not None:
            raise UsageError("give an ID, or --symptom and --rule, not both")
        if identifier not in known:
            raise UsageError(f"there is no incident {identifier!a}; slurm-io incidents lists them")
        one = known[identifier]
        click.echo(json.dumps(one.to_dict(), indent=2) if as_json else show(one, columns()))
        return
    if code is not None and code.upper() not in _codes():
        raise UsageError(f"there is no rule {code!a}; slurm-io rule list shows them")
    if symptom is not None and not words_of(symptom):
        raise UsageError("--symptom: give words to look for")
    hits = search(known.values(), symptom or "", code)
    if as_json:
        found = [{**hit.incident.to_dict(), "found": dict(hit.found)} for hit in hits]
        click.echo(json.dumps(found, indent=2))
        return
    if hits:
        click.echo(listing(hits))
    else:
        click.echo("no incident speaks of that; slurm-io incidents lists them all", err=True)


def _codes() -> set[str]:
    """Of all rules, and of what an incident names."""
    from slurm_io.analysis.rules.base import RULES
    from slurm_io.incidents.library import incidents

    built_in = {name.partition("_")[0].upper() for name in RULES.module_names()}
    return built_in | {code for one in incidents() for code in one.rules}
