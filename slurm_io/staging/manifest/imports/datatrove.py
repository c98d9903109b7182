"""datatrove and nanotron: ``NAME.ds`` token files with ``.ds.index``, ``.loss`` and ``.metadata``.

``.ds.index`` is one little-endian u64 a document: the token number where it ends. The first lines
of ``.ds.metadata`` are ``TOKENIZER|BYTES A TOKEN`` and the number of tokens::

    meta-llama/Llama-3.2-1B|4
    1000000

So a ``.ds`` must have tokens × bytes a token. Old files name no bytes a token; then the file
itself decides between 2 and 4, or the size stays unknown.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest.foreign_entries import EntryList
from slurm_io.staging.manifest.foreign_source import Source, shown
from slurm_io.staging.manifest.imports.base import IMPORTERS, Imported, ImportOptions, Problem
from slurm_io.staging.manifest.model import Tokens

_SUFFIX = ".ds"
_DTYPES = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}
_MAX_METADATA_BYTES = 64 << 10
_MAX_INT = 2**63 - 1


@dataclass(frozen=True)
class _TokenFile:
    """One ``.ds``: number of tokens and bytes a token, each None where nothing says it."""

    path: str
    tokens: int | None
    token_bytes: int | None
    found_bytes: int | None

    @property
    def size_bytes(self) -> int | None:
        """What the file must have."""
        if self.tokens is None or self.token_bytes is None:
            return None
        return self.tokens * self.token_bytes


@IMPORTERS.register("datatrove")
class Datatrove:
    """A folder of ``.ds`` files (subfolders too), or one of them."""

    title = "datatrove: .ds token files with .ds.index and .ds.metadata"

    def recognise(self, source: Source) -> bool:
        """By name: the files themselves have no mark."""
        if not source.is_folder:
            return source.name.endswith((".ds", ".ds.index"))
        return any(name.endswith(".ds") for name in source.names)

    def read(self, source: Source, options: ImportOptions) -> Imported:
        """Take every ``.ds`` and what belongs to it."""
        entries = EntryList(options.prefix)
        found = [_add(entries, source, path) for path in _token_files(source)]
        if not found:
            raise ManifestError(f"{source.shown}: holds no .ds files")
        item_bytes = {one.token_bytes for one in found}
        only = item_bytes.pop() if len(item_bytes) == 1 else None
        unknown = sum(one.size_bytes is None for one in found)
        return Imported(
            entries.entries(source.shown),
            (f"{unknown} .ds files whose size nothing states",) if unknown else (),
            (source.path,),
            Tokens(_DTYPES[only], options.vocabulary) if only in _DTYPES and only else None,
            tuple(problem for one in found for problem in _problems(one, options.vocabulary)),
        )


def _token_files(source: Source) -> list[str]:
    if not source.is_folder:
        name = source.name.removesuffix(".index")
        if not name.endswith(_SUFFIX):
            raise ManifestError(f"{source.shown}: give NAME.ds, NAME.ds.index or their folder")
        return [name]
    return source.files_below(_SUFFIX)


def _add(entries: EntryList, source: Source, path: str) -> _TokenFile:
    """Add a ``.ds`` and the files that belong to it."""
    where = shown(path)
    index_bytes, last_end = _index(source, f"{path}.index")
    metadata = source.read_below(f"{path}.metadata", _MAX_METADATA_BYTES)
    token_bytes, stated = _metadata(metadata, f"{where}.metadata") if metadata else (None, None)
    tokens = last_end if last_end is not None else stated
    found_bytes = source.size_below(path)
    if token_bytes is None and tokens and found_bytes in (2 * tokens, 4 * tokens):
        token_bytes = found_bytes // tokens
    if (tokens or 0) * (token_bytes or 1) > _MAX_INT:
        raise ManifestError(f"{where}.index: {tokens} tokens cannot be: the index is damaged")
    one = _TokenFile(path, tokens, token_bytes, found_bytes)
    entries.add(path, where, size_bytes=one.size_bytes)
    if index_bytes is not None:
        entries.add(f"{path}.index", where, size_bytes=index_bytes, role="index")
    if metadata is not None:
        entries.add(f"{path}.metadata", where, size_bytes=len(metadata), role="metadata")
    if source.holds(f"{path}.loss"):  # one byte a token
        entries.add(f"{path}.loss", where, size_bytes=tokens)
    return one


def _index(source: Source, path: str) -> tuple[int | None, int | None]:
    """(bytes of the index, end of the last document); None each without an index."""
    fd = source.open_below(path)
    if fd is None:
        return None, None
    try:
        size_bytes = os.fstat(fd).st_size
        if size_bytes % 8:
            raise ManifestError(
                f"{shown(path)}: {size_bytes} bytes are no whole number of u64: truncated"
            )
        last = os.pread(fd, 8, max(size_bytes - 8, 0))
        return size_bytes, int.from_bytes(last, "little")
    finally:
        os.close(fd)


def _metadata(text: bytes, where: str) -> tuple[int | None, int | None]:
    """(bytes a token, tokens) as the first two lines say; None where they do not."""
    lines = text.decode("utf-8", "replace").split("\n")
    name, bar, token_bytes = lines[0].rstrip("\r").rpartition("|")
    tokens = lines[1].strip() if len(lines) > 1 else ""
    if tokens and not (tokens.isascii() and tokens.isdigit() and len(tokens) < 19):
        raise ManifestError(f"{where} line 2: must be the number of tokens, not {tokens!a:.40}")
    known = bar and name and token_bytes in ("1", "2", "4", "8")
    return int(token_bytes) if known else None, int(tokens) if tokens else None


def _problems(one: _TokenFile, vocabulary: int | None) -> list[Problem]:
    problems = []
    item_bytes = one.token_bytes or 2
    if one.found_bytes is not None and one.found_bytes % item_bytes:
        text = f"{one.found_bytes} bytes are no whole number of {item_bytes}-byte tokens"
        problems.append(Problem("size", one.path, text, one.size_bytes, one.found_bytes))
    if vocabulary and one.token_bytes and vocabulary > 256**one.token_bytes:
        text = (
            f"{one.token_bytes} bytes a token hold ids up to {256**one.token_bytes - 1}, the "
            f"vocabulary has {vocabulary}"
        )
        problems.append(Problem("contradiction", one.path, text, vocabulary, 256**one.token_bytes))
    return problems
