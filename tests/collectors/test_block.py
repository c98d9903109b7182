"""The block collector on snapshots of real hosts, on hand-made ones, and beside iostat."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from slurm_io.collectors.base import Context, Tick
from slurm_io.collectors.block import Block
from slurm_io.store.schema import TABLES
from tests.collectors.fake_host import FIXTURES, context, rows_at, tick, write_tree
from tests.filesystems.node_trees import NodeTree
from tests.labs.block import BlockLab, block_lab_missing

DM_STATS = ("dm-0", "dm-1")


class Host:
    """A fake host whose diskstats can be replaced between ticks."""

    def __init__(self, root: Path, diskstats: str) -> None:
        self.root = root
        self.write(diskstats)
        self.block = Block()
        self.availability = self.block.open(context(root))

    def write(self, diskstats: str) -> None:
        write_tree(self.root, {"proc/diskstats": diskstats})

    def rows(self, second: float, diskstats: str | None = None) -> dict[str, dict[str, Any]]:
        if diskstats is not None:
            self.write(diskstats)
        return {row["device"]: row for row in rows_at(self.block, second)}


def sample(name: str) -> str:
    return (FIXTURES / "diskstats" / name).read_text()


def sda(**changed: int) -> str:
    names = [
        "reads",
        "rm",
        "rs",
        "rms",
        "writes",
        "wm",
        "ws",
        "wms",
        "inflight",
        "io_ms",
        "weighted",
    ]
    values = dict.fromkeys(names, 1000) | {"inflight": 0} | changed
    return " 8 0 sda " + " ".join(str(values[name]) for name in names) + "\n"


def test_five_snapshots_of_one_host(tmp_path: Path) -> None:
    host = Host(tmp_path, sample("series_root1.txt"))
    seen = [set(host.rows(i, sample(f"series_root{i + 1}.txt"))) for i in range(5)]
    assert seen == [
        set(),
        {"sdq", "sdr", "sds"},
        # sda1 gets requests in flight; sdb went back, sdc grew flush columns: no row
        {"sda", "sda1", "sdq", "sdr", "sds"},
        # sda, sda1, sds went back; sdf and sdg are new; sdb and sdq are gone
        {"sdc", "sdr"},
        # sdq is back, from other counters: its first reading
        {"sdc", "sdg", "sdr", "sds"},
    ]
    facts = host.block.facts()
    assert facts["restarts"] == {"sdb": 1, "sdc": 1, "sda": 1, "sda1": 1, "sds": 1}


def test_figures_cover_the_collectors_own_interval(tmp_path: Path) -> None:
    host = Host(tmp_path, sda())
    host.rows(0)
    row = host.rows(4, sda(reads=1400, rs=4200, rms=2000, io_ms=3000))["sda"]
    assert row["interval_ns"] == 4_000_000_000
    assert (row["r_s"], row["rkB_s"], row["r_await"]) == (100, 400, 2.5)
    assert row["util"] == pytest.approx(50)
    assert (row["ts_ns"], row["mono_ns"]) == (tick(4).ts_ns, tick(4).mono_ns)


def test_an_idle_device_has_no_row_and_its_baseline_stays(tmp_path: Path) -> None:
    host = Host(tmp_path, sda())
    assert [host.rows(second) for second in (0, 1, 2)] == [{}, {}, {}]
    assert host.rows(3, sda(writes=1010))["sda"]["w_s"] == 10


def test_a_hung_disk_has_a_row_that_says_stuck(tmp_path: Path) -> None:
    host = Host(tmp_path, sda(inflight=2))
    host.rows(0)
    unchanged = host.rows(1)["sda"]
    assert (unchanged["stuck"], unchanged["inflight"], unchanged["r_s"]) == (True, 2, 0)
    assert unchanged["r_await"] is None
    busy = host.rows(2, sda(inflight=2, io_ms=2000, weighted=3000))["sda"]
    assert (busy["stuck"], busy["util"], busy["aqu_sz"]) == (True, 100, 2)
    done = host.rows(3, sda(inflight=0, reads=1002, rms=6000, io_ms=2500, weighted=4000))["sda"]
    assert (done["stuck"], done["r_await"]) == (False, 2500)
    assert host.rows(4) == {}


def test_case_f02_a_counter_one_step_back_gives_no_number_at_all(tmp_path: Path) -> None:
    case = FIXTURES / "cases" / "F02-counter-one-step-back"
    before, after = (case / "t0.txt").read_text(), (case / "t1.txt").read_text()
    host = Host(tmp_path, before)
    host.rows(0)
    assert host.rows(2, after) == {}
    assert host.block.facts()["restarts"] == {"sdf": 1}
    # The next interval starts from t1.
    later = after.replace(" 999999 ", " 1000099 ").replace(" 699998 ", " 700998 ")
    row = host.rows(4, later)["sdf"]
    assert (row["r_s"], row["util"]) == (50, 50)


def test_removed_and_added_again_between_ticks_starts_anew(tmp_path: Path) -> None:
    other = " 8 16 sdb 5 0 5 5 5 0 5 5 0 5 5\n"
    host = Host(tmp_path, sda() + other)
    host.rows(0)
    assert host.rows(1, other) == {}
    assert host.rows(2, sda(reads=9000) + other) == {}
    assert host.rows(3, sda(reads=9010) + other)["sda"]["r_s"] == 10


def test_lines_that_change_places_keep_their_baselines(tmp_path: Path) -> None:
    other = " 8 16 sdb 5 0 5 5 5 0 5 5 0 5 5\n"
    host = Host(tmp_path, sda() + other)
    host.rows(0)
    rows = host.rows(1, other + sda(reads=1007))
    assert {name: row["r_s"] for name, row in rows.items()} == {"sda": 7}


def test_memory_and_optical_devices_and_doubled_names_are_skipped(tmp_path: Path) -> None:
    lines = "".join(
        f" 1 0 {name} {{0}} 0 8 0 0 0 0 0 0 0 0\n"
        for name in ("ram0", "zram0", "sr0", "fd0", "nbd0")
    )
    host = Host(tmp_path, lines.format(1) + sda() + sda(reads=5))
    host.rows(0)
    rows = host.rows(1, lines.format(9) + sda(reads=1003) + sda(reads=500))
    assert {name: row["r_s"] for name, row in rows.items()} == {"sda": 3}


def test_nvme_paths_name_their_head(tmp_path: Path) -> None:
    text = sample("nvme_multipath_netdata5744.txt")
    host = Host(tmp_path, text)
    host.rows(0)
    row = host.rows(1, text.replace(" 682 ", " 692 "))["nvme3c33n1"]
    assert (row["role"], row["parent"], row["r_s"]) == ("mpath", "nvme3n1", 10)


def test_lxcfs_is_said(tmp_path: Path) -> None:
    mounts = (FIXTURES / "mountinfo" / "mountinfo_container_node.txt").read_text()
    write_tree(tmp_path, {"proc/self/mountinfo": mounts})
    availability = Host(tmp_path, sda()).availability
    assert availability.state == "partial" and "lxcfs" in availability.reason


def test_in_an_lxc_container_the_kernels_own_counters_are_read_from_sys(tmp_path: Path) -> None:
    mounts = (FIXTURES / "mountinfo" / "mountinfo_container_node.txt").read_text()
    samples = {name: (FIXTURES / "sysfs" / f"{name}_stat.txt").read_text() for name in DM_STATS}
    files = {f"sys/class/block/{name}/stat": text for name, text in samples.items()}
    write_tree(tmp_path, {"proc/self/mountinfo": mounts, "sys/class/block/ram0/stat": "1", **files})
    host = Host(tmp_path, sda())
    assert host.availability.state == "on"
    host.rows(0)
    write_tree(
        tmp_path, {"sys/class/block/dm-1/stat": samples["dm-1"].replace("1234567", "1234577")}
    )
    assert {name: row["r_s"] for name, row in host.rows(1).items()} == {"dm-1": 10}
    assert host.block.facts()["source"] == str(tmp_path / "sys/class/block")
    # A device that comes later is found within half a minute.
    write_tree(tmp_path, {"sys/class/block/sdz/stat": samples["dm-1"]})
    host.rows(40)
    write_tree(tmp_path, {"sys/class/block/sdz/stat": samples["dm-1"].replace("567890", "567895")})
    assert host.rows(41)["sdz"]["w_s"] == 5
    host.block.close()


def test_a_silent_array_over_disks_that_count_is_no_gap(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "sys/block/md0/size": "8\n", "sys/block/md0/queue/iostats": "0\n",
            "sys/block/md0/slaves/sda/x": "", "sys/block/sda/queue/iostats": "1\n",
        },
    )  # fmt: skip
    host = Host(tmp_path, sda() + " 9 0 md0 0 0 0 0 0 0 0 0 0 0 0\n")
    assert host.availability.state == "on"


def test_a_disk_whose_counters_are_off_is_said(tmp_path: Path) -> None:
    write_tree(tmp_path, {"sys/block/sda/size": "8\n", "sys/block/sda/queue/iostats": "0\n"})
    availability = Host(tmp_path, sda()).availability
    assert availability.state == "partial" and "sda" in availability.reason


def test_facts_name_the_mounts_of_a_device(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "sys/block/sda/dev": "8:0\n",
            "proc/self/mountinfo": "1 0 8:0 / / rw - ext4 /dev/sda rw\n"
            "2 1 0:9 / /nfs rw - nfs s:/x rw\n",
        },
    )
    (device,) = Host(tmp_path, sda()).block.facts()["devices"]  # type: ignore[misc]
    assert device["name"] == "sda" and device["mounts"] == ["/"]


def test_facts_name_the_leaves_of_each_mount_so_that_no_byte_counts_twice(tmp_path: Path) -> None:
    """The sample of a tool that added up all lines: a disk and its partitions."""
    text = sample("nvme_partitions_20col_dool32.txt")
    tree = NodeTree(tmp_path)
    tree.disk("nvme0n1", "259:0", partitions=3)
    tree.mount("/data", "259:3", "xfs", "/dev/nvme0n1p3")
    host = Host(tmp_path, text)
    host.rows(0)
    grown = "".join(grow(line, 1000) for line in text.splitlines(keepends=True))
    rows = host.rows(1, grown)
    assert len(rows) == 4
    leaves = host.block.facts()["leaves"]["/data"]  # type: ignore[index]
    assert leaves == ["nvme0n1"]
    assert sum(rows[name]["rkB_s"] for name in leaves) == 500


def grow(line: str, sectors: int) -> str:
    """A line of diskstats after one more read of so many sectors."""
    fields = line.split()
    fields[3], fields[5] = str(int(fields[3]) + 1), str(int(fields[5]) + sectors)
    return " ".join(fields) + "\n"


@pytest.mark.parametrize("head_counts", [False, True])
def test_nvme_multipath_is_counted_on_the_head_or_on_the_paths_never_on_both(
    tmp_path: Path, head_counts: bool
) -> None:
    tree = NodeTree(tmp_path)
    tree.disk("nvme0n1", "259:0", partitions=1)
    tree.mount("/data", "259:1", "xfs", "/dev/nvme0n1p1")
    text = sample("nvme_multipath_atop157.txt")
    host = Host(tmp_path, text)
    host.rows(0)
    lines = text.splitlines(keepends=True)
    rows = host.rows(
        1, "".join(grow(line, 2000) if head_counts or "c0n1" in line else line for line in lines)
    )
    facts = host.block.facts()
    leaves = facts["leaves"]["/data"]  # type: ignore[index]
    assert leaves == (["nvme0n1"] if head_counts else ["nvme0c0n1"])
    assert sum(rows[name]["rkB_s"] for name in leaves) == 1000
    assert facts["multipath"] == {
        "nvme0n1": {"paths": ["nvme0c0n1"], "counted_on": "head" if head_counts else "paths"}
    }


def test_mirrors_with_their_members_counters_are_counted_once(tmp_path: Path) -> None:
    """md0 and md1 of the sample hold the very numbers of their members."""
    tree = NodeTree(tmp_path)
    for number, letter in enumerate("ab"):
        tree.disk(f"sd{letter}", f"8:{16 * number + 32}")
    tree.stack("md0", "9:0", ["sda", "sdb"], md__level="raid1")
    tree.mount("/mirror", "9:0", "ext4", "/dev/md0")
    host = Host(tmp_path, sample("14col_sd_loop_md.txt"))
    host.rows(0)
    assert host.block.facts()["leaves"]["/mirror"] == ["sda", "sdb"]  # type: ignore[index]


def test_a_source_that_comes_and_goes_is_no_error(tmp_path: Path) -> None:
    host = Host(tmp_path, sda())
    host.rows(0)
    host.block.close()
    (tmp_path / "proc/diskstats").unlink()
    assert host.rows(1) == {}
    assert host.rows(2, sda(reads=5000)) == {}
    assert host.rows(3, sda(reads=5001))["sda"]["r_s"] == 1


# Beside iostat ------------------------------------------------------------------------------------

IOSTAT = shutil.which("iostat")
SECONDS = 6
COMPARED = ("r/s", "rkB/s", "w/s", "wkB/s", "d/s", "f/s")


def work_in(folder: Path, until_s: float) -> None:
    """Real reads past the page cache and synced writes, about half of the time."""
    block = os.urandom(256 * 1024)
    while time.monotonic() < until_s:
        with open(folder / "file", "wb") as file:
            file.writelines(block for _ in range(8))
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        (folder / "file").read_bytes()
        time.sleep(0.03)


def start_iostat(device: str) -> subprocess.Popen[str]:
    """Started, and asleep between its two readings."""
    assert IOSTAT is not None
    # The first report is since boot and is left out (-y); one report over the whole time.
    iostat = subprocess.Popen(
        [IOSTAT, "-dxk", "-y", "-o", "JSON", device, str(SECONDS), "1"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "LC_ALL": "C"},
    )
    seen_asleep = 0
    while seen_asleep < 10:
        _, _, rest = Path(f"/proc/{iostat.pid}/stat").read_text().partition("(iostat) ")
        seen_asleep = seen_asleep + 1 if rest.startswith("S") else 0
        time.sleep(0.02)
    return iostat


def now() -> Tick:
    return Tick(time.time_ns(), time.monotonic_ns(), None)


@pytest.mark.root
def test_agrees_with_iostat_on_a_loop_device(tmp_path: Path) -> None:
    if reason := block_lab_missing() or (None if IOSTAT else "iostat (sysstat) is not installed"):
        pytest.skip(reason)
    columns = TABLES["block"].column_names()
    with BlockLab(tmp_path) as lab:
        block = Block()
        block.open(
            Context(Path("/proc"), Path("/sys"), tuple, tuple, tuple, lambda pid: ("none", None))
        )
        # Our first reading lies before iostat's and our last behind it, and there is no work while
        # either takes its own, so that both see the very same requests.
        os.sync()
        block.collect(now())
        iostat = start_iostat(lab.device_name)
        rows = []
        end_s = time.monotonic() + SECONDS - 1.5
        while time.monotonic() < end_s:
            work_in(lab.mountpoint, min(end_s, time.monotonic() + 1))
            rows += block.collect(now())
        out, _ = iostat.communicate(timeout=30)
        rows += block.collect(now())
        block.close()
    ours = [dict(zip(columns, row, strict=True)) for row in rows]
    ours = [row for row in ours if row["device"] == lab.device_name]
    (theirs,) = json.loads(out)["sysstat"]["hosts"][0]["statistics"][0]["disk"]
    assert theirs["disk_device"] == lab.device_name
    for name in COMPARED:
        column = name.replace("/", "_")
        total = sum(row[column] * row["interval_ns"] / 1e9 for row in ours)
        # iostat rounds its rates to two places.
        assert total == pytest.approx(theirs[name] * SECONDS, rel=0.02, abs=0.01 * SECONDS), name
    assert theirs["w/s"] > 1 and theirs["r/s"] > 1
    for side in ("r", "w"):
        ios = sum(row[f"{side}_s"] * row["interval_ns"] / 1e9 for row in ours)
        spent_ms = sum(
            (row[f"{side}_await"] or 0) * row[f"{side}_s"] * row["interval_ns"] / 1e9
            for row in ours
        )
        assert spent_ms / ios == pytest.approx(theirs[f"{side}_await"], rel=0.02, abs=0.01)
    assert {row["role"] for row in ours} == {"loop"}
