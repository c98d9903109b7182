"""What lfs, weka and mmlsattr print: every sample by value, and any other text."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurm_io.filesystems.residency.gpfs import parse_attributes
from slurm_io.filesystems.residency.hsm_text import HsmState, parse_hsm_states
from slurm_io.filesystems.residency.lov_bits import released_bytes
from slurm_io.filesystems.residency.weka import (
    TierLocation,
    parse_tier_locations,
    verdict_of,
)
from slurm_io.filesystems.sizes import Size, bytes_text, parse_size

SAMPLES = Path(__file__).parents[2] / "fixtures" / "residency"
MB = 10**6
IMAGE = Size(102_390_000, 5_000)
NOTHING = Size(0, 0)


def sample(name: str) -> str:
    return (SAMPLES / name).read_text()


def test_hsm_state_lines() -> None:
    assert parse_hsm_states(sample("lfs_hsm_state_lines.txt")) == {
        "/path/a": HsmState(0x0),
        "/path/b": HsmState(0x9, 1),
        "/path/c": HsmState(0xD, 1),
        "/path/with space/d e.dat": HsmState(0xD, 2),
    }


def test_fsx_session() -> None:
    states = parse_hsm_states(sample("fsx_released_file_session.txt"))
    assert list(states) == ["/mnt/fsx/data/tile.tif"]  # the line of ls is none of lfs's
    state = states["/mnt/fsx/data/tile.tif"]
    assert state.is_released
    assert state.names == ("exists", "released", "archived")


@pytest.mark.parametrize(
    ("bits", "names"),
    [
        (0x01, ("exists",)),
        (0x02, ("dirty",)),
        (0x04, ("released",)),
        (0x08, ("archived",)),
        (0x10, ("norelease",)),
        (0x20, ("noarchive",)),
        (0x40, ("lost",)),
        (0x7F, ("exists", "dirty", "released", "archived", "norelease", "noarchive", "lost")),
    ],
)
def test_every_hsm_bit(bits: int, names: tuple[str, ...]) -> None:
    words = "".join(f" {name}" for name in names)
    (state,) = parse_hsm_states(f"/f: (0x{bits:08x}){words}, archive_id:3\n").values()
    assert (state.names, state.archive_id) == (names, 3)
    assert (state.is_released, state.is_lost) == (bool(bits & 4), bool(bits & 0x40))


def test_a_path_may_hold_what_looks_like_a_state() -> None:
    path = "/d/a: (0x0000000d) released exists archived, archive_id:1"
    assert parse_hsm_states(f"{path}: (0x00000000)\n") == {path: HsmState(0)}


def test_a_path_told_twice_in_different_ways_is_not_told() -> None:
    assert not parse_hsm_states("/a: (0x0000000d)\n/a: (0x00000000)\n")


@given(st.text(max_size=80).filter(lambda path: path and "\n" not in path), st.integers(0, 0x7F))
@settings(max_examples=200)
def test_any_name_of_one_line_comes_back(path: str, bits: int) -> None:
    assert parse_hsm_states(f"{path}: (0x{bits:08x})\n") == {path: HsmState(bits)}


@pytest.mark.parametrize(
    ("name", "on_ssd", "away", "state", "missing_bytes"),
    [
        ("weka_fs_tier_location_ssd_only.txt", IMAGE, NOTHING, "resident", 0),
        ("weka_fs_tier_location_both.txt", IMAGE, IMAGE, "resident", 0),
        ("weka_fs_tier_location_object_only.txt", NOTHING, IMAGE, "released", 102_390_000),
    ],
)
def test_weka_samples(name: str, on_ssd: Size, away: Size, state: str, missing_bytes: int) -> None:
    rows = parse_tier_locations(sample(name))
    assert rows == {"image": TierLocation("image", "regular", IMAGE, on_ssd, away)}
    verdict = verdict_of(rows["image"], 102_390_000)
    assert (verdict.state, verdict.missing_bytes) == (state, missing_bytes)


def test_weka_says_nothing_of_a_folder() -> None:
    rows = parse_tier_locations(sample("weka_fs_tier_location_dir.txt"))
    verdict = verdict_of(rows["/mnt/fs02"], 0)
    assert (verdict.state, verdict.reason) == (
        "unknown", "weka calls it a directory: ask for files",
    )  # fmt: skip


def test_weka_capacity_is_of_whole_file_systems_and_tells_nothing_of_files() -> None:
    assert parse_tier_locations(sample("weka_fs_tier_capacity.txt")) == {}


def test_weka_columns_by_their_ids_and_raw_units() -> None:
    """The header may be spelled as --output takes it; whole bytes are exact."""
    columns = sample("weka_fs_tier_location_columns.txt").split()
    values = ["/a  b", "regular", "1000", "100", "150", "1000", "0", "0"]
    assert parse_tier_locations("  ".join(columns) + "\n" + "  ".join(values)) == {}  # two blanks
    values[0] = "/a b"
    rows = parse_tier_locations("  ".join(columns) + "\n" + "  ".join(values))
    assert rows["/a b"].on_ssd == Size(250, 0)
    verdict = verdict_of(rows["/a b"], 1000)
    assert (verdict.state, verdict.missing_bytes) == ("partial", 750)


@pytest.mark.parametrize(("on_ssd", "state"), [(1000, "resident"), (999, "partial")])
def test_weka_in_raw_units_one_byte_counts(on_ssd: int, state: str) -> None:
    row = TierLocation("/a", "regular", Size(1000, 0), Size(on_ssd, 0), Size(1000, 0))
    assert verdict_of(row, 1000).state == state


def test_weka_holes_are_resident_when_nothing_is_elsewhere() -> None:
    row = TierLocation("/a", "regular", Size(1000, 0), NOTHING, NOTHING)
    assert verdict_of(row, 1000).state == "resident"


def test_weka_of_another_file_of_that_name_is_not_believed() -> None:
    row = TierLocation("/a", "regular", Size(1000, 0), Size(1000, 0), NOTHING)
    assert verdict_of(row, 1001).state == "unknown"


def test_gpfs_samples() -> None:
    offline = parse_attributes(sample("mmlsattr_L_offline.txt"))
    resident = parse_attributes(sample("mmlsattr_L_resident.txt"))
    assert offline == {
        "/gpfs/proj/models/model-00008-of-00009.safetensors": frozenset({"ARCHIVE", "OFFLINE"})
    }
    assert resident == {
        "/gpfs/proj/models/model-00001-of-00002.safetensors": frozenset({"ARCHIVE"})
    }
    assert (
        parse_attributes(
            sample("mmlsattr_L_offline.txt") + "\n" + sample("mmlsattr_L_resident.txt")
        )
        == offline | resident
    )


def test_gpfs_without_its_attributes_tells_nothing() -> None:
    text = sample("mmlsattr_L_resident.txt")
    cut = text[: text.index("Misc attributes")]
    assert parse_attributes(cut) == {}
    # What is cut off must not take the next file's attributes.
    assert list(parse_attributes(cut + text)) == [
        "/gpfs/proj/models/model-00001-of-00002.safetensors"
    ]


@given(st.text(max_size=400))
@settings(max_examples=200)
def test_any_text_is_survived(text: str) -> None:
    parse_hsm_states(text)
    parse_tier_locations(text)
    parse_attributes(text)
    header = sample("weka_fs_tier_location_both.txt").split("\n")[0]
    for row in parse_tier_locations(f"{header}\n{text}").values():
        assert verdict_of(row, 5).state != "released" or row.away.size_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0 B", Size(0, 0)),
        ("102.39 MB", Size(102_390_000, 5_000)),
        ("2TiB", Size(2 << 40, 1 << 39)),
        ("50GB", Size(50 * 10**9, 5 * 10**8)),
        ("50000000000", Size(50_000_000_000, 0)),
        ("1.5", Size(1, 0)),
        ("", None), ("B", None), ("1 iB", None), ("-1 B", None), ("1e9", None), ("٣ MB", None),
        ("9" * 30, None), ("1.2.3", None), ("1 MB MB", None),
    ],
)  # fmt: skip
def test_sizes(text: str, size: Size | None) -> None:
    assert parse_size(text) == size


def test_sizes_for_people() -> None:
    texts = [bytes_text(number) for number in (0, 999, 1000, 14_293_651_161_088, 10**21)]
    assert texts == ["0 B", "999 B", "1.0 kB", "14.3 TB", "1000.0 EB"]


RESIDENT = [
    "comp_v1_dom_uninit", "comp_v1_flr_2_mirrors", "comp_v1_sel", "comp_v1_two_components",
    "v1_overstriped_8_on_2", "v1_plain_4", "v3_pool_2",
]  # fmt: skip
NOT_A_FILES = [
    "dir_default_all_osts", "dir_default_all_zero", "foreign_s3", "truncated_comp", "unknown_magic",
]  # fmt: skip


def layout(name: str) -> bytes:
    return (SAMPLES / f"xattr_{name}.bin").read_bytes()


def test_every_layout_sample_is_judged() -> None:
    names = {each.stem.removeprefix("xattr_") for each in SAMPLES.glob("xattr_*.bin")}
    assert names == {*RESIDENT, *NOT_A_FILES, "v1_released"}


@pytest.mark.parametrize("name", RESIDENT)
def test_layouts_that_hold_their_data(name: str) -> None:
    assert released_bytes(layout(name), 1 << 40) == 0


@pytest.mark.parametrize("name", NOT_A_FILES)
def test_layouts_that_say_nothing(name: str) -> None:
    assert released_bytes(layout(name), 1 << 40) is None


def test_released_layouts() -> None:
    assert released_bytes(layout("v1_released"), 4711) == 4711
    assert released_bytes(swapped(layout("v1_released")), 4711) == 4711


def swapped(lov: bytes) -> bytes:
    """The head as a client of the other byte order keeps it."""
    fields = struct.unpack_from("<II16sIHH", lov)
    return struct.pack(">II16sIHH", *fields)


def with_released(name: str, components: set[int]) -> bytes:
    """A composite sample with the released bit set in some components."""
    lov = bytearray(layout(name))
    for number in components:
        (offset,) = struct.unpack_from("<I", lov, 32 + number * 48 + 24)
        (pattern,) = struct.unpack_from("<I", lov, offset + 4)
        struct.pack_into("<I", lov, offset + 4, pattern | 0x80000000)
    return bytes(lov)


def test_released_components_count_with_their_part_of_the_file() -> None:
    (first_end,) = struct.unpack_from("<Q", layout("comp_v1_two_components"), 32 + 16)
    size_bytes = first_end + 1000
    for components, away in [({0}, first_end), ({1}, 1000), ({0, 1}, size_bytes)]:
        assert released_bytes(with_released("comp_v1_two_components", components), size_bytes) == (
            away
        )


def test_a_stale_mirror_does_not_count() -> None:
    assert released_bytes(with_released("comp_v1_flr_2_mirrors", {1}), 1000) == 0
    assert released_bytes(with_released("comp_v1_flr_2_mirrors", {0}), 1000) == 1000


@given(st.sampled_from([*RESIDENT, *NOT_A_FILES, "v1_released"]), st.data())
@settings(max_examples=200)
def test_damaged_layouts(name: str, data: st.DataObject) -> None:
    """No crash, and a cut layout never says that the data is there."""
    lov = bytearray(layout(name))
    cut = bytes(lov[: data.draw(st.integers(0, len(lov) - 1))])
    assert released_bytes(cut, 1000) in (None, *([1000] if name == "v1_released" else []))
    position = data.draw(st.integers(0, len(lov) - 1))
    lov[position] = data.draw(st.integers(0, 255))
    away = released_bytes(bytes(lov), 1000)
    assert away is None or 0 <= away <= 1000
