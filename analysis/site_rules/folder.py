"""All rules of a site: every ``*.toml`` of its folder, by name.

A rule that cannot be used is left out with one line that says why; it hides no other rule and
fails no report.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slurm_io.analysis.site_rules.rule_file import SiteRule, read_rule
from slurm_io.errors import ConfigError

MOST_RULES = 99


@dataclass(frozen=True)
class SiteRules:
    """`broken`: (file, what is wrong with it)."""

    rules: tuple[SiteRule, ...] = ()
    broken: tuple[tuple[str, str], ...] = ()


def read_rules(folder: str) -> SiteRules:
    """The rules of `folder`; none for ""."""
    if not folder:
        return SiteRules()
    try:
        names = sorted(one.name for one in Path(folder).iterdir() if _is_rule(one.name))
    except OSError as error:
        return SiteRules(broken=((folder, f"cannot be listed ({error.strerror or error})"),))
    rules: dict[str, SiteRule] = {}
    broken: list[tuple[str, str]] = []
    for name in names[:MOST_RULES]:
        path = str(Path(folder) / name)
        try:
            rule = read_rule(path)
        except ConfigError as error:
            broken.append((path, str(error).removeprefix(f"{path}: ")))
            continue
        if rule.code in rules:
            taken = rules[rule.code].source
            broken.append((path, f"code {rule.code} is taken by {taken}: give it another"))
            continue
        rules[rule.code] = rule
    if len(names) > MOST_RULES:
        broken.append((folder, f"{len(names)} rules: the first {MOST_RULES} are read"))
    return SiteRules(tuple(rules[code] for code in sorted(rules)), tuple(broken))


def _is_rule(name: str) -> bool:
    return name.endswith(".toml") and not name.startswith(".")
