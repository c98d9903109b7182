"""The Lustre collector on clients of several versions whose counters move on."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from slurm_io.filesystems.lustre import client as client_module
from slurm_io.filesystems.lustre.names import Instance
from tests.collectors.lustre_host import (
    HEX,
    OTHER_HEX,
    LustreHost,
    Version,
    import_text,
    lines,
    osc,
    osc_stats,
    rpc_stats,
)

FIXTURES = Path(__file__).parents[1] / "fixtures" / "lustre_client"
READ, META = ("/lustre", "osc+mdc", "read"), ("/lustre", "osc+mdc", "meta")
APP_READ, APP_META = ("/lustre", "llite", "read"), ("/lustre", "llite", "meta")


@contextmanager
def nobody() -> Iterator[None]:
    """As a user without privilege, when the tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def host(root: Path, version: Version = "2.15", osts: int = 2) -> LustreHost:
    """One mount at /lustre, opened and read once."""
    one = LustreHost(root, version, osts)
    one.mount()
    assert one.open().state == "on"
    assert one.rows(0) == {}
    return one


@pytest.mark.parametrize("version", ["2.10", "2.15", "2.17"])
def test_both_sides_of_one_mount_wherever_a_version_has_its_files(
    tmp_path: Path, version: Version
) -> None:
    one = host(tmp_path, version)
    one.llite({"read_bytes": "100 bytes 1 9 8388608 1", "read": "100 usecs 1 9 50000 1",
               "open": "4 usecs 1 9 2000 1", "inode_permission": "99 usecs 1 9 99 1"})  # fmt: skip
    one.ost(0, osc_stats(reads=6, mib=6, us=6000))
    one.ost(1, osc_stats(reads=4, mib=4, us=14000, pings=1))
    one.mdt(osc_stats(others=4, pings=2))
    rows = one.rows(1)
    assert set(rows) == {APP_READ, APP_META, READ, META}
    app, wire = rows[APP_READ], rows[READ]
    assert (app["fstype"], app["ops"], app["bytes"], app["exe_ms"]) == (
        "lustre", 100, 8388608, 0.5
    )  # fmt: skip
    assert (app["rtt_ms"], app["queue_ms"], app["inflight"], app["errors"]) == (None,) * 4
    assert (rows[APP_META]["ops"], rows[APP_META]["bytes"], rows[APP_META]["exe_ms"]) == (
        4, None, 0.5
    )  # fmt: skip
    assert (wire["ops"], wire["bytes"], wire["rtt_ms"]) == (10, 10 << 20, 2.0)
    assert (wire["exe_ms"], wire["inflight"], wire["interval_ns"]) == (None, 0, 1_000_000_000)
    assert (rows[META]["ops"], rows[META]["bytes"], rows[META]["rtt_ms"]) == (4, None, 0.05)
    # and nothing when nothing moves
    assert one.rows(2) == {}


def test_real_files_of_2_10_in_their_places(tmp_path: Path) -> None:
    one = host(tmp_path, "2.10", osts=1)
    for name, sample in (
        (f"llite/lustrefs-{HEX}/stats", "llite_stats_2.10_procfs.txt"),
        (f"osc/{osc(0)}/stats", "osc_stats_2.10.txt"),
        (f"osc/{osc(0)}/import", "osc_import_2.10.yaml"),
        (f"osc/{osc(0)}/rpc_stats", "osc_rpc_stats_2.10.txt"),
        (f"mdc/lustrefs-MDT0000-mdc-{HEX}/stats", "mdc_stats_2.10.txt"),
    ):
        one.file(name, (FIXTURES / sample).read_text())
    rows = one.rows(1)
    write = rows["/lustre", "osc+mdc", "write"]
    assert (write["ops"], write["bytes"], write["inflight"]) == (18210286, 65298098221056, 6)
    assert write["rtt_ms"] == pytest.approx(110277857.878 / 18210286)
    app = rows["/lustre", "llite", "write"]
    assert (app["ops"], app["bytes"], app["exe_ms"]) == (89467810, 93813797294080, None)
    assert rows[META]["ops"] == 139 + 233 and READ not in rows
    assert facts(one)["mounts"][0]["llite_counts_times"] is False


def test_pings_and_lock_cancels_are_no_work(tmp_path: Path) -> None:
    one = host(tmp_path)
    one.mdt(osc_stats(pings=7))
    one.ost(0, osc_stats(pings=3))
    assert one.rows(1) == {}


def test_a_counter_that_was_not_there_before_was_zero(tmp_path: Path) -> None:
    one = host(tmp_path)
    one.llite({"read_bytes": "2 bytes 1 9 20 1", "read": "2 usecs 1 9 3000 1"})
    assert one.rows(1)[APP_READ]["exe_ms"] == 1.5


def test_a_hung_ost_has_a_row_that_says_what_waits(tmp_path: Path) -> None:
    one = host(tmp_path)
    one.ost(0, osc_stats(reads=5, mib=5, us=5000), rpcs=rpc_stats(reading=2))
    one.ost(1, rpcs=rpc_stats(reading=3, writing=1))
    assert one.rows(1)[READ]["inflight"] == 5
    for second in (2, 3):
        rows = one.rows(second)
        assert set(rows) == {READ, ("/lustre", "osc+mdc", "write")}
        assert (rows[READ]["ops"], rows[READ]["bytes"], rows[READ]["inflight"]) == (0, 0, 5)
        assert rows[READ]["rtt_ms"] is None
    one.ost(0, rpcs=rpc_stats())
    one.ost(1, rpcs=rpc_stats())
    assert one.rows(4) == {}


def test_a_hung_mdt_has_a_row_of_class_meta(tmp_path: Path) -> None:
    one = host(tmp_path)
    one.mdt(state=import_text(inflight=4))
    row = one.rows(1)[META]
    assert (row["ops"], row["inflight"], row["rtt_ms"]) == (0, 4, None)


def test_data_on_the_mdt_is_told_from_metadata_in_flight(tmp_path: Path) -> None:
    one = LustreHost(tmp_path)
    one.mount()
    mdc = f"mdc/lustrefs-MDT0000-mdc-{HEX}"
    one.file(f"{mdc}/rpc_stats", "modify_RPCs_in_flight:  1\n\n" + rpc_stats(reading=3))
    one.mdt(state=import_text(inflight=5))
    one.open()
    assert one.rows(0) == {}
    rows = one.rows(1)
    assert (rows[READ]["inflight"], rows[META]["inflight"]) == (3, 2)


def test_an_inflight_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    one = LustreHost(tmp_path)
    one.mount()
    for number in range(2):
        (one.root / f"proc/fs/lustre/osc/{osc(number)}/rpc_stats").unlink()
    availability = one.open()
    assert availability.state == "partial" and "rpc_stats" in availability.reason
    one.rows(0)
    one.ost(0, osc_stats(reads=1, mib=1, us=10))
    assert one.rows(1)[READ]["inflight"] is None


def test_many_osts_are_read_in_turn_and_a_row_covers_the_pass(tmp_path: Path) -> None:
    one = LustreHost(tmp_path, osts=39)  # and one MDT
    one.mount()
    assert one.open().state == "on"
    assert [one.rows(second) for second in range(3)] == [{}, {}, {}]
    for number in range(39):
        one.ost(number, osc_stats(reads=number, mib=number, us=1000 * number))
    assert [one.rows(second) for second in (3, 4)] == [{}, {}]
    row = one.rows(5)[READ]
    assert (row["ops"], row["bytes"], row["interval_ns"]) == (741, 741 << 20, 3_000_000_000)
    assert row["rtt_ms"] == 1.0
    assert [one.rows(second) for second in (6, 7, 8)] == [{}, {}, {}]


def test_hundreds_of_osts_keep_no_descriptor_each(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    one = LustreHost(tmp_path, osts=100)
    one.mount()
    one.open()
    for second in range(8):
        one.rows(second)
    assert len(list(Path("/proc/self/fd").iterdir())) - before < 10
    one.lustre.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_target_whose_counters_went_back_is_left_out_for_one_pass(tmp_path: Path) -> None:
    one = host(tmp_path)
    one.ost(0, osc_stats(reads=50, mib=50, us=1000))
    one.ost(1, osc_stats(reads=10, mib=10, us=1000))
    one.rows(1)
    one.ost(0, osc_stats(reads=7, mib=7, us=10))
    one.ost(1, osc_stats(reads=11, mib=11, us=2000))
    assert one.rows(2)[READ]["ops"] == 1
    one.ost(0, osc_stats(reads=9, mib=9, us=30))
    assert one.rows(3)[READ]["ops"] == 2
    (mount,) = facts(one)["mounts"]
    assert mount["target_restarts"] == 1


def test_an_rpc_that_ends_while_a_file_is_written_is_no_restart(tmp_path: Path) -> None:
    one = host(tmp_path)
    one.ost(0, osc_stats(reads=10, us=1000, others=5))
    one.rows(1)
    # the wait line was written before the read ended, the read's line after it
    torn = osc_stats(reads=11, us=1100, others=5).replace("16 samples [usec]", "15 samples [usec]")
    one.ost(0, torn)
    rows = one.rows(2)
    assert rows[READ]["ops"] == 1 and META not in rows
    one.ost(0, osc_stats(reads=12, us=1200, others=6))
    assert one.rows(3)[META]["ops"] == 1
    assert facts(one)["mounts"][0]["target_restarts"] == 0


def test_cleared_application_counters_give_no_row_and_are_counted(tmp_path: Path) -> None:
    one = host(tmp_path)
    one.llite({"read_bytes": "9 bytes 1 9 900 1"})
    one.rows(1)
    one.llite({"read_bytes": "1 bytes 1 9 100 1"})
    assert one.rows(2) == {}
    assert facts(one)["restarts"] == {"/lustre": 1}


def test_a_file_that_fails_for_a_while_starts_anew(tmp_path: Path) -> None:
    one = host(tmp_path)
    path = one.file(f"llite/lustrefs-{HEX}/stats", lines({"read_bytes": "5 bytes 1 9 50 1"}))
    one.rows(1)
    one.lustre._client.views[0].llite.close()  # type: ignore[union-attr]
    path.rename(path.with_suffix(".away"))
    assert one.rows(2) == {}
    path.with_suffix(".away").rename(path)
    one.llite({"read_bytes": "9 bytes 1 9 90 1"})  # of two seconds: no interval of ours
    assert one.rows(3) == {}
    one.llite({"read_bytes": "10 bytes 1 9 100 1"})
    assert one.rows(4)[APP_READ]["ops"] == 1


def facts(one: LustreHost) -> dict[str, Any]:
    return dict(one.lustre.facts())


def test_outages_come_with_the_times_of_the_kernels_own_history(tmp_path: Path) -> None:
    one = LustreHost(tmp_path)
    one.mount()
    start = 1_700_000_005
    history = f"state_history:\n - [ {start - 900}, DISCONN ]\n - [ {start - 800}, FULL ]\n"
    one.file(f"osc/{osc(1)}/state", f"current_state: FULL\n{history}")
    one.open()
    one.rows(0)
    assert facts(one)["outages"] == []  # that was before
    one.ost(1, state=import_text("DISCONN"))
    path = f"osc/{osc(1)}/state"
    one.file(path, f"current_state: DISCONN\n{history} - [ {start + 1}, DISCONN ]\n")
    one.rows(2)
    (outage,) = facts(one)["outages"]
    assert outage == {"target": "lustrefs-OST0001", "state": "DISCONN", "from_ts_s": start + 1,
                      "until_ts_s": None}  # fmt: skip
    one.ost(1, state=import_text("FULL", attempts=2))
    one.file(path, f"current_state: FULL\n{history} - [ {start + 1}, DISCONN ]\n"
                   f" - [ {start + 30}, EVICTED ]\n - [ {start + 41}, FULL ]\n")  # fmt: skip
    one.rows(43)
    assert facts(one)["outages"] == [
        {"target": "lustrefs-OST0001", "state": "EVICTED", "from_ts_s": start + 1,
         "until_ts_s": start + 41}
    ]  # fmt: skip


def test_an_outage_too_short_to_be_looked_at_is_in_the_history(tmp_path: Path) -> None:
    one = LustreHost(tmp_path)
    one.mount()
    start = 1_700_000_005
    one.file(f"mdc/lustrefs-MDT0000-mdc-{HEX}/state", "current_state: FULL\n")
    one.open()
    one.rows(0)
    one.mdt(state=import_text("FULL", attempts=3))
    one.file(
        f"mdc/lustrefs-MDT0000-mdc-{HEX}/state",
        f"state_history:\n - [ {start + 2}, DISCONN ]\n - [ {start + 2}, FULL ]\n",
    )
    one.rows(5)
    (outage,) = facts(one)["outages"]
    assert (outage["target"], outage["from_ts_s"]) == ("lustrefs-MDT0000", start + 2)


def test_without_a_history_outages_have_the_times_at_which_they_were_seen(tmp_path: Path) -> None:
    one = host(tmp_path)
    for second, state in ((2, "FULL"), (3, "DISCONN"), (4, "CONNECTING"), (6, "FULL"), (7, "IDLE")):
        one.ost(0, state=import_text(state))
        one.rows(second)
    (outage,) = facts(one)["outages"]
    assert (outage["state"], outage["from_ts_s"], outage["until_ts_s"]) == (
        "DISCONN", 1_700_000_008.0, 1_700_000_011.0
    )  # fmt: skip


def test_bind_mounts_share_one_set_of_rows(tmp_path: Path) -> None:
    one = LustreHost(tmp_path)
    one.mount()
    one.mounts.append(("/home/data", "lustrefs"))
    one.write_mountinfo()
    assert one.open().state == "on"
    one.rows(0)
    one.llite({"open": "3 usecs 1 9 3 1"})
    assert set(one.rows(1)) == {APP_META}
    (mount,) = facts(one)["mounts"]
    assert (mount["mount"], mount["also_mounted_at"]) == ("/lustre", ["/home/data"])


def test_two_file_systems_are_told_by_name(tmp_path: Path) -> None:
    one = LustreHost(tmp_path)
    one.mount()
    one.mount("/scratch", "scratch", OTHER_HEX)
    one.open()
    one.rows(0)
    one.llite({"open": "3 usecs 1 9 3 1"}, "scratch", OTHER_HEX)
    assert set(one.rows(1)) == {("/scratch", "llite", "meta")}


def test_two_file_systems_at_one_point_are_not_taken_for_one(tmp_path: Path) -> None:
    one = LustreHost(tmp_path)
    one.mount()
    one.mount("/lustre", "scratch", OTHER_HEX)
    one.open()
    one.rows(0)
    one.llite({"open": "3 usecs 1 9 3 1"})
    one.llite({"open": "4 usecs 1 9 3 1"}, "scratch", OTHER_HEX)
    assert {mount: row["ops"] for (mount, _, _), row in one.rows(1).items()} == {
        "/lustre": 3,
        f"scratch-{OTHER_HEX}": 4,
    }


def asked(one: LustreHost) -> None:
    """Wait until the mounts have said which instance they are."""
    client = one.lustre._client
    deadline_s = time.monotonic() + 20
    while client is not None and client.is_asking and time.monotonic() < deadline_s:
        time.sleep(0.01)
        client.poll()


def _name_in_a_file(point: str) -> str:
    return Path(f"{point}/clilmv").read_text()


def test_two_mounts_of_one_file_system_are_asked_which_is_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the ioctl needs a real Lustre; what answers in its place runs in the same child
    monkeypatch.setattr(client_module, "metadata_name_of", _name_in_a_file)
    one = LustreHost(tmp_path)
    for point, digits in (("a", HEX), ("b", OTHER_HEX)):
        folder = tmp_path / point
        folder.mkdir()
        (folder / "clilmv").write_text(f"lustrefs-clilmv-{digits}")
        one.mount(str(folder), "lustrefs", digits)
    one.open()
    asked(one)
    one.rows(0)
    one.llite({"open": "3 usecs 1 9 3 1"}, "lustrefs", OTHER_HEX)
    assert set(one.rows(1)) == {(str(tmp_path / "b"), "llite", "meta")}
    assert facts(one)["mounts_not_told_apart"] is None


def test_mounts_that_do_not_say_which_they_are_have_rows_by_instance(tmp_path: Path) -> None:
    one = LustreHost(tmp_path)
    for name, digits in (("a", HEX), ("b", OTHER_HEX)):
        (tmp_path / name).mkdir()
        one.mount(str(tmp_path / name), "lustrefs", digits)
    one.open()
    assert one.rows(0) == {}
    asked(one)  # a real ioctl, which the file system below refuses
    one.rows(1)
    one.llite({"open": "3 usecs 1 9 3 1"}, "lustrefs", OTHER_HEX)
    assert set(one.rows(2)) == {(f"lustrefs-{OTHER_HEX}", "llite", "meta")}
    assert "did not say which instance it is" in facts(one)["mounts_not_told_apart"]
    assert [mount["mount"] for mount in facts(one)["mounts"]] == [None, None]


def test_an_instance_that_another_mount_namespace_holds_is_not_taken_for_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "metadata_name_of", _name_in_a_file)
    (tmp_path / "clilmv").write_text(f"lustrefs-clilmv-{HEX}")
    one = LustreHost(tmp_path)
    one.mount(str(tmp_path))
    one.llite({}, "lustrefs", OTHER_HEX)  # in a container, say
    one.open()
    asked(one)
    client = one.lustre._client
    assert client is not None
    assert {view.instance: view.mount_point for view in client.views} == {
        Instance("lustrefs", HEX): str(tmp_path),
        Instance("lustrefs", OTHER_HEX): None,
    }


def test_damaged_lines_are_left_out_and_counted(tmp_path: Path) -> None:
    one = host(tmp_path)
    one.ost(0, osc_stats(reads=3, mib=3, us=30) + "ost_write 7 sam")
    assert one.rows(1)[READ]["ops"] == 3
    assert facts(one)["mounts"][0]["unread_lines"] == 1


def test_a_dozen_mounts_with_one_reason_each_give_three_in_words(tmp_path: Path) -> None:
    one = LustreHost(tmp_path, osts=1)
    for number in range(12):
        digits = f"ffff88105db5{number:04x}"
        one.mount(f"/m{number}", f"fs{number}", digits)
        one.file(f"llite/fs{number}-{digits}/stats_track_gid", "100\n")
    reason = one.open().reason
    assert reason.count("stats_track_gid is 100") == 3 and "9 more of the kind" in reason


def test_counters_narrowed_to_one_process_are_not_used(tmp_path: Path) -> None:
    one = LustreHost(tmp_path)
    one.mount()
    one.file(f"llite/lustrefs-{HEX}/stats_track_pid", "4711\n")
    availability = one.open()
    assert availability.state == "partial"
    assert "counts one process or group only: stats_track_pid is 4711" in availability.reason
    one.rows(0)
    one.llite({"open": "3 usecs 1 9 3 1"})
    one.ost(0, osc_stats(reads=1, us=1))
    assert set(one.rows(1)) == {READ}


@contextmanager
def open_root() -> Iterator[Path]:
    """A folder that an unprivileged user can enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_without_root_rpc_stats_tell_counts_and_the_reason_says_what_to_do() -> None:
    with open_root() as root:
        one = LustreHost(root, "2.15")
        one.mount()
        (root / "sys/kernel/debug").chmod(0o700 if os.geteuid() == 0 else 0)
        with nobody():
            availability = one.open()
            assert availability.state == "partial"
            assert "only root can read: run the sampler as root" in availability.reason
            one.rows(0)
        for number in range(2):
            one.ost(number, rpcs=rpc_stats(reading=number, read_rpcs=10))
        with nobody():
            rows = one.rows(1)
        (row,) = rows.values()
        assert (row["source"], row["op_class"], row["ops"]) == ("rpc_stats", "read", 20)
        assert (row["bytes"], row["rtt_ms"], row["inflight"]) == (None, None, 1)
        one.lustre.close()
        (root / "sys/kernel/debug").chmod(0o755)


def test_without_root_on_2_17_nothing_can_be_read_and_that_is_said() -> None:
    with open_root() as root:
        one = LustreHost(root, "2.17")
        one.mount()
        (root / "sys/kernel/debug").chmod(0o700 if os.geteuid() == 0 else 0)
        with nobody():
            availability = one.open()
        assert availability.state == "off" and "run the sampler as root" in availability.reason
        one.lustre.close()
        (root / "sys/kernel/debug").chmod(0o755)


def test_a_container_that_shows_no_counters_is_off_with_the_reason(tmp_path: Path) -> None:
    one = LustreHost(tmp_path)
    one.mounts.append(("/lustre", "lustrefs"))
    one.write_mountinfo()
    availability = one.open()
    assert (
        availability.state == "off" and "no counters of Lustre are visible" in availability.reason
    )


def test_facts_hold_ratio_readahead_page_cache_and_limits(tmp_path: Path) -> None:
    one = LustreHost(tmp_path)
    one.mount()
    folder = f"llite/lustrefs-{HEX}"
    one.file(f"{folder}/max_cached_mb", (FIXTURES / "max_cached_mb.txt").read_text())
    one.file(f"{folder}/read_ahead_stats", lines({"hits": "10 pages", "misses": "5 pages"}))
    lnet = (FIXTURES / "lnet_stats_proc.txt").read_text()
    (tmp_path / "sys/kernel/debug/lnet").mkdir()
    (tmp_path / "sys/kernel/debug/lnet/stats").write_text(lnet)
    one.open()
    one.rows(0)
    one.llite(
        {
            "read_bytes": "4 bytes 1 9 4194304 1",
            "read": "4 usecs 1 9 9 1",
            "page_fault": "77 usecs 1 9 100 1",
        }
    )
    one.ost(0, osc_stats(reads=10, mib=10, us=1000))
    one.file(f"{folder}/read_ahead_stats", lines({"hits": "110 pages", "misses": "6 pages"}))
    (tmp_path / "sys/kernel/debug/lnet/stats").write_text(lnet.replace(" 729 ", " 731 "))
    one.rows(31)
    found = facts(one)
    assert found["shared_by"] == "node" and found["outages"] == []
    assert found["lnet_since_start"] == {
        "errors": 0, "send_count": 0, "recv_count": 0, "drop_count": 2
    }  # fmt: skip
    assert found["mounts"] == [
        {
            "mount": "/lustre",
            "also_mounted_at": [],
            "instance": f"lustrefs-{HEX}",
            "osts": 2,
            "mdts": 1,
            "wire_source": "osc+mdc",
            "not_seen": [],
            "llite_counts_times": True,
            "target_restarts": 0,
            "unread_lines": 0,
            "wire_bytes_per_byte_read": 2.5,
            "page_faults": 77,
            "page_mkwrites": 0,
            "read_ahead": {"hits": 100, "misses": 1},
            "max_cached_mb": 32064,
            "used_mb": 5116,
            "max_rpcs_in_flight": 8,
            "mean_rpcs_in_flight": 3.0,
        }
    ]


def test_a_mount_that_goes_takes_its_rows_along_and_a_new_one_is_found(tmp_path: Path) -> None:
    one = host(tmp_path)
    one.mounts = [("/scratch", "scratch")]
    one.mount("/scratch", "scratch", OTHER_HEX)
    one.rows(31)
    one.llite({"open": "3 usecs 1 9 3 1"})
    one.llite({"open": "4 usecs 1 9 3 1"}, "scratch", OTHER_HEX)
    assert set(one.rows(32)) == {("/scratch", "llite", "meta")}


def test_no_lustre_mount_is_absent_and_loads_no_parser(tmp_path: Path) -> None:
    one = LustreHost(tmp_path)
    one.write_mountinfo()
    availability = one.open()
    assert (availability.state, availability.reason) == ("absent", "no Lustre mount here")
    program = (
        "import sys; from pathlib import Path; from tests.collectors.fake_host import context;"
        "from slurm_io.collectors.lustre import Lustre; n = Lustre();"
        f"n.open(context(Path({str(tmp_path)!r})));"
        "print([m for m in sys.modules if m.startswith('slurm_io.filesystems.lustre')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=True, capture_output=True, text=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.stdout.strip() == "[]"


def test_a_server_that_mounts_nothing_and_its_devices_are_left_alone(tmp_path: Path) -> None:
    one = host(tmp_path)
    one.file("osc/lustrefs-OST0000-osc-MDT0000/stats", osc_stats(reads=500))
    one.lustre.close()
    one.open()
    assert facts(one)["mounts"][0]["osts"] == 2
