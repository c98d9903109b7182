"""``slurm-io rule``: which rules there are, and the page of one."""

from __future__ import annotations

import json

import click

from slurm_io.errors import UsageError


@click.command("rule", short_help="List the rules, or explain one.")
@click.argument("code", required=False)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(code: str | None, as_json: bool, debug: bool) -> None:
    """List the rules, or explain the one called CODE (F01).

    Exit code 0; 2 when there is no such rule.
    """
    from slurm_io.analysis.rule_pages import rule_text
    from slurm_io.analysis.rules.base import RULES

    rules = {rule.code: (name, rule.title) for name, rule in RULES.discover().items()}
    if code is not None:
        wanted = code.upper()
        if wanted not in rules:
            raise UsageError(f"there is no rule {code!a}; there are: {', '.join(rules)}")
        name, title = rules[wanted]
        text = rule_text(name)
        facts = {"code": wanted, "name": name, "title": title, "text": text}
        click.echo(json.dumps(facts, indent=2) if as_json else text)
    elif as_json:
        listed = [
            {"code": code, "name": name, "title": title} for code, (name, title) in rules.items()
        ]
        click.echo(json.dumps(listed, indent=2))
    else:
        for found, (_, title) in rules.items():
            click.echo(f"{found}  {title}")
