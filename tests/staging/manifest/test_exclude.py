"""What is left out of a manifest, and what only looks like it."""

from __future__ import annotations

import pytest

from slurm_io.staging.manifest.exclude import Exclusions


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        (".shard.tar.aB3xZ9", "rsync's temporary files"),
        (".shard.tar.abcdef", "rsync's temporary files"),  # shard.tar lies beside it
        ("shard.tar1234567", "s5cmd's temporary files"),
        ("other.bin.0a1b2c3d.partial", "rclone's temporary files"),
        (".nfs00000000abcdef0123", "deleted files that are still open"),
    ],
)
def test_debris(name: str, rule: str) -> None:
    assert Exclusions().reason(f"a/{name}".encode(), False, {b"shard.tar"}) == rule
    assert Exclusions(defaults=False).reason(name.encode(), False, {b"shard.tar"}) is None


@pytest.mark.parametrize(
    "name",
    [
        "shard.tar", ".config.sample", ".index.sqlite", "train.bin000001", "part-00000001",
        "shard.tar12345", "x.partial", ".nfs1", "shard.tar.000001", ".hidden", "lost+found",
    ],
)  # fmt: skip
def test_real_files_stay(name: str) -> None:
    assert Exclusions().reason(name.encode(), False, {b"shard.tar"}) is None


@pytest.mark.parametrize("name", [".snapshot", "lost+found", ".zfs", ".~tmp~"])
def test_folders_of_file_systems(name: str) -> None:
    assert Exclusions().reason(f"a/{name}".encode(), True, set()) == name
    assert Exclusions().reason(f"a/x{name}".encode(), True, set()) is None


@pytest.mark.parametrize(
    ("pattern", "path", "left_out"),
    [
        ("*.tmp", "a/b.tmp", True),
        ("*.tmp", "a.tmp/b", False),  # but the folder a.tmp itself is
        ("a/*.tmp", "a/b.tmp", True),
        ("a/*.tmp", "x/a/b.tmp", False),
        ("raw/", "a/raw", True),
        ("\udcff*", "a/\udcffx", True),
        ("[ab].txt", "b.txt", True),
        ("x\ny", "x\ny", True),
        ("x", "x\n", False),
    ],
)
def test_patterns(pattern: str, path: str, left_out: bool) -> None:
    raw = path.encode("utf-8", "surrogateescape")
    found = Exclusions([pattern]).reason(raw, False, set())
    assert found == (pattern if left_out else None)


def test_our_own_files_are_not_even_counted() -> None:
    ours = Exclusions(own={b"m.jsonl"}, defaults=False)
    assert ours.reason(b"m.jsonl", False, set()) == "own"
    assert ours.reason(b"a/.slurm_io.3.tmp", False, set()) == "own"
    assert ours.reason(b"a/m.jsonl", False, set()) is None
