"""``stats`` files of Lustre 2.5 to 2.16, every counter of every sample, and the views of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.filesystems.client_counters import ClientCounters
from slurm_io.filesystems.lustre.params import split_params
from slurm_io.filesystems.lustre.stats import Counter, Stats, Times, behind_times, parse_stats
from slurm_io.filesystems.lustre.views import application_view, wire_view

FIXTURES = Path(__file__).parents[2] / "fixtures" / "lustre_client"
US = 1_000


def stats(name: str) -> Stats:
    return parse_stats((FIXTURES / name).read_bytes())


def params(name: str) -> dict[str, str]:
    return split_params((FIXTURES / name).read_text())


def plain(found: Stats) -> dict[str, tuple[object, ...]]:
    """Counters as (samples, unit, min, max, sum, sum of squares), what is not printed left out."""
    return {
        name: tuple(value for value in counter if value is not None)
        for name, counter in found.counters.items()
    }


def test_llite_of_2_10() -> None:
    found = stats("llite_stats_2.10_procfs.txt")
    assert found.times == Times(1510950459.772792457) and found.unread_lines == 0
    assert plain(found) == {
        "read_bytes": (1, "bytes", 4194304, 4194304, 4194304),
        "write_bytes": (89467810, "bytes", 4096, 1048576, 93813797294080),
        "open": (136, "regs"),
        "close": (96, "regs"),
        "readdir": (12, "regs"),
        "truncate": (134, "regs"),
        "getattr": (41, "regs"),
        "alloc_inode": (2, "regs"),
        "getxattr": (85, "regs"),
        "getxattr_hits": (20, "regs"),
        "removexattr": (134, "regs"),
        "inode_permission": (398, "regs"),
    }


def test_llite_of_2_5_with_a_fraction_of_microseconds_that_is_not_padded() -> None:
    found = stats("llite_stats_old_usecs.txt")
    assert found.times.snapshot_s == 1420750934.057342 and found.unread_lines == 0
    assert plain(found) == {
        "read_bytes": (34, "bytes", 0, 59, 1003),
        "write_bytes": (5, "bytes", 2, 203338, 203517),
        "osc_read": (1, "bytes", 59, 59, 59),
        "osc_write": (5, "bytes", 2, 203338, 203517),
        "open": (33, "regs"),
        "close": (33, "regs"),
        "seek": (28, "regs"),
        "readdir": (39, "regs"),
        "truncate": (2, "regs"),
        "getattr": (148, "regs"),
        "create": (3, "regs"),
        "statfs": (10, "regs"),
        "alloc_inode": (9, "regs"),
        "getxattr": (5, "regs"),
        "inode_permission": (271, "regs"),
    }


def test_llite_of_2_14_between_other_parameters() -> None:
    found = params("lctl_llite_ldlm_2.14_exa.txt")
    assert {name: found[name] for name in list(found)[:4]} == {
        "memused": "35721854085",
        "memused_max": "41220347397",
        "lnet_memused": "22228358",
        "health_check": "healthy",
    }
    llite = parse_stats(found["llite.ai400x2-ff47bce9ca35d800.stats"].encode())
    assert llite.times.snapshot_s == 1710759783.271040288 and llite.unread_lines == 0
    assert plain(llite) == {
        "ioctl": (114, "reqs"),
        "open": (35955554, "usecs", 0, 172939, 3393651645, 8836730033307),
        "close": (35955554, "usecs", 63, 194037, 5402095148, 11956065309788),
        "readdir": (60, "usecs", 0, 2242, 34741, 52343869),
        "getattr": (35955647, "usecs", 0, 85505, 2317024138, 904252691326),
        "unlink": (17977752, "usecs", 107, 148413, 3846291010, 6948473454642),
        "mkdir": (17987059, "usecs", 104, 1306648, 23731812831, 644644512447919),
        "rmdir": (17987079, "usecs", 95, 1478009, 37000527306, 744761005599966),
        "mknod": (17977752, "usecs", 119, 193901, 4144162753, 7852936850197),
        "statfs": (17864, "usecs", 0, 88480, 10257950, 80137794724),
        "setxattr": (1, "usecs", 8760, 8760, 8760, 76737600),
        "inode_permission": (629305628, "usecs", 0, 147014, 196719589, 76130795547),
        "opencount": (35955576, "reqs", 1, 2, 40433335, 49388853),
        "openclosetime": (17977772, "usecs", 34302, 20804335332, 4185265858629453,
                          2084188699388296969),
    }  # fmt: skip
    callbacks = parse_stats(found["ldlm.services.ldlm_cbd.stats"].encode())
    assert plain(callbacks) == {
        "req_waittime": (41083956, "usecs", 1, 33890, 255153949, 6336801119),
        "req_qdepth": (41083956, "reqs", 0, 7, 429581, 432557),
        "req_active": (41083956, "reqs", 1, 14, 53101359, 86233965),
        "req_timeout": (41083956, "secs", 15, 15, 616259340, 9243890100),
        "reqbuf_avail": (87745428, "bufs", 0, 3, 80539671, 80656909),
        "ldlm_bl_callback": (41083956, "usecs", 1, 1623, 446351106, 6062478214),
    }


def test_osc_of_2_10_with_a_sum_of_squares_above_2_to_the_63() -> None:
    found = stats("osc_stats_2.10.txt")
    assert found.unread_lines == 0
    assert plain(found) == {
        "req_waittime": (18215581, "usec", 69, 1348857, 110282569237, 8342874290406023),
        "req_active": (18215582, "reqs", 1, 17, 83626277, 470089669),
        "write_bytes": (18210280, "bytes", 4096, 4194304, 65298098221056, 10009909738331963392),
        "ost_write": (18210286, "usec", 119, 1348857, 110277857878, 8341476394008222),
        "ost_connect": (1, "usec", 603, 603, 603, 363609),
        "ost_punch": (134, "usec", 69, 686367, 2942876, 1397147767330),
        "ost_statfs": (2, "usec", 117, 507, 624, 270738),
        "ldlm_cancel": (2, "usec", 371, 475, 846, 363266),
        "obd_ping": (5153, "usec", 141, 6497, 1765137, 747091377),
    }


def test_mdc_of_2_10() -> None:
    assert plain(stats("mdc_stats_2.10.txt")) == {
        "req_waittime": (7604, "usec", 90, 132365, 3103430, 34840946126),
        "req_active": (7604, "reqs", 1, 7, 8133, 11337),
        "mds_getattr": (1, "usec", 93, 93, 93, 8649),
        "mds_close": (11, "usec", 205, 3058, 12404, 26655802),
        "mds_readpage": (4, "usec", 702, 763, 2905, 2112111),
        "mds_connect": (1, "usec", 132365, 132365, 132365, 17520493225),
        "mds_get_root": (1, "usec", 90, 90, 90, 8100),
        "mds_statfs": (2, "usec", 271, 722, 993, 594725),
        "mds_hsm_state_set": (37, "usec", 156, 3490, 16820, 21011562),
        "ldlm_cancel": (28, "usec", 148, 1792, 9708, 5700402),
        "obd_ping": (7340, "usec", 126, 5509, 2554755, 1105424221),
        "seq_query": (1, "usec", 121458, 121458, 121458, 14752045764),
    }
    assert plain(stats("mdc_md_stats_2.10.txt")) == {
        "close": (11, "reqs"),
        "getattr": (1, "reqs"),
        "intent_lock": (329, "reqs"),
        "setattr": (134, "reqs"),
        "read_page": (6, "reqs"),
    }


def test_read_ahead_of_2_15_counts_its_snapshot_from_boot() -> None:
    found = stats("read_ahead_stats_2.15dev.txt")
    assert found.times == Times(4011.320890492, 0.0, 4011.320890492) and found.unread_lines == 0
    assert plain(found) == {
        "hits": (4, "pages"),
        "misses": (1, "pages"),
        "zero_size_window": (4, "pages"),
        "failed_to_reach_end": (1, "pages"),
        "failed_to_fast_read": (1, "pages"),
        "readahead_pages": (1, "pages", 255, 255, 255),
    }


def test_counters_that_are_zero_have_no_line_and_read_as_zero() -> None:
    found = stats("read_ahead_stats_empty.txt")
    assert found.counters == {} and found.times.snapshot_s == 1510950459.776359249
    assert found.samples("hits") == 0


def test_names_with_blanks_as_read_ahead_had_them_up_to_2_14() -> None:
    text = b"miss inside window    7 samples [pages]\nread but discarded    2 samples [pages]\n"
    assert plain(parse_stats(text)) == {
        "miss inside window": (7, "pages"),
        "read but discarded": (2, "pages"),
    }


def test_server_parameters_of_2_15() -> None:
    found = params("lctl_server_params_2.15.txt")
    assert len(found) == 86
    assert found["osd-ldiskfs.ai400-OST0001.kbytesavail"] == "3937811756"
    assert found["mdt.ai400-MDT0000.exports.0@lo.uuid"].splitlines()[-1].endswith("MDT0000_UUID")
    assert found["mdt.ai400-MDT0000.num_exports"] == "19"
    assert found["mdd.ai400x2-MDT0001.changelog_users"].startswith("current_index: 0")
    files = {
        name: parse_stats(text.encode())
        for name, text in found.items()
        if name.endswith((".stats", "md_stats"))
    }
    assert {name: len(one.counters) for name, one in files.items()} == {
        "obdfilter.ai400-OST0000.stats": 5,
        "obdfilter.ai400-OST0001.stats": 3,
        "ost.OSS.ost.stats": 13,
        "ost.OSS.ost_create.stats": 6,
        "ost.OSS.ost_io.stats": 8,
        "ost.OSS.ost_out.stats": 9,
        "ost.OSS.ost_seq.stats": 6,
        "mdt.ai400-MDT0000.md_stats": 6,
        "ldlm.services.ldlm_canceld.stats": 6,
        "ldlm.services.ldlm_cbd.stats": 6,
    }
    assert all(one.unread_lines == 0 for one in files.values())
    assert plain(files["ost.OSS.ost_io.stats"])["ost_read"] == (
        2442845, "usec", 234, 49945, 5185766973, 19501455670833
    )  # fmt: skip
    assert plain(files["obdfilter.ai400-OST0000.stats"])["write_bytes"] == (
        25001, "bytes", 98304, 4194304, 104857600000, 439803838556274688
    )  # fmt: skip
    assert files["mdt.ai400-MDT0000.md_stats"].times == Times(
        1688603042.554807135, 1688526476.886354714, 76565.668452421
    )
    assert files["ost.OSS.ost.stats"].counters["req_timeout"].time_ns == 2235 * 10**9


@pytest.mark.parametrize(
    ("unit", "ns"),
    [("usec", US), ("usecs", US), ("sec", 10**9), ("secs", 10**9), ("nsecs", 1), ("bytes", None),
     ("reqs", None), ("regs", None), ("pages", None), ("bufs", None), ("locks", None),
     ("furlongs", None), ("", None)],
)  # fmt: skip
def test_units(unit: str, ns: int | None) -> None:
    found = parse_stats(f"op 3 samples [{unit}] 1 2 5 9\n".encode()).counters["op"]
    assert found == Counter(3, unit, 1, 2, 5, 9)
    assert found.time_ns == (None if ns is None else 5 * ns)


@pytest.mark.parametrize(
    "line",
    ["op samples [usec]", "op 3 sample [usec]", "op x samples [usec]", "op 3 samples usec",
     "op -3 samples [usec]", "op 9223372036854775808 samples [usec]", "3 samples [usec]",
     "op 3 samples [usec] 1 2 x", "op " + "9" * 5000 + " samples [usec]", "disabled"],
)  # fmt: skip
def test_a_damaged_line_is_left_out_and_counted(line: str) -> None:
    found = parse_stats(f"{line}\nopen 4 samples [regs]\n".encode())
    assert list(found.counters) == ["open"] and found.unread_lines == 1


def test_a_sum_that_cannot_be_is_unknown_and_not_zero() -> None:
    found = parse_stats(b"a 1 samples [usec] 0 0 18446744073709551615\nb 1 samples [usec] 0 0 -5\n")
    assert [one.sum for one in found.counters.values()] == [None, None]


def test_of_a_line_that_comes_twice_the_first_counts() -> None:
    assert parse_stats(b"a 1 samples [regs]\na 2 samples [regs]\n").samples("a") == 1


def test_header_is_told_from_counters() -> None:
    one = b"snapshot_time 5.5 secs.nsecs\nstart_time 1.0 secs\nelapsed_time 4.5 x\nopen 4 samples"
    assert behind_times(one) == b"open 4 samples"
    assert behind_times(b"snapshot_time:  5.5") == b""
    assert parse_stats(b"snapshot_time x secs\nstart_time 1..2\n").times == Times()


def test_application_view_of_2_10_has_no_times() -> None:
    assert application_view(stats("llite_stats_2.10_procfs.txt")) == {
        "read": ClientCounters(ops=1, bytes=4194304),
        "write": ClientCounters(ops=89467810, bytes=93813797294080),
        # open close readdir truncate getattr getxattr removexattr
        "meta": ClientCounters(ops=136 + 96 + 12 + 134 + 41 + 85 + 134),
    }


def test_application_view_of_2_14_has_times_and_no_reads_yet() -> None:
    text = params("lctl_llite_ldlm_2.14_exa.txt")["llite.ai400x2-ff47bce9ca35d800.stats"]
    found = application_view(parse_stats(text.encode()))
    assert found["read"] == ClientCounters(ops=0, bytes=0, exe_ns=0)
    names = {"open", "close", "readdir", "getattr", "unlink", "mkdir", "rmdir", "mknod", "statfs",
             "setxattr"}  # fmt: skip
    wanted = {name: one for name, one in plain(parse_stats(text.encode())).items() if name in names}
    assert found["meta"] == ClientCounters(
        ops=sum(int(str(one[0])) for one in wanted.values()),
        exe_ns=sum(int(str(one[4])) for one in wanted.values()) * US,
    )


def test_reads_with_a_time_are_counted_by_the_line_that_has_it() -> None:
    text = b"read_bytes 9 samples [bytes] 1 2 900 5\nread 10 samples [usecs] 1 2 300 7\n"
    assert application_view(parse_stats(text))["read"] == ClientCounters(
        ops=10, bytes=900, exe_ns=300 * US
    )


def test_wire_view_of_an_osc() -> None:
    found = wire_view(stats("osc_stats_2.10.txt"))
    assert found["read"] == ClientCounters(ops=0, bytes=0, rtt_ns=0)
    assert found["write"] == ClientCounters(
        ops=18210286, bytes=65298098221056, rtt_ns=110277857878 * US
    )
    # punch 134, statfs 2 and three lock enqueues that have no line; 1273 us are theirs
    assert found["meta"] == ClientCounters(ops=139, rtt_ns=(2942876 + 624 + 1273) * US)


def test_wire_view_of_an_mdc_counts_enqueues_and_reints_and_no_pings() -> None:
    found = wire_view(stats("mdc_stats_2.10.txt"))
    named = 1 + 11 + 4 + 2 + 37
    own = 1 + 1 + 28 + 7340 + 1
    assert found["meta"].ops == 7604 - own == named + 178
    assert found["meta"].rtt_ns == (3103430 - 132365 - 90 - 9708 - 2554755 - 121458) * US


def test_data_on_the_mdt_is_read_through_the_mdc() -> None:
    text = (
        b"req_waittime 12 samples [usecs] 1 9 1000 1\nost_read 4 samples [usecs] 1 9 600 1\n"
        b"read_bytes 4 samples [bytes] 1 2 16384 1\nobd_ping 3 samples [usecs] 1 9 100 1\n"
    )
    found = wire_view(parse_stats(text))
    assert found["read"] == ClientCounters(ops=4, bytes=16384, rtt_ns=600 * US)
    assert found["meta"] == ClientCounters(ops=5, rtt_ns=300 * US)


def test_what_is_left_for_meta_is_never_below_zero() -> None:
    text = b"req_waittime 1 samples [usec] 1 9 10 1\nost_read 4 samples [usec] 1 9 600 1\n"
    assert wire_view(parse_stats(text))["meta"] == ClientCounters(ops=0, rtt_ns=0)
    assert wire_view(parse_stats(b""))["meta"] == ClientCounters(ops=0, rtt_ns=0)


NAMES = st.from_regex(r"[a-z][a-z_]{0,20}", fullmatch=True).filter(lambda name: name != "samples")
NUMBERS = st.integers(0, 2**63 - 1)


@given(st.dictionaries(NAMES, st.tuples(NUMBERS, st.lists(NUMBERS, max_size=4))))
def test_what_is_printed_is_what_is_read(counters: dict[str, tuple[int, list[int]]]) -> None:
    lines = [
        f"{name:<25} {samples} samples [usecs]{''.join(f' {number}' for number in numbers)}"
        for name, (samples, numbers) in counters.items()
    ]
    found = parse_stats("\n".join(lines).encode())
    assert found.unread_lines == 0
    assert plain(found) == {
        name: (samples, "usecs", *numbers) for name, (samples, numbers) in counters.items()
    }
