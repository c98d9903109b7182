"""A manifest at a glance."""

from __future__ import annotations

import pytest
from hypothesis import given

from slurm_io.staging.manifest.model import FileEntry, Manifest
from slurm_io.staging.manifest.summary import human_bytes, summarise
from tests.staging.manifest.made import manifest, manifests

DIGEST = "md5:" + "0" * 32


def test_sizes_roles_and_biggest() -> None:
    found = summarise(
        manifest(
            [
                FileEntry("a", 0),
                FileEntry("b", 10_000, DIGEST),
                FileEntry("c", 10_001, DIGEST, role="index"),
                FileEntry("d", 10**12, DIGEST),
                FileEntry("e", None),
            ]
        )
    )
    assert [(each.label, each.file_count, each.total_bytes) for each in found.sizes] == [
        ("empty", 1, 0),
        ("<= 10 kB", 1, 10_000),
        ("<= 100 kB", 1, 10_001),
        ("> 100 GB", 1, 10**12),
        ("not known", 1, 0),
    ]
    assert found.roles == {"data": 4, "index": 1} and found.algorithms == {"md5": 3}
    assert found.without_digest == 2 and found.biggest[0].path == "d"


@given(manifests())
def test_text_is_printable_whatever_the_manifest_says(found: Manifest) -> None:
    assert all(line.isprintable() for line in summarise(found).lines())
    assert sum(size["file_count"] for size in summarise(found).as_json()["sizes"]) == len(
        found.files
    )


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (24 * 10**12, "24 TB"), (999_999, "1 MB")],
)
def test_bytes_for_people(count: int, text: str) -> None:
    assert human_bytes(count) == text
