"""Write, or with ``--check`` compare, every page of docs/ that is generated from code."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path

from slurm_io.collectors.base import COLLECTORS

DOCS = Path(__file__).parent
GENERATORS = ("slurm_io.store.schema_page", "slurm_io.config_page", "slurm_io.analysis.rule_pages")


def main(arguments: list[str]) -> int:
    """Run every generator; exit 1 when ``--check`` finds a stale page."""
    stale = [name for name in GENERATORS if importlib.import_module(name).main(arguments) != 0]
    if collector_page(check="--check" in arguments):
        stale.append("docs/collectors.md")
    for name in stale:
        print(f"stale page: run `make docs` ({name})", file=sys.stderr)
    return 1 if stale else 0


def collector_page(*, check: bool) -> bool:
    """docs/collectors.md from the collectors' module docstrings; True when it was stale."""
    sections = ["# Collectors\n\nGenerated from the docstrings of `slurm_io/collectors/`.\n"]
    for name, collector in COLLECTORS.discover().items():
        module = inspect.getmodule(collector)
        text = inspect.getdoc(module) if module else ""
        sections.append(f"## {name}\n\n{text}\n")
    page, text = DOCS / "collectors.md", "\n".join(sections)
    if check:
        return not page.exists() or page.read_text() != text
    page.write_text(text)
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
