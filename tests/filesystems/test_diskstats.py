"""Every diskstats sample parses to stated values; nothing else passes for a device line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.filesystems.diskstats import parse_diskstats, parse_line, parse_stat

FIXTURES = Path(__file__).parents[1] / "fixtures" / "host"

# file -> number of devices, one of them, its (major:minor, reads, sectors read, writes, sectors
# written, in flight, weighted ms, discards, flushes)
STATED = {
    "14col_cciss_slash_names": (
        5, "cciss/c12d11", ("64:0", 545, 512544, 34386, 256, 1, 1691, None, None),
    ),
    "14col_nbd_dm": (
        48, "dm-0", ("252:0", 14161327, 7066698, 48183367, 56882504, 0, 31550644, None, None),
    ),
    "14col_ram_cciss_dm": (
        81, "cciss/c0d3p2", ("104:50", 45, 850, 0, 0, 0, 92, None, None),
    ),
    "14col_rbd_dm_virtio": (
        12, "rbd0p1", ("251:1", 535156, 4283258, 7, 258, 0, 1545123, None, None),
    ),
    "14col_sd_loop_md": (
        5, "sdb", ("8:1", 2132105, 85048962, 2541331, 278999432, 1, 632716500, None, None),
    ),
    "20col_dm_zram": (
        11, "vda", ("252:0", 21066, 3131759, 27072, 1872313, 0, 67781, 0, 2522),
    ),
    "iostat_forms_2_4_2_6_4_18": (
        2, "hda1", ("3:1", 35486, 38030, 38030, 38030, None, None, None, None),
    ),
    "mixed_14_18_20col": (
        52, "sda", ("8:0", 25354637, 1003346126, 28444756, 505697032, 0, 82621804, None, None),
    ),
    "mixed_nvme_vda_sd": (
        51, "sda4", ("8:4", 25353629, 1003337964, 27448755, 505696880, 0, 80332428, None, None),
    ),
    "nvme_ioticks_broken_munin1119": (0, None, None),
    "nvme_multipath_atop157": (
        2, "nvme0c0n1",
        ("0:0", 34706049, 4815165730, 4187610, 6989322264, 0, 118897696, 312571, None),
    ),
    "nvme_multipath_netdata5744": (
        2, "nvme3c33n1", ("0:0", 682, 16148, 67891, 17174264, 0, 36052, 0, None),
    ),
    "nvme_partitions_20col_dool32": (
        4, "nvme0n1",
        ("259:0", 93309610, 23882648030, 95197224, 24366029343, 0, 1409885939, 0, 0),
    ),
    "series_root1": (22, "sds", ("65:32", 386, 8554, 727, 8746, 0, 7902, None, None)),
    "series_root2": (21, "sdr", ("65:16", 16489, 430786, 3596, 281254, 0, 337106, 0, None)),
    "series_root3": (21, "sdc", ("8:32", 0, 0, 0, 0, 0, 0, 0, 32)),
    "series_root4": (21, "sdc", ("8:32", 0, 0, 0, 0, 0, 0, 0, 56)),
    "series_root5": (22, "sdq", ("65:0", 1601, 99498, 0, 0, 0, 4808, 998, None)),
    "series_root7_xvd_cciss": (
        20, "cciss/c0d0p1", ("104:1", 5817, 0, 55711, 0, 0, 9000180, None, None),
    ),
}  # fmt: skip


def sample_names() -> list[str]:
    return sorted(path.stem for path in (FIXTURES / "diskstats").glob("*.txt"))


def test_every_sample_is_stated() -> None:
    assert sample_names() == sorted(STATED)


@pytest.mark.parametrize("name", sample_names())
def test_sample_parses_to_the_stated_values(name: str) -> None:
    count, device, values = STATED[name]
    lines = parse_diskstats((FIXTURES / "diskstats" / f"{name}.txt").read_text())
    assert len(lines) == count
    for line in lines:
        if line.name == device:
            c = line.counters
            assert values == (
                line.major_minor, c.read_ios, c.read_sectors, c.write_ios, c.write_sectors,
                c.inflight, c.weighted_ms, c.discard_ios, c.flush_ios,
            )  # fmt: skip
            return
    assert device is None


def test_three_devices_of_one_number_are_all_kept() -> None:
    lines = parse_diskstats((FIXTURES / "diskstats" / "mixed_14_18_20col.txt").read_text())
    assert len([line for line in lines if line.major_minor == "8:0"]) == 3


def test_a_name_that_comes_twice_keeps_its_first_line() -> None:
    text = "8 0 sda 1 0 8 0 0 0 0 0 0 0 0\n8 0 sda 2 0 16 0 0 0 0 0 0 0 0\n"
    assert [line.counters.read_ios for line in parse_diskstats(text)] == [1]


@pytest.mark.parametrize(
    ("device", "values"),
    [
        (
            "dm-0",
            (6447303, 0, 710266738, 1529043, 953216, 0, 31201176, 4557464, 0, 796160, 6088971),
        ),
        ("dm-1", (1234567, 0, 98765432, 100000, 567890, 0, 45678900, 200000, 0, 50000, 300000)),
    ],
)
def test_sysfs_stat_holds_the_same_columns(device: str, values: tuple[int, ...]) -> None:
    counters = parse_stat((FIXTURES / "sysfs" / f"{device}_stat.txt").read_text())
    assert counters is not None
    assert tuple(value for value in counters if value is not None) == values


def test_case_f01_sectors_are_512_bytes_whatever_the_disk_says() -> None:
    case = FIXTURES / "cases" / "F01-sectors-are-512-always"
    answer = json.loads((case / "expected.json").read_text())["answer"]
    (line,) = parse_diskstats((case / "diskstats.txt").read_text())
    c = line.counters
    assert (c.read_bytes, c.write_bytes) == (answer["read_bytes"], answer["write_bytes"])
    assert (c.inflight, c.io_ms) == (answer["inflight"], answer["io_ms"])
    assert c.discard_ios is None and c.flush_ios is None
    assert c.read_ms is not None and c.write_ms is not None
    assert c.read_bytes / 1024 / c.read_ios == pytest.approx(answer["rareq_sz_kB"])
    assert c.write_bytes / 1024 / c.write_ios == pytest.approx(answer["wareq_sz_kB"])
    assert c.read_ms / c.read_ios == pytest.approx(answer["r_await_ms"])
    assert c.write_ms / c.write_ios == pytest.approx(answer["w_await_ms"])


NUMBERS = st.integers(min_value=0, max_value=2**64 - 1)


@given(st.sampled_from([4, 11, 15, 17]), st.data())
def test_what_a_kernel_prints_comes_back(width: int, data: st.DataObject) -> None:
    values = data.draw(st.lists(NUMBERS, min_size=width, max_size=width))
    line = parse_line(f" 259  3 nvme0n1p3 {' '.join(map(str, values))}")
    assert line is not None and line.name == "nvme0n1p3"
    told = [value for value in line.counters if value is not None]
    assert told == values


@given(st.integers(12, 30), st.data())
def test_odd_widths_use_what_they_surely_hold(width: int, data: st.DataObject) -> None:
    values = data.draw(st.lists(NUMBERS, min_size=width, max_size=width))
    line = parse_line(f"8 0 sda {' '.join(map(str, values))}")
    used = 11 if width < 15 else 15 if width < 17 else 17
    assert line is not None
    assert [value for value in line.counters if value is not None] == values[:used]


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    for line in parse_diskstats(text):
        assert line.counters.read_ios >= 0 or "-" in text
