"""How two manifests differ."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.staging.manifest.diff import compare
from slurm_io.staging.manifest.model import FileEntry, Manifest
from tests.staging.manifest.made import manifest, manifests


def entry(path: str, size: int | None = 1, digit: str | None = "0", name: str = "md5") -> FileEntry:
    return FileEntry(path, size, digit and f"{name}:{digit * 32}")


@given(manifests())
def test_a_manifest_does_not_differ_from_itself(found: Manifest) -> None:
    difference = compare(found, found)
    assert difference.is_none and difference.same_count == len(found.files)
    assert [*difference.lines()] == [
        f"0 added, 0 removed, 0 renamed, 0 changed, 0 not comparable, {len(found.files)} the same"
    ]


@given(st.sets(st.sampled_from("abcdef")), st.sets(st.sampled_from("abcdef")))
def test_added_and_removed_are_the_set_differences(old: set[str], new: set[str]) -> None:
    made = [manifest([entry(p, ord(p), p) for p in paths]) for paths in (old, new)]
    difference = compare(*made)
    assert {e.path for e in difference.added} == new - old
    assert {e.path for e in difference.removed} == old - new
    assert difference.same_count == len(old & new)
    assert not difference.renamed and not difference.changed


def test_changed_files_say_in_what() -> None:
    old = manifest([entry("a", 1, "0"), entry("b", 1, "0"), entry("c", 1, "0")])
    new = manifest([entry("a", 2, "0"), entry("b", 1, "1"), entry("c", 1, "0")])
    difference = compare(old, new)
    assert [(each.path, each.reason) for each in difference.changed] == [
        ("a", "size 1 -> 2 bytes"),
        ("b", "same size, other md5 digest"),
    ]
    assert not difference.is_none


def test_renamed_files_are_told_by_size_and_digest() -> None:
    old = manifest([entry("a", 1, "0"), entry("b", 0, "1"), entry("d", 1, None), entry("e", 2)])
    new = manifest([entry("A", 1, "0"), entry("B", 0, "1"), entry("D", 1, None), entry("E", 3)])
    difference = compare(old, new)
    assert difference.renamed == (("a", "A"),)
    assert [e.path for e in difference.removed] == ["b", "d", "e"]
    assert [e.path for e in difference.added] == ["B", "D", "E"]


def test_copies_of_one_file_are_renamed_once_each() -> None:
    old = manifest([entry("a"), entry("b")])
    new = manifest([entry("x"), entry("y"), entry("z")])
    difference = compare(old, new)
    assert difference.renamed == (("a", "x"), ("b", "y"))
    assert [e.path for e in difference.added] == ["z"]


@pytest.mark.parametrize(
    ("other", "verdict"),
    [
        (entry("a", 1, "0", "xxh3-128"), "not comparable"),
        (entry("a", 1, None), "not comparable"),
        (entry("a", None, "0"), "same"),
        (replace(entry("a", 1, "0", "xxh3-128"), digests=("md5:" + "0" * 32,)), "same"),
        (replace(entry("a", 1, "0", "xxh3-128"), digests=("md5:" + "1" * 32,)), "changed"),
        (entry("a", 2, "0", "xxh3-128"), "changed"),
    ],
)
def test_digests_without_a_common_algorithm_prove_nothing(other: FileEntry, verdict: str) -> None:
    difference = compare(manifest([entry("a")]), manifest([other]))
    found = {
        "same": difference.same_count,
        "changed": len(difference.changed),
        "not comparable": len(difference.not_comparable),
    }
    assert [name for name, count in found.items() if count] == [verdict]


def test_header_facts_count_but_not_when_it_was_built() -> None:
    old = manifest([entry("a")], created_at="then", creator="me", notes=("x",))
    new = manifest([entry("a")], created_at="now", creator="you")
    difference = compare(old, new)
    assert difference.is_none and set(difference.header) == {"created_at", "creator", "notes"}
    other = compare(old, manifest([entry("a")], retention_days=3))
    assert not other.is_none and other.as_json()["header"]["retention_days"] == {
        "old": None,
        "new": 3,
    }


def test_odd_names_are_one_line_each() -> None:
    difference = compare(manifest([entry("a\nb\udcff")]), manifest([entry("\x1b[31m", 9, "2")]))
    assert all(line.isprintable() and line.isascii() for line in difference.lines())
