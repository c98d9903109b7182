"""The content id names one list of files, whatever order it comes in."""

from __future__ import annotations

import hashlib
import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from slurm_io.staging.manifest.content_id import PATTERN, ContentId, content_id_of
from slurm_io.staging.manifest.model import FileEntry

ENTRY = st.builds(
    FileEntry,
    path=st.text("ab/\n\udcff0:", min_size=1, max_size=4),
    size_bytes=st.none() | st.integers(0, 12),
    digest=st.none() | st.sampled_from(["md5:" + "0" * 32, "md5:" + "1" * 32]),
)
LIST = st.lists(ENTRY, max_size=6, unique_by=lambda entry: entry.path)


def test_published_form_is_what_it_is_made_of() -> None:
    files = [FileEntry("b", None), FileEntry("a\n\udcff", 3, "md5:" + "0" * 32)]
    records = b"a\n\xff\x003\x00md5:" + b"0" * 32 + b"\n" + b"b\0\0\n"
    expected = "c1-" + hashlib.blake2b(records, digest_size=16).hexdigest()
    assert content_id_of(files) == expected
    assert PATTERN.fullmatch(expected)


@given(LIST, st.randoms())
def test_order_does_not_count(files: list[FileEntry], rng: random.Random) -> None:
    shuffled = files[:]
    rng.shuffle(shuffled)
    assert content_id_of(shuffled) == content_id_of(files)


@given(LIST, LIST)
def test_different_lists_have_different_ids(one: list[FileEntry], other: list[FileEntry]) -> None:
    as_sets = [{(e.path, e.size_bytes, e.digest) for e in files} for files in (one, other)]
    assert (content_id_of(one) == content_id_of(other)) == (as_sets[0] == as_sets[1])


@given(LIST.filter(bool))
def test_every_part_counts(files: list[FileEntry]) -> None:
    ident = content_id_of(files)
    first = files[0]
    for changed in (
        replace(first, path=first.path + "x"),
        replace(first, size_bytes=(first.size_bytes or 0) + 13),
        replace(first, digest="md5:" + "2" * 32),
    ):
        assert content_id_of([changed, *files[1:]]) != ident


@given(LIST.filter(bool))
def test_what_is_no_content_does_not_count(files: list[FileEntry]) -> None:
    other = [replace(e, role="index", ends="md5:" + "3" * 32, etag="x") for e in files]
    assert content_id_of(other) == content_id_of(files)


def test_two_algorithms_give_two_ids() -> None:
    zeros = "0" * 32
    assert content_id_of([FileEntry("a", 1, f"md5:{zeros}")]) != content_id_of(
        [FileEntry("a", 1, f"xxh3-128:{zeros}")]
    )


def test_stream_gives_the_same_as_the_list() -> None:
    ident = ContentId()
    ident.add(b"a", 1, None)
    ident.add(b"b", None, "md5:" + "0" * 32)
    assert ident.value() == content_id_of(
        [FileEntry("b", None, "md5:" + "0" * 32), FileEntry("a", 1)]
    )
