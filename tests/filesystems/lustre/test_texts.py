"""Tables, imports, job_stats, LNet and names: every value of every sample."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.filesystems.layout.osts import parse_lfs_df
from slurm_io.filesystems.lustre.histograms import Histograms, Table, parse_histograms
from slurm_io.filesystems.lustre.imports import (
    Glance,
    Outage,
    glance,
    outages,
    parse_import,
    parse_state_history,
)
from slurm_io.filesystems.lustre.job_stats import parse_io_latency, parse_job_stats
from slurm_io.filesystems.lustre.lnet import LnetStats, parse_lnet_stats, parse_lnetctl_stats
from slurm_io.filesystems.lustre.names import (
    Instance,
    fsname_of,
    parse_instance,
    parse_lmv,
    parse_target,
)
from slurm_io.filesystems.lustre.nested import at, number_at, parse_nested, text_at
from slurm_io.filesystems.lustre.params import split_params
from slurm_io.filesystems.lustre.stats import Times
from slurm_io.filesystems.mounts import parse_line

FIXTURES = Path(__file__).parents[2] / "fixtures" / "lustre_client"


def text(name: str) -> str:
    return (FIXTURES / name).read_text()


def tables(name: str) -> Histograms:
    return parse_histograms(text(name))


def column(table: Table | None, name: str) -> list[int]:
    assert table is not None
    place = table.columns.index(name)
    return [counts[place] for counts in table.rows.values()]


def test_osc_rpc_stats_of_2_10() -> None:
    found = tables("osc_rpc_stats_2.10.txt")
    assert found.times == Times(1510950459.787901292) and found.unread_lines == 0
    assert found.scalars == {
        "read RPCs in flight": 0,
        "write RPCs in flight": 6,
        "pending write pages": 1244,
        "pending read pages": 0,
    }
    assert [table.title for table in found.tables] == [
        "pages per rpc", "rpcs in flight", "offset"
    ]  # fmt: skip
    pages = found.table("pages per rpc")
    assert pages is not None and list(pages.rows) == [str(1 << power) for power in range(11)]
    assert column(pages, "write") == [
        1537, 1489, 2876, 5860, 11916, 24502, 51901, 117183, 458648, 1145365, 16389010
    ]  # fmt: skip
    assert (pages.total("read"), pages.total("write"), pages.total("modify")) == (0, 18210287, 0)
    flights = found.table("rpcs in flight")
    assert flights is not None and next(iter(flights.rows)) == "0"  # before 2.14
    assert column(flights, "write") == [
        0, 1053804, 3518152, 4520192, 3656921, 2350050, 1396192, 832325, 497409, 272560, 91419,
        18683, 2399, 174, 5, 2,
    ]  # fmt: skip
    offset = found.table("offset")
    assert offset is not None and list(offset.rows)[-1] == "134217728"
    assert column(offset, "write")[-4:] == [1598283, 2274739, 4270417, 8127518]
    assert sum(column(offset, "write")) == 18210287 and column(offset, "read") == [0] * 29


def test_osc_rpc_stats_of_the_manual() -> None:
    found = tables("osc_rpc_stats_manual_secs_usecs.txt")
    assert found.times.snapshot_s == 1372786692.389858 and found.unread_lines == 0
    assert found.scalars == {
        "read RPCs in flight": 0,
        "write RPCs in flight": 1,
        "dio read RPCs in flight": 0,
        "dio write RPCs in flight": 0,
        "pending write pages": 256,
        "pending read pages": 0,
    }
    assert column(found.table("pages per rpc"), "read") == [0] * 8 + [850]
    assert column(found.table("pages per rpc"), "write") == [0, 1, 0, 0, 0, 2, 2, 5, 18346]
    assert column(found.table("rpcs in flight"), "read") == [691, 48, 29, 17, 13, 12, 10, 30, 0]
    assert column(found.table("rpcs in flight"), "write") == [
        1740, 938, 1059, 1052, 920, 425, 389, 11373, 460
    ]  # fmt: skip
    assert column(found.table("offset"), "write") == [18347, 0, 0, 0, 0, 1, 1, 3, 4]


def test_tables_of_newer_versions_are_read_by_their_titles() -> None:
    found = tables("osc_rpc_stats_2.16.58_latency.txt")
    assert found.times == Times(1746901045.00430774, 1746899751.806873008, 1293.197434732)
    assert found.scalars["DIO RPCs in flight"] == 0 and found.unread_lines == 0
    (latency,) = found.tables
    assert latency.title == "RPC latency (us)"
    assert column(latency, "read") == [0] * 9 + [1, 1, 0, 4]
    assert column(latency, "write") == [0] * 10 + [1, 1, 2]
    assert found.table("pages per rpc") is None


def test_mdc_rpc_stats_is_one_sided() -> None:
    found = tables("mdc_rpc_stats_2.10.txt")
    assert found.scalars == {"modify_RPCs_in_flight": 0} and found.unread_lines == 0
    assert found.tables == (
        Table("rpcs in flight", ("modify",), {
            "0": (0,), "1": (90,), "2": (13,), "3": (12,), "4": (11,), "5": (9,), "6": (8,),
            "7": (53,),
        }),
    )  # fmt: skip


def test_mdc_of_later_versions_has_reads_and_writes_behind_and_may_print_double_percents() -> None:
    found = parse_histograms(
        "snapshot_time:         1.2 secs.nsecs\nmodify_RPCs_in_flight:  3\n\n\t\t\tmodify\n"
        "rpcs in flight        rpcs   %% cum %%\n0:\t\t  0   0   0\n\n"
        "read RPCs in flight:  4\nwrite RPCs in flight: 5\n\n\t\t\tread\t\t\twrite\n"
        "pages per rpc         rpcs   % cum % |       rpcs   % cum %\n"
        "1:\t\t   7   0   0   |   8   0   0\n"
    )
    assert found.scalars["read RPCs in flight"] == 4 and found.scalars["modify_RPCs_in_flight"] == 3
    pages = found.table("pages per rpc")
    assert pages is not None and pages.rows == {"1": (7, 8)}
    assert found.tables[0].columns == ("modify",) and found.unread_lines == 0


def test_osc_stats_has_no_colon() -> None:
    found = tables("osc_osc_stats.txt")
    assert found.times.snapshot_s == 1510950459.787841366
    assert found.scalars == {
        "lockless_write_bytes": 0,
        "lockless_read_bytes": 0,
        "lockless_truncate": 0,
    }
    assert found.tables == () and found.unread_lines == 0


def test_extents_stats() -> None:
    assert tables("extents_stats_disabled.txt").is_off
    found = tables("extents_stats_manual.txt")
    assert found.times.snapshot_s == 1213828728.348516
    (extents,) = found.tables
    assert (extents.title, extents.columns, extents.pid) == ("extents", ("read", "write"), None)
    assert extents.rows["16K - 32K"] == (0, 20) and list(extents.rows)[-1] == "1M - 2M"
    assert column(extents, "write") == [2, 0, 0, 20, 0, 51, 0, 0, 0, 11]
    assert found.unread_lines == 0 and not found.is_off


def test_extents_stats_by_process() -> None:
    found = tables("extents_stats_per_process_manual.txt")
    assert found.unread_lines == 0
    assert [(table.pid, column(table, "write")) for table in found.tables] == [
        (11488, [0] * 9 + [10]),
        (11491, [0, 0, 0, 20]),
        (11424, [0] * 5 + [16]),
        (11426, [1]),
        (11429, [1]),
    ]


def test_server_tables() -> None:
    params = split_params(text("lctl_server_params_2.15.txt"))
    found = parse_histograms(params["osd-ldiskfs.ai400-OST0000.brw_stats"])
    assert {table.title: table.total("write") for table in found.tables} == {
        "pages per bulk r/w": 25001,
        "discontiguous pages": 25001,
        "discontiguous blocks": 25001,
        "disk fragmented I/Os": 25001,
        "disk I/Os in flight": 50004,
        "I/O time (1/1000s)": 25001,
        "disk I/O size": 50004,
    }
    pages = found.table("pages per bulk r/w")
    assert pages is not None and pages.rows["1K"] == (0, 25000)
    idle = parse_histograms(params["osd-ldiskfs.ai400-OST0001.brw_stats"])
    assert len(idle.tables) == 7 and all(table.rows == {} for table in idle.tables)


def test_import_in_full() -> None:
    found = parse_import(text("osc_import_2.10.yaml"))
    assert found.name == "lustrefs-OST0000-osc-ffff88105db50000"
    assert (found.target, found.state) == ("lustrefs-OST0000_UUID", "FULL")
    assert len(found.connect_flags) == 22 and found.connect_flags[-1] == "bulk_mbits"
    assert found.import_flags == ("replayable", "pingable", "connect_tried")
    assert found.failover_nids == ("192.0.2.21@o2ib", "192.0.2.22@o2ib")
    assert found.current_connection == "192.0.2.21@o2ib"
    assert (found.connection_attempts, found.generation) == (1, 1)
    assert (found.inflight, found.unregistering, found.timeouts) == (8, 0, 0)
    assert found.avg_waittime_us == 6054
    assert (found.read_bytes_per_rpc, found.read_usec_per_rpc) == (None, None)
    assert (found.write_bytes_per_rpc, found.write_usec_per_rpc) == (3585782, 6055)
    data = at(parse_nested(text("osc_import_2.10.yaml")), "import", "connect_data")
    assert text_at(data, "target_version") == "2.10.1.0" and number_at(data, "instance") == 3


def test_import_of_later_versions_quotes_nids_and_counts_them() -> None:
    later = text("osc_import_2.10.yaml").replace(
        "failover_nids: [ 192.0.2.21@o2ib, 192.0.2.22@o2ib ]\n",
        'failover_nids: [ "192.0.2.21@o2ib", "192.0.2.22@o2ib" ]\n       nids_stats:\n'
        '          "192.0.2.21@o2ib": { connects: 1, replied: 1, uptodate: true, sec_ago: 9 }\n',
    ).replace("connection: 192.0.2.21@o2ib", 'connection: "192.0.2.21@o2ib"')  # fmt: skip
    found = parse_import(later)
    assert found.failover_nids == ("192.0.2.21@o2ib", "192.0.2.22@o2ib")
    assert found.current_connection == "192.0.2.21@o2ib"
    assert glance(later.encode()) == Glance("FULL", 1, 1, 8)
    node = at(parse_nested(later), "import", "connection", "nids_stats", "192.0.2.21@o2ib")
    assert node == {"connects": "1", "replied": "1", "uptodate": "true", "sec_ago": "9"}


def test_a_glance_says_the_same_as_the_whole() -> None:
    content = text("osc_import_2.10.yaml")
    whole = parse_import(content)
    assert glance(content.encode()) == Glance(
        whole.state, whole.connection_attempts, whole.generation, whole.inflight
    )
    assert glance(b"") == Glance(None, None, None, None)


STATES = """current_state: FULL
state_history:
 - [ 1700000000, CONNECTING ]
 - [ 1700000001, FULL ]
 - [ 1700000100, DISCONN ]
 - [ 1700000101, CONNECTING ]
 - [ 1700000130, EVICTED ]
 - [ 1700000131, RECOVER ]
 - [ 1700000140, FULL ]
 - [ 1700000300, CONNECTING ]
 - [ 1700000301, IDLE ]
 - [ 1700000400, NEW ]
 - [ 1700000400, CONNECTING ]
 - [ 1700000401, FULL ]
"""


def test_state_history_and_the_outages_in_it() -> None:
    history = parse_state_history(STATES)
    assert len(history) == 12 and history[2] == (1700000100, "DISCONN")
    # the first connection and an idle one that came back are none
    assert outages(history) == [Outage("EVICTED", 1700000100, 1700000140)]
    assert outages(history[:6]) == [Outage("EVICTED", 1700000100, None)]
    # the oldest form writes no blanks
    assert parse_state_history("state_history:\n - [1700000100, DISCONN]\n") == [
        (1700000100, "DISCONN")
    ]
    assert parse_state_history("") == [] and parse_state_history("state_history: x\n") == []


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(
    ["NEW", "CONNECTING", "FULL", "IDLE", "DISCONN", "EVICTED", "RECOVER", "REPLAY_LOCKS", "?"]
))))  # fmt: skip
def test_outages_end_no_earlier_than_they_begin(history: list[tuple[int, str]]) -> None:
    found = outages(history)
    assert all(one.until_s is None or one.until_s >= one.from_s for one in found)
    assert all(one.until_s is not None for one in found[:-1])


def test_job_stats_of_an_mdt() -> None:
    bash, myth = parse_job_stats(text("job_stats_mdt_manual.yaml"))
    assert (bash.job_id, bash.snapshot_time) == ("bash.0", "1352084992")
    assert (myth.job_id, myth.snapshot_time) == ("mythbackend.0", "1352084996")
    assert {name: one.samples for name, one in bash.counters.items() if one.samples} == {
        "open": 2,
        "close": 2,
        "getattr": 3,
    }
    assert {name: one.samples for name, one in myth.counters.items() if one.samples} == {
        "open": 72,
        "close": 73,
        "unlink": 22,
        "getattr": 778,
        "setattr": 22,
        "statfs": 19840,
        "sync": 33190,
    }
    assert len(bash.counters) == len(myth.counters) == 16
    assert {one.unit for one in myth.counters.values()} == {"reqs"}


def test_job_stats_of_five_osts() -> None:
    targets = split_params(text("job_stats_ost_manual.yaml"))
    assert list(targets) == [f"obdfilter.myth-OST000{number}.job_stats" for number in range(5)]
    found = {name.split("-")[1][:7]: parse_job_stats(value) for name, value in targets.items()}
    assert {target: [job.job_id for job in jobs] for target, jobs in found.items()} == {
        "OST0000": ["mythcommflag.0"],
        "OST0001": ["mythbackend.0"],
        "OST0002": [],
        "OST0003": [],
        "OST0004": ["mythfrontend.500", "mythbackend.500"],
    }
    read = found["OST0000"][0].counters["read"]
    assert read == (974, "bytes", 4096, 1048576, 91530035, None)
    assert found["OST0001"][0].counters["write"] == (1, "bytes", 96899, 96899, 96899, None)
    assert found["OST0001"][0].counters["punch"].samples == 1
    assert found["OST0004"][0].counters["read"] == (9, "bytes", 16384, 1048576, 4444160, None)
    assert found["OST0004"][1].counters["write"].sum == 56231
    assert parse_job_stats("") == [] and parse_job_stats("job_stats:") == []


def test_io_latency() -> None:
    assert parse_io_latency(text("osc_io_latency_stats_2.16.59.yaml")) == {
        ("read", "4K"): {256: 5, 512: 5},
        ("read", "64K"): {512: 10},
        ("read", "1024K"): {1024: 5, 2048: 4, 4096: 1},
        ("read", "4096K"): {4096: 9, 8192: 1},
        ("write", "4K"): {2048: 8, 4096: 1, 8192: 1},
        ("write", "64K"): {2048: 8, 4096: 2},
        ("write", "1024K"): {4096: 10},
        ("write", "4096K"): {8192: 9, 16384: 1},
    }


def test_page_cache() -> None:
    assert parse_nested(text("max_cached_mb.txt")) == {
        "users": "9",
        "max_cached_mb": "32064",
        "used_mb": "5116",
        "unused_mb": "26948",
        "reclaim_count": "0",
    }


def test_lnet() -> None:
    assert parse_lnet_stats(text("lnet_stats_proc.txt")) == LnetStats(
        0, 130, 0, 12477512, 12411426, 0, 729, 2816397845, 2383446579, 0, 161712
    )
    for damaged in ("", "1 2 3", "0 130 0 x 5 6 7 8 9 10 11", "9" * 5000 + " 2" * 10):
        assert parse_lnet_stats(damaged) is None
    found = parse_lnetctl_stats(text("lnetctl_stats.txt"))
    assert len(found) == 24
    assert {name: number for name, number in found.items() if number} == {
        "msgs_max": 39,
        "rst_alloc": 15,
        "send_count": 1110532,
        "recv_count": 1110512,
        "drop_count": 11,
        "send_length": 261865376,
        "recv_length": 254091008,
        "drop_length": 4832,
    }
    assert parse_lnetctl_stats("no") == {}


def test_lnetctl_net_show() -> None:
    nets = at(parse_nested(text("lnetctl_net_show.yaml")), "net")
    assert isinstance(nets, list) and [text_at(net, "net type") for net in nets] == ["lo", "tcp"]
    interfaces = [ni for net in nets for ni in (at(net, "local NI(s)") or [])]
    assert [text_at(ni, "nid") for ni in interfaces] == [
        "0@lo", "192.0.2.23@tcp", "192.0.2.24@tcp"
    ]  # fmt: skip
    assert [
        tuple(number_at(ni, "statistics", name) for name in ("send_count", "recv_count",
                                                             "drop_count"))
        for ni in interfaces
    ] == [(180076, 180072, 4), (464970, 464963, 4), (464886, 464877, 3)]  # fmt: skip
    second = interfaces[1]
    assert text_at(second, "status") == "up" and text_at(second, "interfaces", "0") == "mlxen0"
    assert [number_at(second, "received_stats", name) for name in
            ("put", "get", "reply", "ack", "hello")] == [340401, 63529, 61023, 10, 0]  # fmt: skip
    assert number_at(second, "health stats", "health value") == 1000
    assert number_at(second, "tunables", "credits") == 256
    assert number_at(second, "lnd tunables", "conns_per_peer") == 3
    assert text_at(second, "CPT") == "[0,1,2,3,4]"


@pytest.mark.parametrize(
    ("name", "osts"),
    [("lfs_df_manual.txt", {0: 0.59, 1: 0.59, 2: 0.57}), ("lfs_df_h_small.txt", {0: 0.0, 1: 0.0}),
     ("lfs_df_h_tfs1.txt", {5: 0.01, 6: 0.01})],
)  # fmt: skip
def test_lfs_df_names_the_osts_and_how_full_they_are(name: str, osts: dict[int, float]) -> None:
    found = parse_lfs_df(text(name))
    assert found is not None and found.used_share == osts and found.active == set(osts)


def test_names() -> None:
    assert parse_instance("lustrefs-ffff88105db50000") == Instance("lustrefs", "ffff88105db50000")
    assert parse_instance("a-b-ff47bce9ca35d800") == Instance("a-b", "ff47bce9ca35d800")
    assert parse_instance("lustrefs") is None and parse_instance("num_refs") is None
    ost = parse_target("lustrefs-OST000a-osc-ffff88105db50000")
    assert ost is not None and (ost.kind, ost.number, ost.short) == ("osc", 10, "lustrefs-OST000a")
    assert ost.instance.name == "lustrefs-ffff88105db50000"
    mdt = parse_target("lustrefs-MDT0001-mdc-ffff88105db50000")
    assert mdt is not None and (mdt.kind, mdt.number) == ("mdc", 1)
    # devices of servers, and of nobody
    for name in ("lustrefs-OST0000-osc-MDT0000", "lustrefs-MDT0001-osp-MDT0000",
                 "lustrefs-OST0000-mdc-ffff88105db50000", "num_refs"):  # fmt: skip
        assert parse_target(name) is None
    assert parse_lmv("lustre-clilmv-ffff938b7849d000") == Instance("lustre", "ffff938b7849d000")
    assert parse_lmv("") is None


@pytest.mark.parametrize(
    ("source", "fsname"),
    [("192.0.2.1@tcp:/lustrefs", "lustrefs"), ("a@o2ib:b@o2ib:/scratch/sub/folder", "scratch"),
     ("10.0.0.1@tcp,10.0.0.2@tcp:10.0.0.3@tcp:/fs-1", "fs-1"), ("none", None), ("mgs:/", None)],
)  # fmt: skip
def test_file_system_of_a_mount(source: str, fsname: str | None) -> None:
    mount = parse_line(f"9 1 0:5 / /mnt rw - lustre {source} rw")
    assert mount is not None and fsname_of(mount) == fsname


def test_nested_texts_of_odd_shapes() -> None:
    assert parse_nested("a:\n- 1\n- [ x, y ]\nb: 2\n") == {"a": ["1", ["x", "y"]], "b": "2"}
    assert parse_nested("- - - x: 1\n") == {}  # a list alone has no key
    assert parse_nested("a: { b: 1\nc: ]\nno colon\n") == {"a": "{ b: 1", "c": "]"}
    assert parse_nested("a:\n" * 3) == {"a": {}}
    deep = "".join(f"{' ' * depth}k{depth}:\n" for depth in range(500))
    assert isinstance(parse_nested(deep), dict)
    assert isinstance(parse_nested("- " * 5000 + "x: 1"), dict)
