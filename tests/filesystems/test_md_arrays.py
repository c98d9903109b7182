"""mdstat of all levels, what /sys adds, and the judgement of one array."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.filesystems.array_health import problems_of
from slurm_io.filesystems.block_devices import BlockDevices
from slurm_io.filesystems.md_arrays import Array, disk_serial, parse_mdstat, read_arrays
from tests.filesystems.node_trees import NodeTree, gpu_node

SAMPLE = Path(__file__).parents[1] / "fixtures/node_checks/mdstat_many_levels.txt"
ARRAYS = {array.name: array for array in parse_mdstat(SAMPLE.read_text())}


def answers(array: Array) -> list[str]:
    return [problem.answer for problem in problems_of(array)]


def test_all_arrays_of_the_sample_and_their_levels() -> None:
    levels = {name: array.level for name, array in ARRAYS.items()}
    assert levels == {
        "md3": "raid6", "md127": "raid1", "md0": "raid1", "md4": "raid1", "md6": "raid1",
        "md8": "raid1", "md201": "raid1", "md7": "raid6", "md9": "raid1", "md10": "raid0",
        "md11": "raid1", "md12": "raid0", "md126": "raid0", "md219": None, "md00": "raid0",
        "md120": "linear", "md101": "raid0", "md42": "raid5",
    }  # fmt: skip


def test_members_spares_and_failed_ones() -> None:
    members = {member.name: member for member in ARRAYS["md9"].members}
    assert [name for name, member in members.items() if member.failed] == ["sde", "sdf"]
    assert [name for name, member in members.items() if member.spare] == ["sdg"]
    assert [member.name for member in ARRAYS["md9"].data_members()] == [
        "sda2", "sdb2", "sdc2", "sdd2",
    ]  # fmt: skip
    assert len(ARRAYS["md3"].data_members()) == 8


@pytest.mark.parametrize(
    ("name", "wanted", "working", "up"),
    [("md3", 8, 8, "UUUUUUUU"), ("md6", 2, 1, "U_"), ("md7", 4, 3, "U_UU"), ("md42", 3, 2, "UU_")],
)
def test_wanted_and_working(name: str, wanted: int, working: int, up: str) -> None:
    array = ARRAYS[name]
    assert (array.wanted, array.working, array.up) == (wanted, working, up)


@pytest.mark.parametrize(
    ("name", "action", "done", "finish"),
    [
        ("md6", "recovery", 0.085, 17.0),
        ("md8", "resync", 0.085, 17.0),
        ("md201", "check", 0.057, 0.2),
        ("md42", "reshape", 0.561, 1868.1),
    ],
)
def test_progress(name: str, action: str, done: float, finish: float) -> None:
    array = ARRAYS[name]
    assert (array.action, array.finish_min, array.waiting) == (action, finish, False)
    assert array.done_share == pytest.approx(done)


def test_waiting_read_only_and_containers() -> None:
    assert (ARRAYS["md9"].action, ARRAYS["md9"].waiting) == ("resync", True)
    assert ARRAYS["md11"].read_only == "auto-read-only"
    assert ARRAYS["md101"].read_only == "read-only"
    assert [name for name, array in ARRAYS.items() if array.container] == ["md219"]
    assert not ARRAYS["md126"].container  # an array inside one


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("md3", []),
        ("md127", []),
        ("md10", []),
        ("md126", []),
        ("md219", []),  # a container of another array's metadata is inactive by nature
        ("md4", ["FAIL", "DEGRADED"]),  # inactive, and it threw a disk out
        ("md6", ["DEGRADED", "DEGRADED", "DEGRADED"]),  # one short, thrown out, rebuilding
        ("md7", ["DEGRADED", "DEGRADED"]),
        ("md8", ["DEGRADED"]),
        ("md9", ["DEGRADED", "DEGRADED"]),  # whole by its spares, two bad drives, resync to come
        ("md11", ["DEGRADED"]),  # thrown-out drive; a resync that waits for a write is no news
        ("md42", ["DEGRADED", "DEGRADED"]),
    ],
)
def test_judgement_of_the_sample(name: str, wanted: list[str]) -> None:
    assert answers(ARRAYS[name]) == wanted


def one(*lines: str) -> Array:
    (array,) = parse_mdstat("\n".join(lines))
    return array


def test_more_members_missing_than_the_level_bears() -> None:
    raid5 = one("md5 : active raid5 sda[0]", "  100 blocks level 5, 64k chunk [3/1] [U__]")
    assert answers(raid5) == ["FAIL"]
    raid6 = one("md6 : active raid6 sda[0] sdb[1]", "  100 blocks level 6 [4/2] [UU__]")
    assert answers(raid6) == ["DEGRADED"]
    raid1 = one("md1 : active raid1 sda[0]", "  100 blocks [3/1] [U__]")
    assert answers(raid1) == ["DEGRADED"]


def test_a_broken_array_fails_with_its_members_names() -> None:
    (worst, *_) = problems_of(one("md0 : broken raid0 nvme1n1[1](F) nvme0n1[0]", "  1 blocks"))
    assert worst.answer == "FAIL" and "nvme1n1" in worst.text


def read(tree: NodeTree) -> tuple[Array, ...] | None:
    return read_arrays(str(tree.proc), str(tree.sys), BlockDevices(tree.sys))


def test_sysfs_tells_how_many_disks_a_raid_0_wants_and_their_serials(tmp_path: Path) -> None:
    arrays = read(gpu_node(tmp_path))
    assert arrays is not None
    (array,) = arrays
    assert (array.wanted, len(array.members), answers(array)) == (8, 8, [])
    assert [member.serial for member in array.members][:2] == ["S60000", "S60001"]


def test_a_drive_that_left_a_raid_0_is_found_though_mdstat_still_lists_it(tmp_path: Path) -> None:
    tree = gpu_node(tmp_path)
    tree.lose("nvme3n1p1")
    arrays = read(tree)
    assert arrays is not None
    assert [member.name for member in arrays[0].gone_members()] == ["nvme3n1p1"]
    (problem,) = problems_of(arrays[0])
    assert problem.answer == "FAIL" and "lacks 1 of 8 members: nvme3n1p1" in problem.text


def test_no_md_and_unreadable_mdstat(tmp_path: Path) -> None:
    tree = NodeTree(tmp_path)
    assert read(tree) == ()
    tree.stack("md0", "9:0", [], md__level="raid0")
    assert read(tree) is None


def test_serials_of_all_kinds_of_disks(tmp_path: Path) -> None:
    tree = NodeTree(tmp_path)
    tree.disk("nvme0n1", "259:0", serial="S6ABC")
    tree.disk("vda", "254:0")
    tree.file(tree.sys / "block/vda/serial", "BHYVE-1\n")
    tree.disk("sda", "8:16")
    page = tree.sys / "block/sda/device/vpd_pg80"
    page.parent.mkdir()
    page.write_bytes(b"\x00\x80\x00\x08 WD-1234")
    serials = [disk_serial(str(tree.sys), disk) for disk in ("nvme0n1", "vda", "sda", "sdz")]
    assert serials == ["S6ABC", "BHYVE-1", "WD-1234", None]


LINES = st.sampled_from(SAMPLE.read_text().splitlines())


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(LINES, st.text(max_size=60)), max_size=12).map("\n".join))
def test_any_text_is_parsed_and_judged(text: str) -> None:
    for array in parse_mdstat(text):
        assert all(problem.answer != "OK" and problem.text for problem in problems_of(array))


@pytest.mark.long
def test_long_fuzz_of_mdstat() -> None:
    """The sample with letters changed, for SLURM_IO_FUZZ_S seconds (60): no crash."""
    seed = random.randrange(1 << 32)
    random_ = random.Random(seed)
    sample = SAMPLE.read_text()
    end_s = time.monotonic() + float(os.environ.get("SLURM_IO_FUZZ_S", "60"))
    while time.monotonic() < end_s:
        text = list(sample)
        for _ in range(random_.randrange(1, 40)):
            at = random_.randrange(len(text))
            text[at : at + random_.randrange(3)] = [chr(random_.choice((10, 32, 48, 91, 93, 40)))]
        for array in parse_mdstat("".join(text)):
            for problem in problems_of(array):
                assert problem.text, seed
