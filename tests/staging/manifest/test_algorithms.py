"""Digests by name give the published values of each algorithm."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from slurm_io.errors import ManifestError
from slurm_io.staging.manifest.algorithms import ALGORITHMS, maker_of, parse_digest

# Of b"abc", from each algorithm's own documents or reference tool.
ABC = {
    "xxh3-128": "06b05ab6733a618578af5f94892f3950",
    "xxh3-64": "78af5f94892f3950",
    "xxh64": "44bc2cf5ad770999",
    "xxh32": "32d153ff",
    "blake3": "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
    "sha1": "a9993e364706816aba3e25717850c26c9cd0d89d",
    "sha224": "23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7",
    "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    "md5": "900150983cd24fb0d6963f7d28e17f72",
    "crc32": "352441c2",
}


@pytest.mark.parametrize("many_threads", [False, True])
@pytest.mark.parametrize("algorithm", sorted(ABC))
def test_published_value(algorithm: str, many_threads: bool) -> None:
    hasher = maker_of(algorithm, many_threads)()
    hasher.update(memoryview(b"ab"))
    hasher.update(b"c")
    assert hasher.hexdigest() == ABC[algorithm]
    assert parse_digest(f"{algorithm}:{ABC[algorithm]}") == (algorithm, ABC[algorithm])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_works_or_says_what_is_missing(algorithm: str) -> None:
    try:
        hasher = maker_of(algorithm)()
    except ManifestError as error:
        assert "pip install" in str(error) or "cannot make" in str(error)
    else:
        hasher.update(b"x")
        parse_digest(f"{algorithm}:{hasher.hexdigest()}")


@pytest.mark.parametrize("algorithm", ["blake3", "xxh3-128", "crc32c"])
def test_missing_package_is_named(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(ManifestError, match=f"{algorithm} digests need .* pip install"):
        maker_of(algorithm)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "abc",
        "md5:",
        "md5:12",
        "md5:" + "0" * 31 + "G",
        "md5:" + "A" * 32,
        "nope:00",
        "md5" * 99,
    ],
)
def test_bad_digest_is_refused(text: str) -> None:
    with pytest.raises(ManifestError, match="digest"):
        parse_digest(text)


def test_unknown_algorithm_lists_the_known_ones() -> None:
    with pytest.raises(ManifestError, match="xxh3-128"):
        maker_of("sha3")
