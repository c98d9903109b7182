"""The folder with recipe and scripts, and the command that runs it on one node."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slurm_io.analysis.api import write_atomically
from slurm_io.analysis.picture import take_picture
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
    recipe = read_recipe(picture)
    _write(folder, recipe)
    job = picture.store.job
    is_local = job is None or job.cluster == LOCAL_CLUSTER
    return Written(folder, recipe, _missing(recipe), _command(folder, recipe, is_local))


def default_folder(store: Path) -> Path:
    """``./reproduce-<name of the store's folder>``."""
    return Path(f"reproduce-{store.resolve().name}")


def as_lines(written: Written) -> list[str]:
    """For people."""
    lines = [f"written to {written.folder}: {', '.join([*SCRIPTS, 'recipe.json'])}"]
    lines += [f"  missing: {name}: {why}" for name, why in written.missing.items()]
    others = set(written.recipe.not_recorded) - set(written.missing)
    lines += [f"  not recorded: {name}: {written.recipe.not_recorded[name]}"
              for name in sorted(others)]  # fmt: skip
    if written.missing:
        lines.append("fill these in (recipe.json), or give --data DIR and -- SCRIPT ARGUMENTS;")
        lines.append("a pass that lacks one is left out. Then, on one node:")
    else:
        lines.append("run it on one node, with the Python of the training:")
    return [*lines, f"  {written.command}"]


def _write(folder: Path, recipe: Recipe) -> None:
    ours = {*SCRIPTS, "recipe.json", "__pycache__"}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        foreign = sorted(entry.name for entry in folder.iterdir() if entry.name not in ours)
        if foreign:
            raise StoreError(f"{folder} holds other things ({foreign[0]!a}): give a new folder")
        for name, source in SCRIPTS.items():
            write_atomically(folder / name, (Path(__file__).parent / source).read_text("utf-8"))
        told = json.dumps(recipe.to_dict(), indent=2, ensure_ascii=False)
        write_atomically(folder / "recipe.json", told + "\n")
    except OSError as error:
        raise StoreError(f"cannot write {folder}: {error.strerror or error}") from error


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
