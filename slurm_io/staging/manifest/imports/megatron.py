"""Megatron's indexed datasets: pairs of ``.idx`` and ``.bin``.

The index says to the byte how long its ``.bin`` must be (see :mod:`slurm_io.staging.megatron`),
and which type its tokens have. It holds no digests.
"""

from __future__ import annotations

import os

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest.foreign_entries import EntryList
from slurm_io.staging.manifest.foreign_source import Source, shown
from slurm_io.staging.manifest.imports.base import IMPORTERS, Imported, ImportOptions, Problem
from slurm_io.staging.manifest.model import Tokens
from slurm_io.staging.megatron import (
    MegatronIndex,
    check_pointers,
    is_index,
    largest_token,
    read_index,
)

_SUFFIX = ".idx"


@IMPORTERS.register("megatron")
class Megatron:
    """One ``.idx`` file, or a folder of them, subfolders too."""

    title = "megatron: .idx/.bin pairs (MMIDIDX, TNTIDX)"

    def recognise(self, source: Source) -> bool:
        """The magic of a file, or names ending in .idx with a .bin in a folder."""
        if not source.is_folder:
            return is_index(source.head)
        return any(
            name.endswith(_SUFFIX) and _bin_of(name) in source.names for name in source.names
        )

    def read(self, source: Source, options: ImportOptions) -> Imported:
        """Read every index whole: lengths, pointers, types."""
        entries = EntryList(options.prefix)
        indexes: dict[str, MegatronIndex] = {}
        for path in _index_paths(source):
            index = indexes[path] = _read(source, path)
            entries.add(path, shown(path), size_bytes=index.idx_bytes, role="index")
            entries.add(_bin_of(path), shown(path), size_bytes=index.bin_bytes)
        if not indexes:
            raise ManifestError(f"{source.shown}: holds no .idx files")
        dtypes = sorted({index.dtype for index in indexes.values()})
        return Imported(
            entries.entries(source.shown),
            _notes(indexes, dtypes),
            (source.path,),
            Tokens(dtypes[0], options.vocabulary) if len(dtypes) == 1 else None,
            _vocabulary_problems(indexes, options.vocabulary),
        )


def _index_paths(source: Source) -> list[str]:
    if not source.is_folder:
        return [source.name]
    return source.files_below(_SUFFIX)


def _read(source: Source, path: str) -> MegatronIndex:
    if not path.endswith(_SUFFIX):
        raise ManifestError(f"{shown(path)}: an index must be called NAME.idx, its data NAME.bin")
    fd = source.open_below(path) if source.is_folder else source.open()
    if fd is None:
        raise ManifestError(f"{shown(path)}: went away while the folder was read")
    try:
        index = read_index(fd, shown(path))
        check_pointers(fd, index, shown(path))
        return index
    finally:
        os.close(fd)


def _notes(indexes: dict[str, MegatronIndex], dtypes: list[str]) -> tuple[str, ...]:
    sequences = sum(index.sequences for index in indexes.values())
    notes = [f"{sequences} sequences in {len(indexes)} index files, tokens {' and '.join(dtypes)}"]
    for path, index in list(indexes.items())[:100]:
        notes += [f"{shown(path)}: {note}" for note in index.notes]
    return tuple(notes)


def _vocabulary_problems(
    indexes: dict[str, MegatronIndex], vocabulary: int | None
) -> tuple[Problem, ...]:
    problems = []
    for path, index in indexes.items():
        largest = largest_token(index.dtype)
        if vocabulary is not None and largest is not None and vocabulary - 1 > largest:
            text = (
                f"{index.dtype} holds token ids up to {largest}, the vocabulary has {vocabulary}: "
                "larger ids were cut off when the data was made"
            )
            problems.append(Problem("contradiction", path, text, vocabulary, largest + 1))
    return tuple(problems)


def _bin_of(path: str) -> str:
    return path.removesuffix(_SUFFIX) + ".bin"
