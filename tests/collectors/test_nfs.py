"""The NFS collector on mountstats of real clients that move on, and beside nfs-utils' own tool."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slurm_io.collectors.nfs import Nfs
from tests.collectors.fake_host import context, rows_at, tick, write_tree

FIXTURES = Path(__file__).parents[1] / "fixtures" / "nfs"


def sample(name: str) -> str:
    return (FIXTURES / name).read_text()


def mountinfo_of(mountstats: str, numbers: dict[str, int] | None = None) -> str:
    """A mountinfo that fits: one device number for each mount, or those given by mount point."""
    found = re.findall(
        r"^device (\S+) mounted on (\S+) with fstype (nfs4?) statvers", mountstats, re.MULTILINE
    )
    lines = ["1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"]
    for place, (device, point, fstype) in enumerate(found):
        minor = (numbers or {}).get(point, 50 + place)
        options = "rw,vers=4.2,addr=192.0.2.1"
        lines.append(f"{60 + place} 1 0:{minor} / {point} rw - {fstype} {device} {options}\n")
    return "".join(lines)


class Host:
    """A fake host whose mountstats can be replaced between ticks."""

    def __init__(self, root: Path, mountstats: str, numbers: dict[str, int] | None = None) -> None:
        self.root = root
        self.write(mountstats, numbers)
        self.nfs = Nfs()
        self.availability = self.nfs.open(context(root))

    def write(self, mountstats: str, numbers: dict[str, int] | None = None) -> None:
        write_tree(
            self.root,
            {
                "proc/self/mountstats": mountstats,
                "proc/self/mountinfo": mountinfo_of(mountstats, numbers),
            },
        )

    def rows(self, second: float, mountstats: str | None = None) -> list[dict[str, Any]]:
        if mountstats is not None:
            self.write(mountstats)
        return rows_at(self.nfs, second)

    def by_class(self, second: float, mountstats: str | None = None) -> dict[str, dict[str, Any]]:
        return {row["op_class"]: row for row in self.rows(second, mountstats)}


def moved(text: str, **lines: str) -> str:
    """The text with operations' lines replaced: ``READ="1 1 0 2 3 4 5 6"``."""
    for name, numbers in lines.items():
        text, count = re.subn(rf"(\s{name}: )[^\n]*", rf"\g<1>{numbers}", text, count=1)
        assert count == 1
    return text


def sent(text: str, sends: int, recvs: int) -> str:
    """The text with the first connection's counters replaced."""
    return re.sub(
        r"(xprt:\ttcp \d+ \d+ \d+ \d+ \d+) \d+ \d+", rf"\g<1> {sends} {recvs}", text, count=1
    )


HOME = sample("mountstats42.txt")
# ten seconds later: 100 READs of 100 kB with 10 retransmissions, 100 GETATTRs
HOME_LATER = (
    moved(
        HOME,
        READ="38921 38931 2 11520616 4424245700 1050 825228 870333",
        GETATTR="141346 141346 0 40142120 58799888 7430 165846 186268",
    )
    .replace("age:\t5547", "age:\t5557")
    .replace("0 0 4406481497", "0 0 4416181497")
)


def test_figures_are_nfsiostats(tmp_path: Path) -> None:
    host = Host(tmp_path, HOME)
    assert host.availability.state == "on"
    assert host.rows(0) == []
    rows = host.by_class(10, HOME_LATER)
    assert set(rows) == {"read", "meta"}
    read, meta = rows["read"], rows["meta"]
    assert (read["mount"], read["fstype"], read["source"]) == ("/home", "nfs4", "mountstats")
    assert read["interval_ns"] == 10_000_000_000
    assert (read["ops"], read["bytes"], read["retrans"]) == (100, 9_700_000, 10)
    assert (read["queue_ms"], read["rtt_ms"], read["exe_ms"]) == (1.0, 10.0, 13.0)
    assert read["errors"] is None  # RPC iostats 1.0
    assert (meta["ops"], meta["bytes"], meta["rtt_ms"], meta["exe_ms"]) == (100, None, 2.0, 2.1)
    # ACCESS has a queue time below zero: the class's mean is unknown, its other means are not
    assert meta["queue_ms"] is None
    assert host.nfs.facts()["mounts"][0]["times_below_zero"] == ["ACCESS"]  # type: ignore[index]


def test_the_tool_of_nfs_utils_says_the_same(tmp_path: Path) -> None:
    tool = shutil.which("mountstats") or shutil.which("mountstats", path="/usr/sbin:/sbin")
    if tool is None:
        pytest.skip("mountstats of nfs-utils (package nfs-common) is not installed")
    before, after = tmp_path / "before", tmp_path / "after"
    before.write_text(HOME)
    after.write_text(HOME_LATER)
    said = subprocess.run(
        [tool, "mountstats", "-f", after, "-S", before, "/home"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    host = Host(tmp_path, HOME)
    host.rows(0)
    rows = host.by_class(10, HOME_LATER)
    for name, op_class in (("READ", "read"), ("GETATTR", "meta")):
        words = said.split(f"\n{name}:\n")[1].split("\n\n")[0]
        row = rows[op_class]
        assert row["ops"] == int(re.findall(r"(\d+) ops", words)[0])
        assert row["retrans"] == int((re.findall(r"(\d+) retrans", words) or ["0"])[0])
        assert row["rtt_ms"] == pytest.approx(float(re.findall(r"RTT: ([\d.]+)", words)[0]))
        execute = float(re.findall(r"execute time: ([\d.]+)", words)[0])
        assert row["exe_ms"] == pytest.approx(execute)
    payload = int(re.findall(r"client read (\d+) bytes via NFS READ", said)[0])
    assert rows["read"]["bytes"] == payload


def test_an_idle_mount_has_no_row_and_its_baseline_stays(tmp_path: Path) -> None:
    idle = sent(HOME, 653672, 653672)
    host = Host(tmp_path, idle)
    ages = [idle.replace("age:\t5547", f"age:\t{5547 + second}") for second in range(4)]
    assert [host.rows(second, ages[second]) for second in range(4)] == [[], [], [], []]
    row = host.by_class(4, sent(HOME_LATER, 653872, 653872))["read"]
    assert (row["ops"], row["interval_ns"]) == (100, 1_000_000_000)


def test_a_hung_server_has_a_row_that_says_how_many_wait(tmp_path: Path) -> None:
    host = Host(tmp_path, sent(HOME, 653672, 653672))
    host.rows(0)
    # reads complete, eight are still out
    busy = host.by_class(1, sent(HOME_LATER, 653880, 653872))
    assert busy["read"]["inflight"] == 8 and busy["meta"]["inflight"] is None
    # and now nothing completes any more; four more are sent
    for second, sends in ((2, 653884), (3, 653884)):
        (row,) = host.rows(second, sent(HOME_LATER, sends, 653872))
        assert (row["op_class"], row["ops"], row["inflight"]) == ("read", 0, 12)
        assert (row["bytes"], row["retrans"]) == (0, 0)
        assert (row["rtt_ms"], row["exe_ms"], row["queue_ms"]) == (None, None, None)
    # the server is back
    assert host.rows(4, sent(HOME_LATER, 653884, 653884)) == []


def test_what_waits_stays_with_the_class_that_was_busy_before_the_hang(tmp_path: Path) -> None:
    host = Host(tmp_path, sent(HOME, 653672, 653672))
    host.rows(0)
    looked_up = moved(HOME, LOOKUP="6226 6226 0 1862380 1503644 148 4196 4632")
    host.rows(1, sent(looked_up, 653772, 653772))
    for second, sends in ((2, 653775), (3, 653779)):
        (row,) = host.rows(second, sent(looked_up, sends, 653772))
        assert (row["op_class"], row["inflight"]) == ("meta", sends - 653772)


def test_inflight_of_a_server_stands_in_one_row_of_the_mount_that_did_most(tmp_path: Path) -> None:
    both = re.sub(r"device nas1:.*?\n\n", "", sample("mountstats3.txt"), flags=re.DOTALL)
    for name, reads in (("a", 5), ("b", 50)):
        block = HOME[HOME.index("device nfs-d") :].split("\n\n")[0]
        block = block.replace("nfs-d.example.org:/home", f"srv:/{name}").replace(
            " /home ", f" /{name} "
        )
        both += moved(block, READ=f"{reads} {reads} 0 1 1 0 1 1") + "\n\n"
    host = Host(tmp_path, both)
    host.rows(0)
    later = both.replace("READ: 5 5", "READ: 7 7").replace("READ: 50 50", "READ: 99 99")
    later = later.replace("653672 653671", "653972 653965")
    rows = host.rows(1, later)
    assert {(row["mount"], row["op_class"]): row["inflight"] for row in rows} == {
        ("/a", "read"): None,
        ("/b", "read"): 7,
    }
    (server,) = host.nfs.facts()["servers"]  # type: ignore[misc]
    assert server["mounts"] == ["/a", "/b"] and server["connections"] == 1


def test_mounts_of_one_superblock_have_one_set_of_rows(tmp_path: Path) -> None:
    before = sample("mountstats3.txt")
    numbers = {
        point: 77
        for point in re.findall(r"mounted on (/nas1/\w+)", before)
        if point != "/nas1/media2"
    }
    host = Host(tmp_path, before, numbers)
    host.rows(0)
    after = before.replace("READ: 1 1 0 136 296 0 4 4", "READ: 11 12 0 136 296 0 54 64")
    host.write(after.replace("167 0 0 0 167 0 1 0", "167 0 0 0 4263 0 1 0"), numbers)
    (row,) = host.rows(1)
    assert (row["mount"], row["op_class"], row["ops"]) == ("/nas1/media3", "read", 10)
    assert (row["bytes"], row["retrans"], row["rtt_ms"]) == (4096, 1, 5.0)
    media, other = host.nfs.facts()["mounts"]  # type: ignore[misc]
    assert len(media["also_mounted_at"]) == 8 and "/nas1/assets" in media["also_mounted_at"]
    assert other["mount"] == "/nas1/media2"


def test_twins_without_mountinfo_are_told_by_their_content(tmp_path: Path) -> None:
    host = Host(tmp_path, sample("mountstats3.txt"))
    write_tree(tmp_path, {"proc/self/mountinfo": "60 1 0:50 / /nas1/x rw - nfs nas1:/x rw\n"})
    nfs = Nfs()
    assert nfs.open(context(tmp_path)).state == "on"
    nfs.collect(tick(0))
    assert len(nfs.facts()["mounts"]) == 2  # type: ignore[arg-type]
    host.nfs.close()
    nfs.close()


def test_two_mounts_over_one_another_have_one_row_together(tmp_path: Path) -> None:
    before = sample("mountstats-el8.7-rdma.txt")
    host = Host(tmp_path, before)
    host.rows(0)
    after = before.replace(
        "READ: 49 49 0 5096 2562176 0 15 17", "READ: 50 50 0 5096 2562176 0 19 22"
    )
    after = after.replace(
        "READ: 106156 106156 0 12595328 3131627640 2442 102180 106716 0",
        "READ: 106159 106159 0 12595328 3131627640 2442 102240 106785 2",
    )
    (row,) = host.rows(1, after)
    assert (row["mount"], row["ops"], row["rtt_ms"], row["errors"]) == (
        "/storage/proj1", 4, 16.0, 2
    )  # fmt: skip
    assert len(host.nfs.facts()["mounts"]) == 10  # type: ignore[arg-type]


def test_a_mount_made_anew_starts_anew(tmp_path: Path) -> None:
    host = Host(tmp_path, HOME)
    host.rows(0)
    young = HOME_LATER.replace("age:\t5557", "age:\t1")
    assert host.rows(1, young) == []
    assert host.nfs.facts()["restarts"] == {"/home": 1}
    again = moved(young, READ="38931 38941 2 11520616 4424245700 1050 825328 870433")
    assert host.by_class(2, again.replace("age:\t1", "age:\t2"))["read"]["ops"] == 10


def test_a_counter_that_went_back_gives_no_row(tmp_path: Path) -> None:
    host = Host(tmp_path, HOME_LATER)
    host.rows(0)
    cleared = sent(HOME.replace("age:\t5547", "age:\t5558"), 653671, 653671)
    assert host.rows(1, cleared) == []
    assert host.nfs.facts()["restarts"] == {"/home": 2}  # read and meta


def test_a_mount_that_comes_later_is_found_at_once(tmp_path: Path) -> None:
    idle = sent(HOME, 653671, 653671)
    host = Host(tmp_path, idle)
    host.rows(0)
    more = idle + sample("mountstats_procfs.txt").split("ext4\n")[1]
    assert host.rows(1, more) == []
    later = more.replace("READ: 1298 1298", "READ: 1299 1299")
    (row,) = host.rows(2, later)
    assert (row["mount"], row["ops"]) == ("/mnt/nfs/test", 1)
    # unmounted and mounted again: a first reading
    assert host.rows(3, idle) == []
    assert host.rows(4, later.replace("READ: 1299 1299", "READ: 1399 1399")) == []


def test_without_a_bytes_line_the_rpc_bytes_are_taken_and_that_is_said(tmp_path: Path) -> None:
    old = re.sub(r"\tbytes:.*\n", "", HOME)
    host = Host(tmp_path, old)
    host.rows(0)
    row = host.by_class(1, re.sub(r"\tbytes:.*\n", "", HOME_LATER))["read"]
    assert row["bytes"] == 10_000_000
    (mount,) = host.nfs.facts()["mounts"]  # type: ignore[misc]
    assert "headers included" in mount["bytes_are"]


def test_a_reading_that_fails_is_covered_by_the_next_interval(tmp_path: Path) -> None:
    host = Host(tmp_path, HOME)
    host.rows(0)
    path = tmp_path / "proc/self/mountstats"
    host.nfs._source.close()
    path.rename(path.with_suffix(".away"))
    assert host.rows(1) == []
    path.with_suffix(".away").rename(path)
    assert host.by_class(3, HOME_LATER)["read"]["interval_ns"] == 3_000_000_000


def test_facts_name_mounts_servers_and_what_was_sent_again(tmp_path: Path) -> None:
    write_tree(tmp_path, {"proc/net/rpc/nfs": "net 0 0 0 0\nrpc 1000 5 0\n"})
    host = Host(tmp_path, HOME)
    host.rows(0)
    write_tree(tmp_path, {"proc/net/rpc/nfs": "net 0 0 0 0\nrpc 1900 12 0\n"})
    host.rows(
        31, HOME_LATER.replace("653672 653671 0 2524136 0 31", "653772 653771 0 2524136 250 31")
    )
    facts: dict[str, Any] = host.nfs.facts()
    assert facts["shared_by"] == "node"
    assert facts["rpc_since_start"] == {"calls": 900, "retrans": 7}
    assert facts["mounts"] == [
        {
            "mount": "/home",
            "also_mounted_at": [],
            "device": "nfs-d.example.org:/home",
            "version": "4.2",
            "rpc_iostats": "1.0",
            "connections": 1,
            "bytes_are": "file contents over the wire",
            "pnfs": "not configured",
            "times_below_zero": ["ACCESS"],
        }
    ]
    assert facts["servers"] == [
        {
            "server": "nfs-d.example.org",
            "mounts": ["/home"],
            "connections": 1,
            "protocol": "tcp",
            "most_slots_used": 31,
            "mean_backlog": 2.5,
        }
    ]


def test_no_nfs_mount_is_absent_and_loads_no_parser(tmp_path: Path) -> None:
    host = Host(tmp_path, sample("nonfsmounts.txt"))
    assert (host.availability.state, host.availability.reason) == ("absent", "no NFS mount here")
    program = (
        "import sys; from pathlib import Path; from tests.collectors.fake_host import context;"
        "from slurm_io.collectors.nfs import Nfs; n = Nfs();"
        f"n.open(context(Path({str(tmp_path)!r})));"
        "print([m for m in sys.modules if m.startswith('slurm_io.filesystems.nfs')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True, capture_output=True, text=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.stdout.strip() == "[]"
    # opened again later, as the sampler does
    host.write(HOME)
    assert host.nfs.open(context(tmp_path)).state == "on"


def test_mountstats_that_cannot_be_read_is_off_with_the_reason(tmp_path: Path) -> None:
    write_tree(tmp_path, {"proc/self/mountinfo": mountinfo_of(HOME)})
    availability = Nfs().open(context(tmp_path))
    assert availability.state == "off" and "mountstats cannot be read" in availability.reason


def test_names_that_are_no_text_reach_rows_as_text(tmp_path: Path) -> None:
    host = Host(tmp_path, HOME)
    for name in ("mountstats", "mountinfo"):
        path = tmp_path / "proc/self" / name
        path.write_bytes(path.read_bytes().replace(b" /home ", b" /ho\xffme "))
    assert host.nfs.open(context(tmp_path)).state == "on"
    host.nfs.collect(tick(0))
    path = tmp_path / "proc/self/mountstats"
    path.write_bytes(HOME_LATER.encode().replace(b" /home ", b" /ho\xffme "))
    assert {row["mount"] for row in rows_at(host.nfs, 1)} == {"/ho\ufffdme"}


def test_a_real_mount_over_loopback(tmp_path: Path) -> None:
    if "nfs" not in Path("/proc/filesystems").read_text().split():
        pytest.skip("this kernel has no NFS client (nfs is not in /proc/filesystems)")
    points = re.findall(r"mounted on (\S+) with fstype nfs4? statvers",
                        Path("/proc/self/mountstats").read_text())  # fmt: skip
    if not points:
        pytest.skip("no NFS mount on this machine: mount one to run this test")
    nfs = Nfs()
    real = context(tmp_path)
    assert nfs.open(type(real)(**{**vars(real), "proc_root": Path("/proc")})).state == "on"
    nfs.collect(tick(0))
    Path(points[0]).stat()
    list(Path(points[0]).iterdir())
    assert {row["mount"] for row in rows_at(nfs, 1)} <= set(points)
    nfs.close()
