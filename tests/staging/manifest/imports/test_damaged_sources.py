"""Damaged sources of every format: an error of one line, or a manifest that can be read back.

The short run is part of the fast tests; the long one fuzzes for SLURM_IO_FUZZ_S seconds (900).
"""

from __future__ import annotations

import gzip
import os
import random
import shutil
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_io.errors import SlurmIoError
from slurm_io.staging.manifest.files import open_manifest, write_manifest
from tests.staging.manifest.imports.reading import FIXTURES, foreign, written
from tests.staging.manifest.imports.test_bagit import PAYLOAD, bag
from tests.staging.manifest.imports.test_s3_inventory import CSV, inventory
from tests.staging.manifest.imports.test_webdataset import index as wids
from tests.staging.test_megatron import cached_index, mmap_index

SHORT_ROUNDS = 12
LONG_S = float(os.environ.get("SLURM_IO_FUZZ_S", "900"))
WORDS = (
    *(b"\0", b"\n", b"\r\n", b"..", b"/", b"//", b"-1", b"1e9", b"NaN", b"null", b"true"),
    *(b'"', b"\\", b"\\ud800", b"\\udc80", b"[" * 2000, b"{", b"}", b"99999999999999999999"),
    *(b"\xff\xfe", b"\xef\xbb\xbf", b"%2e%2e%2f", b"%00", b"x" * 300, b"\x80", b"  ", b"*"),
)


def _megatron(folder: Path) -> Path:
    written(folder / "a.idx", mmap_index([3, 5, 0, 7]))
    written(folder / "b.idx", cached_index([3, 5], 2))
    written(folder / "a.bin", bytes(30))
    return folder


def _datatrove(folder: Path) -> Path:
    written(folder / "0.ds", bytes(40))
    written(folder / "0.ds.index", struct.pack("<2Q", 4, 10))
    written(folder / "0.ds.metadata", "org/tok|4\n10\n10 T")
    return folder


def _copied(sample: str) -> Callable[[Path], Path]:
    def copy(folder: Path) -> Path:
        if (FIXTURES / sample).is_dir():
            shutil.copytree(FIXTURES / sample, folder, dirs_exist_ok=True)
            return folder
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(FIXTURES / sample, folder))

    return copy


SOURCES: dict[str, Callable[[Path], Path]] = {
    "bagit": lambda folder: bag(folder, *PAYLOAD),
    "datatrove": _datatrove,
    "huggingface": _copied("imports/huggingface"),
    "megatron": _megatron,
    "mosaicml": _copied("imports/mosaicml"),
    "s3_inventory": lambda folder: inventory(folder, CSV.encode(), file={"MD5checksum": None}),
    "s3_inventory packed": lambda folder: inventory(
        folder, gzip.compress(CSV.encode()), file={"MD5checksum": None, "size": None}
    ),
    "s3_listing": _copied("imports/list-objects-v2.json"),
    "s3_listing text": _copied("imports/aws-s3-ls.txt"),
    "safetensors_index": lambda folder: _copied("cases/G04")(folder) / "index_ok.json",
    "sums": _copied("cases/G02/SHA256SUMS"),
    "sums utf-16": _copied("cases/G02/Installer.exe.sha256"),
    "webdataset": lambda folder: written(folder / "t.json", wids("s3://b/d/0.tar", "s3://b/1.tar")),
}


def damaged(content: bytes, chance: random.Random) -> bytes:
    """A few bytes changed, cut out, repeated, or replaced by what parsers trip over."""
    changed = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(changed))
        kind = chance.randint(0, 4)
        if kind == 0 and changed:
            changed[at % len(changed)] = chance.randint(0, 255)
        elif kind == 1:
            del changed[at : at + chance.randint(1, 20)]
        elif kind == 2:
            changed[at:at] = chance.choice(WORDS)
        elif kind == 3:
            changed[at : at + chance.randint(1, 8)] = chance.choice(WORDS)
        else:
            start = chance.randint(0, len(changed))
            changed[at:at] = changed[start : start + chance.randint(1, 120)]
    return bytes(changed)


def one_round(name: str, source: Path, files: list[tuple[Path, bytes]], seed: int) -> None:
    """Damage one file of the source, import it, and put it back."""
    chance = random.Random(seed)
    path, content = chance.choice(files)
    path.write_bytes(damaged(content, chance))
    root = source if source.is_dir() else source.parent
    try:
        result = foreign(source, name.split()[0], root=root if seed % 2 else None)
        out = root.parent / "out.jsonl"
        write_manifest(str(out), result.manifest)
        again = open_manifest(str(out))  # checks every value, path, total and the content id
        assert tuple(again.files) == tuple(result.manifest.files)
    except SlurmIoError as error:
        assert "\n" not in str(error), seed
        assert str(error).isascii(), seed
    except Exception as error:
        raise AssertionError(f"{name}, seed {seed}: {type(error).__name__}: {error}") from error
    finally:
        path.write_bytes(content)


def prepared(name: str, tmp_path: Path) -> tuple[Path, list[tuple[Path, bytes]]]:
    source = SOURCES[name](tmp_path / "source")
    files = sorted(path for path in (tmp_path / "source").rglob("*") if path.is_file())
    return source, [(path, path.read_bytes()) for path in files]


@pytest.mark.parametrize("name", SOURCES)
def test_damage_is_an_error_or_a_manifest(name: str, tmp_path: Path) -> None:
    source, files = prepared(name, tmp_path)
    foreign(source, name.split()[0])  # it is right before it is damaged
    for seed in range(SHORT_ROUNDS):
        one_round(name, source, files, seed)


@pytest.mark.long
@pytest.mark.timeout(LONG_S * 2 + 60)
def test_damage_for_a_long_time(tmp_path: Path) -> None:
    sources = {name: prepared(name, tmp_path / name.replace(" ", "-")) for name in SOURCES}
    end, seed = time.monotonic() + LONG_S, time.time_ns() % 2**32
    while time.monotonic() < end:
        for name, (source, files) in sources.items():
            one_round(name, source, files, seed)
        seed += 1
