"""Mountstats of real clients: every block, its counters, and what must not be believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurm_io.filesystems.client_counters import ClientCounters
from slurm_io.filesystems.nfs.mountstats import (
    Head,
    NfsMount,
    Payload,
    parse_mount,
    parse_mountstats,
    split_mounts,
)
from slurm_io.filesystems.nfs.operations import Operation, class_of, counters, parse_operation
from slurm_io.filesystems.nfs.rpc_totals import RpcTotals, parse_rpc_totals
from slurm_io.filesystems.nfs.servers import host_of, server_of, superblocks
from slurm_io.filesystems.nfs.transports import Transport, parse_transport

FIXTURES = Path(__file__).parents[2] / "fixtures" / "nfs"
MS = 1_000_000

# Columns of all operation lines of a mount added up with awk: mount point, lines, ops, ntrans,
# timeouts, bytes sent, bytes received, rtt, exe, errors, connections, age, RPC iostats version.
SUMS: dict[str, list[tuple[object, ...]]] = {
    "mountstats-4.18.0-105.el8.rpc-v1.1.txt": [
        ("/mnt/nfsv4.2", 61, 42, 44, 0, 2104504, 5272, 138, 2742, 299, 1, 92, "1.1"),
        ("/mnt/nfsv4.1", 61, 42, 44, 0, 2104488, 5232, 164, 2506, 70, 1, 90, "1.1"),
        ("/mnt/nfsv4.0", 61, 46, 48, 0, 2104520, 4744, 215, 1515, 4, 1, 88, "1.1"),
        ("/mnt/nfsv3", 22, 42, 44, 0, 2102536, 5032, 108, 217, 281, 1, 88, "1.1"),
    ],
    "mountstats-4.18.0-80.el8-rpc-v1.0.txt": [
        ("/mnt/nfsv4.2", 61, 23, 24, 0, 1052720, 5220, 59, 1228, None, 1, 57, "1.0"),
        ("/mnt/nfsv4.1", 61, 23, 24, 0, 1052712, 6740, 68, 1237, None, 1, 54, "1.0"),
        ("/mnt/nfsv4.0", 61, 24, 25, 0, 1052500, 3128, 37, 625, None, 1, 53, "1.0"),
        ("/mnt/nfsv3", 22, 22, 23, 0, 1051408, 3376, 82, 154, None, 1, 53, "1.0"),
    ],
    "mountstats-el8.7-rdma.txt": [
        ("/storage/prod", 22, 25, 25, 0, 2428, 8748, 3, 59, 1, 8, 1166720, "1.1"),
        ("/storage/test", 22, 3, 3, 0, 224, 352, 0, 12, 0, 8, 1166720, "1.1"),
        ("/storage/proj1", 22, 76, 76, 0, 7736, 2565784, 19, 75, 5, 8, 1166720, "1.1"),
        ("/storage/group", 22, 40005576, 40005576, 0, 216983583580, 1736148984868, 76950642,
         1274271718, 90272, 8, 1166720, "1.1"),
        ("/storage/home", 22, 2507417, 2507417, 0, 2676406960, 14311135132, 1194180, 1457127,
         61220, 8, 1166720, "1.1"),
        ("/storage/proj1", 22, 1744700, 1744700, 0, 187847576, 3328197472, 394606, 505577, 26328,
         8, 1166720, "1.1"),
        ("/storage/work", 22, 1847242, 1847242, 0, 14939686860, 23436873840, 3376313, 6956197,
         24641, 8, 1166720, "1.1"),
        ("/storage/prod", 22, 216915, 216915, 0, 19970364, 24623324, 44207, 49062, 15, 8, 1166720,
         "1.1"),
        ("/storage/test", 22, 38, 38, 0, 4012, 4512, 14, 445, 6, 8, 1166720, "1.1"),
        ("/storage/exp-d", 22, 90969, 90969, 0, 2153443952, 1334236892, 128968, 136200, 1569, 8,
         1166720, "1.1"),
    ],
    "mountstats.txt": [
        ("/ifs", 22, 71409, 71409, 0, 186300692, 23547328, 108646, 3533070, None, 1, 12515493,
         "1.0"),
        ("/mnt/nfsv4", 47, 69683, 69683, 0, 12844152, 641184336, 16189, 18082, None, 1, 19, "1.0"),
        ("/ifsfoo", 22, 73639, 73639, 0, 187112912, 23893692, 109632, 3534085, None, 1, 12517593,
         "1.0"),
        ("/mnt/nfs41", 53, 279754, 279754, 0, 63311628, 69961612, 37942, 60793, None, 1, 44, "1.0"),
    ],
    "mountstats3.txt": [
        (f"/nas1/{name}", 22, *numbers, None, 1, 572945, "1.0")
        for name, numbers in [
            ("media3", (13227, 13433, 1, 1793680, 12436300, 62140, 388074)),
            ("media2", (301, 301, 0, 29600, 32496, 340, 347)),
            *((name, (13227, 13433, 1, 1793680, 12436300, 62140, 388074))
              for name in ("Public", "assets", "media", "downloads", "books", "Web", "scan",
                           "media4")),
        ]
    ],
    "mountstats42.txt": [
        ("/home", 60, 653674, 653678, 30, 6121494827, 4684641276, 6729021, 74438520, None, 1, 5547,
         "1.0"),
    ],
    "mountstats_procfs.txt": [
        ("/mnt/nfs/test", 4, 2927396305, 2927396293, 0, 526931301892, 364207102388, 1667448833,
         1953667124, None, 1, 13968, "1.0"),
    ],
    "nonfsmounts.txt": [],
}  # fmt: skip


def mounts(name: str) -> tuple[NfsMount, ...]:
    return parse_mountstats((FIXTURES / name).read_bytes())


def total(mount: NfsMount, column: str) -> int | None:
    values = [getattr(one, column) for one in mount.operations.values()]
    return None if None in values else sum(values)


@pytest.mark.parametrize("name", SUMS)
def test_every_line_of_every_mount_is_read(name: str) -> None:
    found = mounts(name)
    columns = (
        "ops", "ntrans", "timeouts", "bytes_sent", "bytes_recv", "rtt_ms", "exe_ms", "errors",
    )  # fmt: skip
    assert [
        (
            mount.head.mount_point,
            len(mount.operations),
            *(total(mount, column) for column in columns),
            len(mount.transports),
            mount.age_s,
            mount.rpc_version,
        )
        for mount in found
    ] == SUMS[name]
    assert all(mount.unread_lines == 0 and len(mount.events) == 27 for mount in found)


def test_v3_block_in_full() -> None:
    mount = mounts("mountstats.txt")[0]
    assert mount.head == Head("nfs-a.example.org:/ifs", "/ifs", "nfs", "1.1")
    assert mount.option("vers") == "3" and mount.option("proto") == "tcp"
    assert "hard" in mount.options and mount.option("missing") is None
    assert mount.payload == Payload(479073312, 173647641, 0, 0, 12762151, 173521215, 3167, 45200)
    assert mount.events[:4] == (17785, 787338, 294, 23041)
    assert mount.transports == (
        Transport("tcp", 789, 193, 71411, 71411, 0, 180054, 0, 73, 6675888, 108644),
    )
    assert mount.operations["READ"] == Operation(450, 450, 0, 76688, 12819860, 3, 2638, 2658, None)
    assert mount.operations["WRITE"] == Operation(
        9523, 9523, 0, 175240916, 1523680, 3423263, 57150, 3480542, None
    )
    assert mount.labels == {
        "caps": "caps=0x3fc7,wtmult=512,dtsize=32768,bsize=0,namlen=255",
        "sec": "flavor=1,pseudoflavor=1",
    }


def test_a_remark_behind_the_age_is_no_part_of_it() -> None:
    mount = mounts("mountstats.txt")[1]
    assert mount.age_s == 19
    assert mount.head.fstype == "nfs4" and mount.option("minorversion") == "0"
    assert mount.transports[0].unanswered == 1  # 69698 sent, 69697 answered


def test_v42_with_krb5p_and_operations_of_that_version() -> None:
    (mount,) = mounts("mountstats42.txt")
    assert mount.payload == Payload(
        4365236327, 5911247130, 0, 0, 4406481497, 5911215386, 1075802, 1473784
    )
    assert mount.operations["SEEK"] == Operation(1, 2, 3, 4, 5, 6, 7, 8, None)
    assert mount.operations["ALLOCATE"] == Operation(9, 11, 13, 15, 17, 19, 21, 23, None)
    assert mount.operations["DEALLOCATE"] == Operation(10, 12, 14, 16, 18, 20, 22, 24, None)
    assert mount.labels["nfsv4"].endswith("sessions,pnfs=not configured")
    # 69477 operations, 69476 transmissions, a queue time 2802166 ms below zero
    assert mount.operations["ACCESS"] == Operation(
        69477, 69476, 0, 20008260, 18341664, None, 105209, 116052, None
    )
    assert mount.operations["ACCESS"].retrans == 0


def test_errors_are_the_ninth_number_of_rpc_1_1_and_unknown_before() -> None:
    new = mounts("mountstats-4.18.0-105.el8.rpc-v1.1.txt")[0]
    old = mounts("mountstats-4.18.0-80.el8-rpc-v1.0.txt")[0]
    assert (new.head.statvers, old.head.statvers) == ("1.1", "1.1")
    assert new.operations["NULL"] == Operation(2, 4, 0, 88, 48, 7, 2, 9, 1)
    assert new.operations["WRITE"] == Operation(4, 4, 0, 2098144, 704, 9, 12, 22, 3)
    assert old.operations["WRITE"] == Operation(2, 2, 0, 1049072, 352, 11, 4, 15, None)
    assert new.transports == (Transport("tcp", 699, 1, 29, 29, 0, 30, 0, 2, 1, 1),)
    assert old.payload == Payload(0, 1048576, 0, 0, 0, 1048576, 0, 256)


def test_rdma_with_eight_connections_and_a_gpfs_mount_behind() -> None:
    group = mounts("mountstats-el8.7-rdma.txt")[3]
    assert group.payload == Payload(
        5990252963873, 271047280191, 0, 0, 1730835995062, 212213971093, 422603768, 51862807
    )
    assert group.transports[0] == Transport(
        "rdma", 0, 111, 5001450, 5001450, 0, 16468960, 244630485, None, None, None
    )
    assert [one.connects for one in group.transports] == [111, 110, 110, 114, 113, 112, 108, 105]
    assert group.operations["LOOKUP"].errors == 90189
    home = mounts("mountstats-el8.7-rdma.txt")[4]
    # 314570 sent, 314568 answered, and two replies that came twice: nothing waits
    assert home.transports[3].bad_xids == 2
    assert [one.unanswered for one in home.transports] == [0] * 8


def test_procfs_fixture_as_the_exporters_own_test_reads_it() -> None:
    (mount,) = mounts("mountstats_procfs.txt")
    read, access = mount.operations["READ"], mount.operations["ACCESS"]
    assert read == Operation(1298, 1298, 0, 207680, 1210292152, 6, 79386, 79407, None)
    assert (read.rtt_ms or 0) / read.ops == 61.16024653312789
    assert (access.rtt_ms or 0) / access.ops == 0.5695744656983355
    assert (access.ops, access.ntrans, access.queue_ms) == (2927395007, 2927394995, None)
    assert access.retrans == 0
    assert mount.transports == (Transport("tcp", 832, 1, 6428, 6428, 0, 12154, 0, 24, 26, 5726),)


def test_a_time_below_zero_takes_that_mean_from_its_class_and_nothing_else() -> None:
    (mount,) = mounts("mountstats42.txt")
    meta = [one for name, one in mount.operations.items() if class_of(name) == "meta"]
    found = counters(meta, None)
    assert found.queue_ns is None
    assert found.ops == sum(one.ops for one in meta) and found.bytes is None
    assert found.rtt_ns == sum(one.rtt_ms or 0 for one in meta) * MS


def test_classes() -> None:
    assert [class_of(name) for name in ("READ", "READ_PLUS", "WRITE")] == ["read", "read", "write"]
    assert {class_of(name) for name in ("COMMIT", "GETATTR", "OPEN", "LAYOUTGET", "71")} == {"meta"}
    assert {class_of(name) for name in ("SEQUENCE", "RENEW", "NULL", "EXCHANGE_ID")} == {None}


def test_a_class_sums_its_operations() -> None:
    (mount,) = mounts("mountstats42.txt")
    one = counters([mount.operations["READ"]], 4406481497)
    assert one == ClientCounters(
        38821, 4406481497, 824228 * MS, 869033 * MS, 950 * MS, 0, None, None
    )
    assert counters([], None) == ClientCounters(0, None, 0, 0, 0, 0, None, None)


def test_fewer_transmissions_than_operations_take_nothing_from_other_retransmissions() -> None:
    odd = Operation(100, 88, 0, 0, 0, 0, 0, 0, None)
    sent_again = Operation(10, 15, 0, 0, 0, 0, 0, 0, None)
    assert counters([odd, sent_again], None).retrans == 5


@pytest.mark.parametrize(
    "line",
    [
        b"READ: 1 1 0 2 3 4 5",  # seven numbers
        b"READ 1 1 0 2 3 4 5 6",
        b"READ: 1 1 0 2 3 4 5 x",
        b"READ: 18446744073709551615 1 0 2 3 4 5 6",
        b"READ: 1 1 0 2 -3 4 5 6",
        b"READ: " + b"9" * 5000 + b" 1 0 2 3 4 5 6",
        b"",
    ],
)
def test_no_operation_line(line: bytes) -> None:
    assert parse_operation(line) is None


def test_transports_of_every_protocol() -> None:
    def unanswered(text: bytes) -> int | None:
        found = parse_transport(text)
        return None if found is None else found.unanswered

    # tcp of the first kernels that had it: ten numbers
    assert parse_transport(b"tcp 875 1 5 0 3 90 80 2 7 8") == Transport(
        "tcp", 875, 5, 90, 80, 2, 7, 8, None, None, None
    )
    assert parse_transport(b" udp 875 1 90 80 2 7 8") == Transport(
        "udp", 875, None, 90, 80, 2, 7, 8, None, None, None
    )
    assert parse_transport(b"udp 875 1 90 80 2 7 8 9 10 11") == Transport(
        "udp", 875, None, 90, 80, 2, 7, 8, 9, 10, 11
    )
    assert parse_transport(b"local 1 5 0 3 90 80 2 7 8 9 10 11") == Transport(
        "local", None, 5, 90, 80, 2, 7, 8, 9, 10, 11
    )
    rdma = b"rdma 0 0 1 0 0 90 80 2 7 8" + b" 1" * 10
    assert parse_transport(rdma) == Transport("rdma", 0, 1, 90, 80, 2, 7, 8, None, None, None)
    assert unanswered(b"tcp 875 1 5 0 -1 90 80 2 7 8") == 8
    for damaged in (b"", b"tcp", b"tcp 1 2 3 4 5 6 7", b"vsock 1 2 3 4 5 6 7 8 9 10", b"tcp a b"):
        assert parse_transport(damaged) is None
    assert parse_transport(b"tcp 875 1 5 0 3 18446744073709551615 80 2 7 8") is None


def test_lines_of_other_drivers_are_kept_by_label_and_take_nothing_away() -> None:
    block = (
        (FIXTURES / "mountstats42.txt")
        .read_bytes()
        .replace(
            b"\tRPC iostats version: 1.0",
            b"\tsunrpc-id: 5\n\tlocalports: 1-4\n\tspread reads: on\n\tmdconnect: 2\n"
            b"\tRPC iostats version: 1.0",
        )
    )
    (mount,) = parse_mountstats(block)
    assert mount.labels["spread reads"] == "on" and mount.unread_lines == 0
    assert len(mount.operations) == 60 and mount.rpc_version == "1.0"


def test_names_with_blanks_and_device_lines_without_statistics() -> None:
    text = (
        b"device srv:/my\\040data mounted on /mnt/with\\040blank with fstype nfs statvers=1.1\n"
        b"\topts:\trw,vers=3\n\tage:\t5\n"
        b"no device mounted on /x with fstype foo\n"
        b"device srv:/bare mounted on /bare with fstype nfs\n"
        b"device scratch mounted on /scratch with fstype gpfs\n"
    )
    (mount,) = parse_mountstats(text)
    assert mount.head == Head("srv:/my data", "/mnt/with blank", "nfs", "1.1")
    assert (mount.age_s, mount.payload, mount.operations, mount.unread_lines) == (5, None, {}, 0)


def test_superblocks_are_told_by_device_number_else_by_content() -> None:
    blocks = split_mounts((FIXTURES / "mountstats3.txt").read_bytes())
    # without mountinfo: the eight folders of one file system look alike, media2 does not
    identities = superblocks(blocks, [])
    assert len(set(identities)) == 2 and identities.count(identities[0]) == 9


def test_servers_are_told_by_name_address_and_options() -> None:
    found = mounts("mountstats-el8.7-rdma.txt")
    # one name, ten addresses: the transports differ and no connection is shared
    assert len({server_of(mount, None) for mount in found}) == 10
    folders = mounts("mountstats3.txt")
    assert len({server_of(mount, "192.0.2.6") for mount in folders}) == 1
    four = mounts("mountstats.txt")
    assert len({server_of(mount, None) for mount in four}) == 3
    assert host_of("[fe80::1]:/x") == "[fe80::1]" and host_of("srv:/a:/b") == "srv"


def test_rpc_totals() -> None:
    found = parse_rpc_totals((FIXTURES / "proc_net_rpc_nfs.txt").read_text())
    assert found is not None
    assert (found.calls, found.retrans, found.auth_refreshes) == (4329785, 0, 4338291)
    assert found.procedures[3][:3] == (1, 4084749, 29200)
    assert {version: len(counts) for version, counts in found.procedures.items()} == {
        2: 18, 3: 22, 4: 61,
    }  # fmt: skip
    other = parse_rpc_totals((FIXTURES / "proc_net_rpc_nfs_pcp.txt").read_text())
    assert other is not None
    assert other[:3] == (14415, 0, 14415) and len(other.procedures[4]) == 54
    assert parse_rpc_totals("") is None and parse_rpc_totals("rpc 1 x 3\nrpc 1 2\n") is None
    assert parse_rpc_totals("rpc 1 2 3\nproc3 2 5 6 7\n") == RpcTotals(1, 2, 3, {3: (5, 6)})


def test_a_block_cut_anywhere_is_read_up_to_there() -> None:
    (block,) = split_mounts((FIXTURES / "mountstats42.txt").read_bytes())
    for end in range(0, len(block), 7):
        found = parse_mount(block[:end])
        assert found.unread_lines <= 1
