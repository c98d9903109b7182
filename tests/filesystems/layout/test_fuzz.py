"""Damaged layouts: LayoutError or an answer that explains every byte; nothing else, ever.

The long run takes SLURM_IO_FUZZ_S seconds (900 by default) and prints its figures; the same seed
gives the same run up to where the time ends.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from slurm_io.filesystems.layout.getstripe import parse_getdirstripe, parse_getstripe
from slurm_io.filesystems.layout.lmv import parse_lmv
from slurm_io.filesystems.layout.lov import parse_lov
from slurm_io.filesystems.layout.model import (
    LayoutError,
    busiest_share,
    data_components,
    effective_width,
    template_width,
)
from slurm_io.filesystems.layout.policy import judge_file
from slurm_io.filesystems.layout.quick import QuickReader, osts_behind, shape_of
from tests.filesystems.layout.lov_maker import (
    EXTENSION,
    HOLE,
    INIT,
    MDT,
    PARITY,
    RAID0,
    STALE,
    Part,
    composite,
    foreign,
    plain,
)
from tests.filesystems.layout.lov_overlay import assert_explains
from tests.filesystems.layout.mutations import mutate, mutate_text

FIXTURES = Path(__file__).parents[2] / "fixtures" / "layout"
SIZES = (0, 1, 65536, 10**6, 10**9, 10**12, 2**63)
LONG_S = float(os.environ.get("SLURM_IO_FUZZ_S", "900"))


def seeds() -> list[bytes]:
    """All binary samples, without most of the 48 kB one, and what no sample shows."""
    found = [path.read_bytes() for path in sorted(FIXTURES.glob("*.bin"))]
    small = [data for data in found if len(data) < 4096]
    large = next(data for data in found if len(data) > 4096)
    four = Part(osts=(1, 2, 3, 4), count=4)
    return [
        *small,
        large[: 32 + 24 * 9][:28] + b"\x09\x00\x00\x00" + large[32 : 32 + 24 * 9],
        plain(four, ">"),
        plain(Part(osts=(1, None), count=2, pattern=RAID0 | HOLE)),
        composite([Part(osts=(1,), count=1, end=1 << 20), Part(osts=(2, 3), count=2,
                   start=1 << 20, identity=2)], ">"),
        composite([Part(osts=(1,), count=1, end=1 << 20, pool="flash"),
                   Part(osts=(2, 3), count=2, start=1 << 20, identity=2)], backwards=True),
        composite([Part(count=0, pattern=MDT, end=65536), Part(osts=(4,), count=1, start=65536,
                   end=1 << 27, identity=2), Part(count=-1, start=1 << 27, flags=0, identity=3)]),
        composite([Part(osts=(1,), count=1, end=1 << 26), Part(count=0, size=65536, start=1 << 26,
                   end=1 << 30, flags=EXTENSION, identity=2),
                   Part(count=1, start=1 << 30, end=1 << 30, flags=0, identity=3),
                   Part(count=0, size=262144, start=1 << 30, flags=EXTENSION, identity=4)],
                  magic=0x0BD80BD0),
        composite([Part(osts=(0, 1), count=2, identity=0x10001),
                   Part(osts=(2,), count=1, identity=0x20002, flags=INIT | STALE)], mirrors=2),
        composite([Part(osts=(0, 1), count=2, identity=0x10001),
                   Part(osts=(2,), count=1, identity=0x20002, flags=INIT | PARITY)], mirrors=2),
        composite([Part(count=4, flags=0, end=1 << 30, identity=0),
                   Part(count=-1, flags=0, start=1 << 30, identity=0)]),
        foreign(b"x" * 20),
    ]  # fmt: skip


def look(data: bytes, quick: QuickReader, outcomes: Counter[str]) -> None:
    """All readers on one piece of bytes."""
    for is_directory in (False, True):
        try:
            layout = parse_lov(data, is_directory=is_directory)
        except LayoutError as error:
            assert "\n" not in str(error) and len(str(error)) < 200
            outcomes["refused"] += 1
            if not is_directory:
                with pytest.raises(LayoutError):
                    quick.read(data)
            continue
        outcomes["template" if is_directory else "accepted"] += 1
        assert_explains(layout, data, is_directory=is_directory)
        template_width(layout, 7)
        if not is_directory:
            for _ in range(2):
                shape, osts = quick.read(data)
                assert shape == shape_of(layout)
                assert osts == tuple(n for part in data_components(layout, None) for n in part.osts)
                for size in SIZES:
                    assert len(set(osts_behind(shape, osts, size))) == effective_width(layout, size)
            share = busiest_share(layout, 10**9)
            assert share is None or 0 <= share <= 1
            judge_file("/f", 10**12, layout, 16, 100)
    try:
        parse_lmv(data)
    except LayoutError:
        outcomes["no lmv"] += 1


def look_at_text(text: str, outcomes: Counter[str]) -> None:
    """The text reader: never trusts a count that its objects do not bear out."""
    try:
        parse_getdirstripe(text)
        listings = parse_getstripe(text)
    except LayoutError as error:
        assert str(error).isprintable()
        outcomes["text refused"] += 1
        return
    for layout in (listing.layout for listing in listings):
        outcomes["text incomplete" if layout.incomplete else "text accepted"] += 1
        for part in layout.components if layout.incomplete is None else ():
            if part.is_instantiated and not part.is_released and not part.is_on_mdt:
                assert part.foreign is not None or len(part.objects) == part.stripe_count
        judge_file("/f", 10**12, layout, 16, 100)


def fuzz(rounds: int | None, seconds: float, seed: int) -> Counter[str]:
    chance = random.Random(seed)
    data, quick, outcomes = seeds(), QuickReader(), Counter[str]()
    texts = [path.read_text() for path in sorted(FIXTURES.glob("get*.txt"))]
    end_s = time.monotonic() + seconds
    while rounds is None or outcomes["bytes"] < rounds:
        outcomes["bytes"] += 1
        look(mutate(chance.choice(data), data, chance), quick, outcomes)
        if outcomes["bytes"] % 4 == 0:
            outcomes["texts"] += 1
            look_at_text(mutate_text(chance.choice(texts), texts, chance), outcomes)
        if outcomes["bytes"] % 100 == 0 and time.monotonic() > end_s:
            break
    return outcomes


def test_every_seed_is_read_or_refused_and_explained() -> None:
    outcomes, quick = Counter[str](), QuickReader()
    for data in seeds():
        look(data, quick, outcomes)
    assert outcomes["accepted"] >= 15 and outcomes["template"] >= 4


def test_damaged_layouts_are_refused_or_explained() -> None:
    outcomes = fuzz(2500, 30.0, seed=20)
    assert outcomes["bytes"] == 2500
    assert outcomes["accepted"] > 200 and outcomes["refused"] > 1000
    assert outcomes["text accepted"] > 50 and outcomes["text incomplete"] > 20


@pytest.mark.long
@pytest.mark.timeout(int(LONG_S) + 300)
def test_long_fuzz(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = fuzz(None, LONG_S, seed=time.time_ns())
    with capsys.disabled():
        print(f"\nlayout fuzz, {LONG_S:.0f} s: {dict(outcomes)}")
    assert outcomes["accepted"] and outcomes["refused"] and outcomes["text accepted"]
