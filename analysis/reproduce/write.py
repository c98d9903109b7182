"""The folder with recipe and scripts, and the command that runs it on one node."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_io.analysis.api import write_atomically
from slurm_io.analysis.picture import take_picture
from slurm_io.analysis.reports.text.words import printable
from slurm_io.analysis.reproduce.recipe import MISSING, Recipe, read_recipe
from slurm_io.analysis.thresholds import Thresholds
from slurm_io.errors import StoreError
from slurm_io.model import LOCAL_CLUSTER
from slurm_io.store.reader import open_job

SCRIPTS = {
    "reproduce.py": "passes.py",
    "plain_passes.py": "plain_passes.py",
    "loader_passes.py": "loader_passes.py",
}

_MOST_SHOWN = 400


@dataclass(frozen=True)
class Written:
    """What was written and what to do with it. `missing`: fields that have to be filled in."""

    folder: Path
    recipe: Recipe
    missing: dict[str, str]
    command: str

    def to_dict(self) -> dict[str, Any]:
        """As JSON shows it."""
        return {
            "folder": str(self.folder),
            "recipe": self.recipe.to_dict(),
            "missing": self.missing,
            "command": self.command,
        }


def write_reproduction(store: Path, folder: Path, thresholds: Thresholds) -> Written:
    """Read `store` and put the scripts and recipe.json into `folder`.

    Raises:
        StoreError: no readable store, or the folder cannot be written or holds other things.
    """
    picture = take_picture(open_job(store), thresholds)
    recipe = read_recipe(picture, _owner(store))
    _write(folder, recipe)
    job = picture.store.job
    is_local = job is None or job.cluster == LOCAL_CLUSTER
    return Written(folder, recipe, _missing(recipe), _command(folder, recipe, is_local))


def default_folder(store: Path) -> Path:
    """``./reproduce-<name of the store's folder>``, what cannot be printed as ``_``."""
    name = store.resolve().name
    return Path(f"reproduce-{''.join(each if each.isprintable() else '_' for each in name)}")


def as_lines(written: Written) -> list[str]:
    """For people."""
    recipe = written.recipe
    lines = [f"written to {written.folder}: {', '.join([*SCRIPTS, 'recipe.json'])}"]
    lines += [f"  missing: {name}: {why}" for name, why in written.missing.items()]
    others = sorted(set(recipe.not_recorded) - set(written.missing))
    lines += [f"  not recorded: {name}: {recipe.not_recorded[name]}" for name in others]
    if os.geteuid() == 0 or recipe.store_owner not in (None, os.geteuid()):
        whose = "as root" if os.geteuid() == 0 else "of another user's store"
        lines.append(f"  recorded program: {_shown(recipe.command)}")
        lines.append(f"  it is run only with --trust ({whose}): without it passes b and c are not")
    if written.missing:
        lines.append("fill these in (recipe.json), or give --data DIR and -- SCRIPT ARGUMENTS;")
        lines.append("a pass that lacks one is left out. Then, on one node:")
    else:
        lines.append("run it on one node, with the Python of the training:")
    return [printable(line) for line in [*lines, f"  {written.command}"]]


def _shown(command: list[str] | str) -> str:
    return "not known" if isinstance(command, str) else shlex.join(command)[:_MOST_SHOWN]


def _owner(store: Path) -> int | None:
    """Of the folder and of job.json; where they differ, of whichever is not this user's."""
    owners = set()
    for path in (store, store / "job.json"):
        with contextlib.suppress(OSError):
            owners.add(path.stat().st_uid)
    return max(owners - {os.geteuid()} or owners, default=None)


def _write(folder: Path, recipe: Recipe) -> None:
    ours = {*SCRIPTS, "recipe.json", "__pycache__"}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if folder.stat().st_uid != os.geteuid():
            raise StoreError(
                f"{folder} belongs to another user, who could change the scripts: give a new folder"
            )
        foreign = sorted(entry.name for entry in folder.iterdir() if entry.name not in ours)
        if foreign:
            raise StoreError(f"{folder} holds other things ({foreign[0]!a}): give a new folder")
        told = json.dumps(recipe.to_dict(), indent=2, ensure_ascii=True) + "\n"
        _spare_what_was_filled_in(folder / "recipe.json", told)
        for name, source in SCRIPTS.items():
            write_atomically(folder / name, (Path(__file__).parent / source).read_text("utf-8"))
        write_atomically(folder / "recipe.json", told)
    except OSError as error:
        raise StoreError(f"cannot write {folder}: {error.strerror or error}") from error


def _spare_what_was_filled_in(path: Path, told: str) -> None:
    """What somebody wrote into recipe.json by hand is not lost by asking again."""
    is_ours = path.is_file() and path.read_text("utf-8", "replace") == told
    if os.path.lexists(path) and not is_ours:
        raise StoreError(
            f"{path} is not what this store tells (filled in by hand, or of another store): remove "
            "it, or give a new folder with -o"
        )


def _missing(recipe: Recipe) -> dict[str, str]:
    facts = recipe.to_dict()
    return {
        name: value.partition(": ")[2]
        for name, value in facts.items()
        if isinstance(value, str) and value.startswith(MISSING)
    }


def _command(folder: Path, recipe: Recipe, is_local: bool) -> str:
    script = shlex.quote(str(folder / "reproduce.py"))
    if is_local:
        return f"python {script}"
    cores = (recipe.workers or 0) + 1
    return f"srun --nodes=1 --ntasks=1 --cpus-per-task={cores} python {script}"
