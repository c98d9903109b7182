"""A node's small JSON files, read so that a damaged one costs itself and nothing else.

Versions are another matter: what a newer slurm_io wrote may mean something else, so it is refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slurm_io.errors import StoreError
from slurm_io.store.files import read_json_if_there
from slurm_io.store.schema import SCHEMA_VERSION

WITHOUT = {
    "meta.json": "which sources were off, its ranks, loaders and mounts are not known",
    "self.json": "what the profiler itself cost there is not known",
    "checks.json": "what the prolog's checks found there is not known",
    "checkpoints.json": "whether what the job saved is whole is not known",
    "job.json": "the job's nodes, command and exit code are not known from it",
}
"""What is missing without each file; the node's tables are read all the same."""

Damage = dict[str, Any]


@dataclass(frozen=True)
class SmallFiles:
    """`meta` is {} and the others are None where the file is missing or damaged."""

    meta: dict[str, Any] = field(default_factory=dict)
    self_cost: dict[str, Any] | None = None
    checks: dict[str, Any] | None = None
    damage: tuple[Damage, ...] = ()


def read_small_files(folder: Path) -> SmallFiles:
    """Those of a node's folder. StoreError when a newer slurm_io wrote them."""
    damage: list[Damage] = []
    told = encodable(read_or_note(folder / "meta.json", damage))
    meta = checked_meta(folder / "meta.json", told, damage)
    return SmallFiles(
        meta=meta,
        self_cost=read_or_note(folder / "self.json", damage),
        checks=encodable(read_or_note(folder / "checks.json", damage)),
        damage=tuple(damage),
    )


def read_or_note(path: Path, damage: list[Damage]) -> dict[str, Any] | None:
    """The object in a file; None when there is none, noted in `damage` when it cannot be read."""
    try:
        return read_json_if_there(path)
    except StoreError as exc:
        damage.append(damaged(path.name, str(exc)))
        return None


def encodable(told: dict[str, Any] | None) -> dict[str, Any] | None:
    """`told` with U+FFFD for what JSON can write and UTF-8 cannot hold (lone surrogates)."""
    text = json.dumps(told, ensure_ascii=False)
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if whole == text:
        return told
    found: dict[str, Any] | None = json.loads(whole)
    return found


def checked_meta(path: Path, meta: dict[str, Any] | None, damage: list[Damage]) -> dict[str, Any]:
    """`meta` if it is of a known version and its own notes make sense, else what is sound of it.

    StoreError when a newer slurm_io wrote it.
    """
    if meta is None or not is_known_version(path, meta, damage):
        return {}
    noted = meta.get("damage", [])
    if not isinstance(noted, list) or not all(isinstance(entry, dict) for entry in noted):
        damage.append(damaged(path.name, f"{path}: damage is no list of objects"))
        return {name: value for name, value in meta.items() if name != "damage"}
    return meta


def is_known_version(path: Path, data: dict[str, Any], damage: list[Damage]) -> bool:
    """False, noted, when `schema` is no version at all; StoreError when it is a newer one."""
    version = data.get("schema", SCHEMA_VERSION)
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        damage.append(damaged(path.name, f"{path}: {version!r:.80} is no schema version"))
        return False
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{path} has schema version {version}, this slurm_io knows {SCHEMA_VERSION}: "
            "read it with a newer slurm_io"
        )
    return True


def damaged(name: str, why: str) -> Damage:
    """An entry for a node's ``damage``: the file, what is wrong with it, what is missing for it."""
    return {"file": name, "reason": why, "missing": WITHOUT.get(name, "")}
