"""Pages of docs/rules, written from the rules' own docstrings.

``python -m slurm_io.analysis.rule_pages [--check] [FOLDER]``: writes the pages (default folder
docs/rules); with ``--check`` writes nothing and ends with 1 when a page is stale.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path

from slurm_io.analysis.rules.base import HEADINGS, RULES
from slurm_io.errors import RegistryError

_NOTE = "<!-- Written from the rule's docstring by `python -m slurm_io.analysis.rule_pages`. -->"


def page(name: str) -> str:
    """The Markdown page of the rule called `name`.

    Raises:
        RegistryError: its docstring lacks one of the fixed headings, or has them in another order.
    """
    docstring = rule_text(name)
    title, _, body = docstring.partition("\n")
    lines = body.strip("\n").split("\n")
    under = [place for place, line in enumerate(lines) if line and set(line) == {"-"}]
    headings = tuple(lines[place - 1] for place in under)
    if headings != HEADINGS:
        raise RegistryError(f"rule {name}: its headings are {headings}, they must be {HEADINGS}")
    kept = [
        f"## {line}\n" if place + 1 in under else line
        for place, line in enumerate(lines)
        if place not in under
    ]
    return f"# {title}\n\n{_NOTE}\n\n" + "\n".join(kept) + "\n"


def rule_text(name: str) -> str:
    """The docstring of the rule called `name`."""
    RULES.get(name)
    module = importlib.import_module(f"slurm_io.analysis.rules.{name}")
    return inspect.cleandoc(module.__doc__ or "")


def pages() -> dict[str, str]:
    """File name -> page, the index included."""
    found = {f"{name}.md": page(name) for name in RULES.discover()}
    entries = "\n".join(
        f"- [{rule.code}]({name}.md): {rule.title}" for name, rule in RULES.discover().items()
    )
    found["README.md"] = f"# Rules\n\n{_NOTE}\n\n{entries}\n"
    return found


def stale(folder: Path) -> list[str]:
    """Names of pages that are missing, differ, or belong to no rule any more."""
    wanted = pages()
    differing = [
        name
        for name, text in wanted.items()
        if not (folder / name).is_file() or (folder / name).read_text("utf-8") != text
    ]
    orphans = [path.name for path in folder.glob("*.md") if path.name not in wanted]
    return sorted(differing + orphans)


def main(arguments: list[str]) -> int:
    """Write the pages, or check them."""
    check = "--check" in arguments
    folders = [word for word in arguments if not word.startswith("--")]
    folder = Path(folders[0] if folders else "docs/rules")
    old = stale(folder)
    if check:
        for name in old:
            print(f"{folder / name} is stale: run python -m slurm_io.analysis.rule_pages")
        return 1 if old else 0
    folder.mkdir(parents=True, exist_ok=True)
    for name in old:
        (folder / name).unlink(missing_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
