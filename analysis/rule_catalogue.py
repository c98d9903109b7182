"""All rules of this site: built in and its own, with the thresholds in force."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from slurm_io import config
from slurm_io.analysis.rule_pages import rule_text
from slurm_io.analysis.rules.base import RULES
from slurm_io.analysis.site_rules.folder import SiteRules, read_rules
from slurm_io.analysis.site_rules.rule_file import SiteRule
from slurm_io.errors import UsageError

_KEY = re.compile(r"``thresholds\.([a-z0-9_]+)``")


@dataclass(frozen=True)
class Threshold:
    """A number a rule compares with; `source`: "default" or the file that says it."""

    key: str
    value: float
    unit: str
    source: str


@dataclass(frozen=True)
class Entry:
    """One rule."""

    code: str
    title: str
    name: str
    thresholds: tuple[Threshold, ...]


@dataclass(frozen=True)
class Catalogue:
    """`broken`: rules of the site that cannot be used, and why."""

    entries: tuple[Entry, ...]
    broken: tuple[tuple[str, str], ...]

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "rules": [
                {
                    "code": one.code,
                    "name": one.name,
                    "title": one.title,
                    "thresholds": [vars(each) for each in one.thresholds],
                }
                for one in self.entries
            ],
            "broken": [{"file": path, "reason": why} for path, why in self.broken],
        }


def catalogue(site: config.Config, path: str) -> Catalogue:
    """Rules of a site whose configuration came from `path`."""
    built_in = [
        Entry(rule.code, rule.title, name, _thresholds(name, site.thresholds, path))
        for name, rule in RULES.discover().items()
    ]
    theirs = read_rules(site.rules.site_dir)
    return Catalogue((*built_in, *map(_entry, theirs.rules)), theirs.broken)


def lines(found: Catalogue) -> list[str]:
    """A rule a line, its thresholds below it."""
    shown = []
    for one in found.entries:
        shown.append(f"{one.code}  {one.title}")
        shown += [
            f"       {each.key} {_exact(each.value)}{' ' if each.unit else ''}{each.unit} "
            f"({each.source})"
            for each in one.thresholds
        ]
    return shown


def _exact(value: float) -> str:
    """No digit of a whole number is left out."""
    return str(int(value)) if value == int(value) else f"{value:g}"


def page_of(code: str, site: config.Config) -> dict[str, str]:
    """``{code, name, title, text}`` of the rule called `code`, in either case.

    Raises:
        UsageError: there is none.
    """
    wanted = code.upper()
    for name, rule in RULES.discover().items():
        if rule.code == wanted:
            return {"code": wanted, "name": name, "title": rule.title, "text": rule_text(name)}
    theirs = read_rules(site.rules.site_dir)
    for one in theirs.rules:
        if one.code == wanted:
            page = _page(one)
            return {"code": wanted, "name": one.source, "title": one.title, "text": page}
    raise UsageError(f"there is no rule {code!a}; there are: {', '.join(_codes(theirs))}")


def _codes(theirs: SiteRules) -> list[str]:
    return [*(rule.code for rule in RULES), *(one.code for one in theirs.rules)]


def _thresholds(name: str, site: config.Thresholds, path: str) -> tuple[Threshold, ...]:
    """The keys that the rule's page names."""
    keys = dict.fromkeys(_KEY.findall(rule_text(name).rpartition("Thresholds\n")[2]))
    known = config.settings_of(config.Thresholds)
    default = config.Thresholds()
    return tuple(
        Threshold(
            key,
            getattr(site, key),
            known[key].unit,
            "default" if getattr(site, key) == getattr(default, key) else path,
        )
        for key in keys
        if key in known
    )


def _entry(rule: SiteRule) -> Entry:
    unit = str(rule.expression.unit) if rule.expression.unit.powers else ""
    limit = Threshold("threshold", rule.threshold, unit, rule.source)
    return Entry(rule.code, rule.title, rule.source, (limit,))


def _page(rule: SiteRule) -> str:
    side = "at or above" if rule.fires == "above" else "at or below"
    unit = f" {rule.expression.unit}" if rule.expression.unit.powers else ""
    guard = f"Only where: {rule.guard.text}\n" if rule.guard is not None else ""
    commands = "".join(f"\n    $ {command}" for command in rule.commands)
    return (
        f"{rule.code}: {rule.title}\n\nA rule of this site, from {rule.source}.\n\n"
        f"Fires where {rule.text} is {side} {rule.threshold:g}{unit} ({rule.severity}).\n{guard}\n"
        f"What to do: {rule.remedy}{commands}"
    )
