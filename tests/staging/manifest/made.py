"""Manifests for tests, and what makes random ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from slurm_io.staging.manifest.content_id import content_id_of
from slurm_io.staging.manifest.files import sorted_files
from slurm_io.staging.manifest.model import FileEntry, Header, Manifest, Tokens
from slurm_io.staging.manifest.paths import decode_path
from slurm_io.staging.manifest.rows import totals_of

_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=8)
_PATH = st.binary(min_size=1, max_size=12).filter(
    lambda raw: raw not in (b".", b"..") and not {0, 47} & {*raw}
)
_DIGEST = st.binary(min_size=16, max_size=16).map(lambda raw: f"xxh3-128:{raw.hex()}")


@st.composite
def entries(draw: st.DrawFn) -> FileEntry:
    size = draw(st.none() | st.integers(0, 1000))
    chunks = -(-size // 100) if size and draw(st.booleans()) else 0
    return FileEntry(
        path=decode_path(draw(_PATH)),
        size_bytes=size,
        digest=draw(st.none() | _DIGEST),
        ends=draw(st.none() | _DIGEST),
        chunks=tuple(draw(_DIGEST).partition(":")[2] for _ in range(chunks)),
        etag=draw(st.none() | _TEXT),
        version_id=draw(st.none() | _TEXT),
        role=draw(st.sampled_from(["data", "index", "metadata"])),
        digests=tuple(draw(st.lists(_DIGEST, max_size=2))),
    )


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    """Any manifest that may be written."""
    files = draw(st.lists(entries(), max_size=6, unique_by=lambda entry: entry.path))
    return manifest(
        files,
        dataset=draw(_TEXT),
        chunk_bytes=100,
        notes=tuple(draw(st.lists(_TEXT, max_size=2))),
        tokens=draw(st.none() | st.just(Tokens("uint16")) | st.just(Tokens("<i4", 50_000))),
        layout=draw(st.sampled_from([(), ({"min_size_bytes": 1 << 30, "stripe_count": -1},)])),
        requires=draw(st.sampled_from([{}, {"free_bytes": 5, "fstypes": ["ext4"], "x": [None]}])),
        missing_count=draw(st.integers(0, 2)),
    )


def manifest(files: Iterable[FileEntry] = (), **facts: Any) -> Manifest:
    """A manifest of some files whose header fits them."""
    listed = sorted_files([*files])
    totals = totals_of(listed)
    header = Header(
        **{
            "dataset": "c4",
            "content_id": content_id_of(listed),
            "file_count": totals.file_count,
            "total_bytes": totals.total_bytes,
            **facts,
        }
    )
    return Manifest(header, listed)


def numbered(count: int) -> Manifest:
    """A manifest of `count` files."""
    return manifest(
        FileEntry(f"shard-{n:06}.tar", n, f"xxh3-128:{n:032x}", f"xxh3-128:{n:032x}")
        for n in range(count)
    )
