"""Write, or with ``--check`` compare, every page of docs/ that is generated from code."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slurm_io.collectors.base import COLLECTORS
from slurm_io.config_page import settings_table
from slurm_io.prolog.checks.base import CHECKS

DOCS = Path(__file__).parent
GENERATORS = (
    "slurm_io.store.schema_page",
    "slurm_io.config_page",
    "slurm_io.incidents.page",
    "slurm_io.analysis.rule_pages",
    "slurm_io.analysis.site_rules.page",
)


def main(arguments: list[str]) -> int:
    """Run every generator; exit 1 when ``--check`` finds a stale page."""
    stale = [name for name in GENERATORS if importlib.import_module(name).main(arguments) != 0]
    pages = {
        "collectors.md": _page("Collectors", "slurm_io/collectors/", COLLECTORS.discover()),
        "checks.md": _page(
            "Checks",
            "prolog/checks/",
            {name: check.function for name, check in CHECKS.discover().items()},
        ),
    }
    stale += [f"docs/{name}" for name, text in pages.items() if _is_stale(DOCS / name, text)]
    if "--check" not in arguments:
        for name, text in pages.items():
            (DOCS / name).write_text(text)
        stale = []
    for name in stale:
        print(f"stale page: run `make docs` ({name})", file=sys.stderr)
    return 1 if stale else 0


def _page(title: str, folder: str, things: Mapping[str, Any]) -> str:
    """One section for each registered thing: the docstring of its module, and its own settings."""
    sections = [f"# {title}\n\nGenerated from the docstrings of `{folder}`.\n"]
    for name, thing in things.items():
        module = inspect.getmodule(thing)
        text = inspect.getdoc(module) if module else ""
        sections.append(f"## {name}\n\n{text}\n")
        if hasattr(module, "Settings"):
            sections.append(f"Keys of `[check.{name}]`:\n\n{settings_table(module.Settings)}")
    return "\n".join(sections)


def _is_stale(page: Path, text: str) -> bool:
    return not page.exists() or page.read_text() != text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
