"""Sharded models: ``NAME.safetensors.index.json`` and the shards it names.

Sample::

    {"metadata": {"total_size": 64}, "weight_map": {"a.weight": "model-00001-of-00002.safetensors"}}

With a local copy each shard's header is read: it says how long the shard must be and which tensors
it holds. ``total_size`` proves nothing: writers count shared tensors twice, or file bytes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest.foreign_entries import EntryList
from slurm_io.staging.manifest.foreign_source import Source, shown
from slurm_io.staging.manifest.imports.base import IMPORTERS, Imported, ImportOptions, Problem
from slurm_io.staging.safetensors import (
    IndexCheck,
    ShardCheck,
    check_index,
    check_shard,
    parse_index,
)

_SUFFIX = ".safetensors.index.json"
_MAX_PROBLEMS = 1000


@IMPORTERS.register("safetensors_index")
class SafetensorsIndex:
    """An index file, or a folder that holds exactly one."""

    title = "safetensors_index: *.safetensors.index.json of a sharded model"

    def recognise(self, source: Source) -> bool:
        """A weight_map, or a name that ends in .safetensors.index.json."""
        if source.is_folder:
            return any(name.endswith(_SUFFIX) for name in source.names)
        return source.has_keys("weight_map")

    def read(self, source: Source, options: ImportOptions) -> Imported:
        """The shards of the index; sizes only with --root (or from nowhere)."""
        name = _index_name(source)
        content = source.read_below(name) if source.is_folder else source.content
        if content is None:
            raise ManifestError(f"{shown(name)}: went away while the folder was read")
        weights, total_size = parse_index(content, shown(name))
        check = _check(weights, total_size, options.root) if options.root else None
        entries = EntryList(options.prefix)
        for shard in sorted(set(weights.values())):
            size_bytes = _expected_bytes(check, shard)
            entries.add(shard, f"{shown(name)}: weight_map", size_bytes=size_bytes, role="data")
        entries.add_own(name, content, "index", shown(name))
        return Imported(
            entries.entries(shown(name)),
            _notes(weights, check),
            (source.path,),
            problems=_problems(check) if check else (),
        )


def _index_name(source: Source) -> str:
    if not source.is_folder:
        return source.name
    names = sorted(name for name in source.names if name.endswith(_SUFFIX))
    if len(names) != 1:
        raise ManifestError(
            f"{source.shown}: holds {len(names)} files *{_SUFFIX}; name the one that counts"
        )
    return names[0]


def _check(weights: Mapping[str, str], total_size: int | None, root: str) -> IndexCheck:
    with Source(root) as copy:

        def check(shard: str) -> ShardCheck | None:
            fd = copy.open_below(shard)
            if fd is None:
                return None
            try:
                return check_shard(fd, shown(shard))
            finally:
                os.close(fd)

        return check_index(weights, total_size, check)


def _expected_bytes(check: IndexCheck | None, shard: str) -> int | None:
    found = check.shards.get(shard) if check else None
    return found.expected_bytes if found else None


def _notes(weights: Mapping[str, str], check: IndexCheck | None) -> tuple[str, ...]:
    notes = [f"{len(weights)} tensors"]
    if check is not None:
        notes += check.warnings
        if check.unlisted:
            notes.append(f"{check.unlisted} tensors of the shards are not in the index")
    return tuple(notes)


def _problems(check: IndexCheck) -> tuple[Problem, ...]:
    """Bad shards, and tensors that a readable shard lacks; missing files are found by the rest."""
    problems = [
        Problem("size" if one.expected_bytes else "corrupt", shard, one.reason or "",
                one.expected_bytes, one.bytes)
        for shard, one in check.shards.items()
        if not one.ok
    ]  # fmt: skip
    for missing in check.missing:
        one = check.shards.get(missing.shard)
        if one is not None and one.header is not None:
            text = f"holds no tensor {missing.tensor!a:.200}, which the index names"
            problems.append(Problem("contradiction", missing.shard, text, tensor=missing.tensor))
    return tuple(problems[:_MAX_PROBLEMS])
