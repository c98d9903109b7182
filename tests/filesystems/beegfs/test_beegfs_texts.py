"""BeeGFS: recorded entry information of versions 7 and 8, and the client's /proc files.

The /proc texts are made after the module's own printing (ProcFsHelper.c); no recorded one is known.
"""

from __future__ import annotations

import pytest

from slurm_io.filesystems.beegfs.entry_info import (
    EntryInfo,
    EntryInfoError,
    EntryTarget,
    parse_entry_info,
)
from slurm_io.filesystems.beegfs.proc import (
    Connection,
    Server,
    TargetState,
    parse_config,
    parse_servers,
    parse_target_states,
)
from tests.filesystems.client_samples import sample

META_NODES = """node_meta_1 [ID: 1]
   Root: <yes>
   Connections: TCP: 3 (192.0.2.1:8005); 
node_meta_2 [ID: 2]
   Connections: <none>
"""  # noqa: W291 - as printed
STORAGE_NODES = """storage 01 [ID: 1F]
   Connections: TCP: 4 (192.0.2.4:8003 [fallback route]); RDMA: 12 (192.0.2.5:8003); 
"""  # noqa: W291
STATES = """[Target ID: 101] @ beegfs-storage node_storage_1 [ID: 1]: Online / Good 
[Target ID: 201] @ beegfs-storage node_storage_2 [ID: 2]: Probably-offline / Needs-resync 
"""  # noqa: W291

EXPECTED = {
    "entryinfo_v7_file": EntryInfo(
        kind="file",
        entry_id="0-5D285750-1",
        pattern="RAID0",
        chunk_bytes=512 * 1024,
        desired=2,
        actual=2,
        targets=(
            EntryTarget(1, "bee1.example.org", "1"),
            EntryTarget(2, "bee2.example.org", "2"),
        ),
        pool=None,
        metadata="bee1.example.org [ID: 1]",
        path=None,
    ),
    "entryinfo_v8_retro_file": EntryInfo(
        kind="file",
        entry_id="1-6705972F-1",
        pattern="RAID0",
        chunk_bytes=512 * 1024,
        desired=2,
        actual=2,
        targets=(
            EntryTarget(101, "node_storage_1", "1"),
            EntryTarget(201, "node_storage_2", "2"),
        ),
        pool=None,
        metadata="node_meta_1 [ID: 1]",
        path=None,
    ),
    "entryinfo_v8_retro_dir": EntryInfo(
        kind="directory",
        entry_id="root",
        pattern="RAID0",
        chunk_bytes=1024 * 1024,
        desired=4,
        actual=None,
        targets=(),
        pool="default",
        metadata="node_meta_2 [ID: 2]",
        path=None,
    ),
    "entryinfo_v8_table_dir": EntryInfo(
        kind="directory",
        entry_id="root",
        pattern="RAID0",
        chunk_bytes=1024 * 1024,
        desired=4,
        actual=None,
        targets=(),
        pool="default",
        metadata="node_meta_2 (2)",
        path="/",
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_every_value_of_the_recorded_entries(name: str) -> None:
    assert parse_entry_info(sample(f"beegfs/{name}.txt")) == (EXPECTED[name],)


def test_several_entries_of_one_answer() -> None:
    text = sample("beegfs/entryinfo_v7_file.txt") + sample("beegfs/entryinfo_v8_retro_dir.txt")
    assert [each.entry_id for each in parse_entry_info(text)] == ["0-5D285750-1", "root"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "beegfs entry info"),
        ("Entry type: file\nEntryID: 1\n", "number of storage targets"),
        (
            sample("beegfs/entryinfo_v7_file.txt").replace("512k", "half a meg"),
            "'half a meg'",
        ),
        (sample("beegfs/entryinfo_v8_table_dir.txt").replace("(4x1M)", "4"), "stripe pattern"),
    ],
)
def test_what_is_no_entry_information_is_refused_with_a_reason(text: str, says: str) -> None:
    with pytest.raises(EntryInfoError, match=".") as caught:
        parse_entry_info(text)
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_servers_with_their_connections() -> None:
    meta, damaged = parse_servers(META_NODES)
    assert damaged == 0
    assert meta == (
        Server("node_meta_1", "1", True, (Connection("TCP", 3, "192.0.2.1:8005", False),)),
        Server("node_meta_2", "2", False, ()),
    )
    (storage,), damaged = parse_servers(STORAGE_NODES)
    assert (storage.name, storage.number, damaged) == ("storage 01", "1F", 0)
    assert storage.connections == (
        Connection("TCP", 4, "192.0.2.4:8003", True),
        Connection("RDMA", 12, "192.0.2.5:8003", False),
    )


def test_target_states() -> None:
    states, damaged = parse_target_states(STATES)
    assert damaged == 0
    assert states == (
        TargetState(101, "beegfs-storage node_storage_1 [ID: 1]", "Online", "Good"),
        TargetState(
            201, "beegfs-storage node_storage_2 [ID: 2]", "Probably-offline", "Needs-resync"
        ),
    )
    assert [state.is_well for state in states] == [True, False]


def test_lines_of_other_shapes_are_counted() -> None:
    assert parse_servers("   Connections: TCP: 3\nx [ID: 1]\n   Connections: pigeon: 3; \n") == (
        (Server("x", "1", False, ()),),
        2,
    )
    assert parse_target_states("[Target ID: x] @ y: Online / Good\n") == ((), 1)


def test_the_settings_a_client_took() -> None:
    text = "cfgFile = /etc/beegfs/beegfs-client.conf\nlogLevel = 3\nnothing\n"
    assert parse_config(text) == {"cfgFile": "/etc/beegfs/beegfs-client.conf", "logLevel": "3"}
