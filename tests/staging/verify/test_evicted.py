"""Files on a slower tier are found at level 2, and no level before or after recalls them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_io.filesystems.residency.answer import ResidencyAnswer
from slurm_io.filesystems.residency.judge import residency_of
from slurm_io.staging.verify import driver, l2
from tests.labs.fault_kit import VICTIM, Bench
from tests.labs.slowfs import SlowFs, fuse_missing
from tests.labs.slowfs_settings import SlowFsSettings

pytestmark = [
    pytest.mark.fuse,
    pytest.mark.skipif(fuse_missing() is not None, reason=str(fuse_missing())),
]
LAYOUTS = Path(__file__).parents[2] / "fixtures" / "residency"


def layout(name: str) -> dict[str, str]:
    return {"lustre.lov": (LAYOUTS / f"xattr_{name}.bin").read_bytes().hex()}


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowFs]:
    """A file system that answers as Lustre does, with one released file."""
    monkeypatch.setattr(driver, "kind_at", lambda mount: "lustre")
    settings = SlowFsSettings(xattrs={VICTIM: layout("v1_released")})
    with SlowFs(tmp_path / "backing", tmp_path / "mount", settings) as made:
        yield made


@pytest.fixture
def bench(slow: SlowFs, tmp_path: Path) -> Bench:
    made = Bench.made(tmp_path / "node", record=False)
    made.root.rename(slow.backing / "data")
    made.root = slow.mountpoint / "data"
    slow.change(xattrs={f"data/{VICTIM}": layout("v1_released")})
    return made


def reads(slow: SlowFs) -> int:
    count: int = slow.ledger()["classes"].get("read", {}).get("bytes", 0)
    return count


def test_level_1_cannot_see_it_and_says_so(bench: Bench) -> None:
    answer = bench.verify(1)
    assert answer.answer == "OK"
    assert any("evicted files stay unseen" in note for note in answer.not_looked_at)


@pytest.mark.parametrize("level", [2, 3, 4])
def test_it_is_found_and_not_read(level: int, bench: Bench, slow: SlowFs) -> None:
    answer = bench.verify(level)
    assert (answer.answer, dict(answer.counts)) == ("DEGRADED", {"evicted": 1})
    assert answer.bad_files[0].path == VICTIM
    assert answer.repair == (), "it needs a recall, not a copy"
    data_bytes = sum(entry.size_bytes or 0 for entry in bench.manifest.files)
    assert reads(slow) <= 2 * (data_bytes - 300_000) + (1 << 20)


def test_more_than_a_hundred_are_all_found_by_asking_once(
    slow: SlowFs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {f"shard-{number:03}.tar": 20 for number in range(130)}
    bench = Bench.made(tmp_path / "many", sizes, record=False)
    bench.root.rename(slow.backing / "many")
    bench.root = slow.mountpoint / "many"
    slow.change(xattrs={f"many/{name}": layout("v1_released") for name in sizes})
    asked: list[int] = []

    def counted(root: str, paths: list[str], *more: Any) -> ResidencyAnswer:
        asked.append(len(paths))
        return residency_of(root, paths, *more)

    monkeypatch.setattr(l2, "residency_of", counted)
    answer = bench.verify(2)
    assert (answer.answer, dict(answer.counts)) == ("DEGRADED", {"evicted": 130})
    assert asked == [130]


def test_unknown_residency_is_said(
    bench: Bench, slow: SlowFs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "kind_at", lambda mount: "fuse")
    slow.change(xattrs={})
    answer = bench.verify(2)
    assert answer.answer == "OK"
    assert any("residency of 5 of 6 files is not known" in n for n in answer.not_looked_at)
