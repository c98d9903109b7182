"""The short reader of the released bit agrees with the full reader of Lustre layouts."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from slurm_io.filesystems.layout.lov import parse_lov
from slurm_io.filesystems.layout.model import LayoutError
from slurm_io.filesystems.residency.lov_bits import released_bytes

SAMPLES = Path(__file__).parents[2] / "fixtures" / "residency"
SIZE_BYTES = 1 << 40
RELEASED = 0x80000000
FUZZ_S = float(os.environ.get("SLURM_IO_FUZZ_S", "900"))


def layouts() -> list[bytes]:
    return [path.read_bytes() for path in sorted(SAMPLES.glob("xattr_*.bin"))]


def mutated(lov: bytes, chance: random.Random) -> bytes:
    """Some bytes changed, bits of patterns and flags more often than by accident; perhaps cut."""
    changed = bytearray(lov)
    for _ in range(chance.randrange(1, 4)):
        position = chance.choice([4, 7, 28, 36, 37, 38, 84, chance.randrange(len(lov))])
        if position < len(changed):
            changed[position] = chance.choice([0, 1, 0x10, 0x80, chance.randrange(256)])
    return bytes(changed[: chance.choice([len(lov)] * 3 + [chance.randrange(len(lov))])])


def compare(lov: bytes) -> bool:
    """Whether the full reader took it; then nothing that is released may read as here."""
    away = released_bytes(lov, SIZE_BYTES)
    assert away is None or 0 <= away <= SIZE_BYTES
    try:
        layout = parse_lov(lov)
    except LayoutError:
        return False
    parts = [
        part
        for part in layout.components
        if part.is_instantiated and not (part.is_stale or part.is_extension or part.is_parity)
    ]
    released = [part for part in parts if (part.pattern or 0) & RELEASED]
    if away and away > 0:
        assert released
    elif away == 0:
        clean = {part.mirror_id for part in parts} - {
            part.mirror_id
            for part in released
            if part.start_bytes < min(part.end_bytes or SIZE_BYTES, SIZE_BYTES)
        }
        assert clean or not parts
    return True


def test_samples() -> None:
    assert sum(compare(lov) for lov in layouts()) >= 8


def test_mutations() -> None:
    chance, samples = random.Random(7), layouts()
    taken = sum(compare(mutated(chance.choice(samples), chance)) for _ in range(2000))
    assert taken > 200


@pytest.mark.long
@pytest.mark.timeout(0)
def test_mutations_for_long() -> None:
    """As long as SLURM_IO_FUZZ_S says (seconds; 15 minutes)."""
    seed = random.randrange(1 << 32)
    chance, samples = random.Random(seed), layouts()
    until_s = time.monotonic() + FUZZ_S
    while time.monotonic() < until_s:
        for _ in range(1000):
            lov = mutated(chance.choice(samples), chance)
            try:
                compare(lov)
            except Exception as error:
                raise AssertionError(f"seed {seed}: {lov.hex()}") from error
