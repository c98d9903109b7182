"""Mount sources: case E02 as a whole, and text nobody meant as a source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slurm_io.filesystems.sources import (
    LustreSource,
    kind_of_source,
    parse_lustre_source,
    parse_nfs_source,
)

CASE = Path(__file__).parents[1] / "fixtures" / "cases" / "E02"
ANSWER: dict[str, Any] = json.loads((CASE / "expected.json").read_text())["answer"]


def df_rows() -> dict[str, str]:
    """Mount point -> source of each line of the case's df."""
    lines = (CASE / "df.txt").read_text().splitlines()[1:]
    return {line.split()[-1]: line.split()[0] for line in lines}


def as_answered(source: str) -> dict[str, Any]:
    lustre, nfs = parse_lustre_source(source), parse_nfs_source(source)
    if lustre is not None:
        mgs = [list(node) for node in lustre.mgs]
        return {"type": "lustre", "fsname": lustre.fsname, "subdir": lustre.subdir, "mgs": mgs}
    assert nfs is not None
    return {"type": "nfs", "host": nfs.host, "path": nfs.path}


def test_e02_types_by_source_alone() -> None:
    assert {point: kind_of_source(source) for point, source in df_rows().items()} == ANSWER["types"]


def test_e02_parts_of_sources() -> None:
    lines = (CASE / "sources.txt").read_text().split()
    assert [as_answered(line) for line in lines] == ANSWER["sources"]


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("user@host:/home/user", "other"),  # sshfs: the @ is not a Lustre network
        ("10.0.0.1:6789,10.0.0.2:6789:/", "ceph"),
        (":/", "ceph"),
        ("admin@1b2c-3d.cephfs=/volumes", "ceph"),
        ("//server/share", "smb"),
        ("UUID=0a-1b", "local"),
        ("27@gni99:/snx11001", "lustre"),
        ("gpfs0", "other"),
        ("none", "other"),
        ("", "other"),
    ],
)
def test_other_sources(source: str, kind: str) -> None:
    assert kind_of_source(source) == kind


def test_lustre_servers_by_name_need_the_type() -> None:
    assert kind_of_source("mgs1:/lustre") == "nfs"
    assert parse_lustre_source("mgs1") is None
    named = parse_lustre_source("mgs1,mgs1b:mgs2:/lustre/x/", is_lustre=True)
    assert named == LustreSource("lustre", "/x", (("mgs1", "mgs1b"), ("mgs2",)))


def test_lustre_servers_with_ipv6_addresses() -> None:
    source = "2001:db8::1@tcp:2001:db8::2@tcp,10.0.0.1@o2ib1:/fs/a:/b"
    nodes = (("2001:db8::1@tcp",), ("2001:db8::2@tcp", "10.0.0.1@o2ib1"))
    assert parse_lustre_source(source) == LustreSource("fs", "/a:/b", nodes)


@given(st.text(alphabet="ab1.:,@/[]=-_%\n tcpo2ib", max_size=200))
@example(",:/1")
@example("a,,b:/1")
def test_any_text_reads_as_something(source: str) -> None:
    kind_of_source(source)
    found = parse_lustre_source(source, is_lustre=True)
    assert found is None or (found.fsname and all(all(node) for node in found.mgs))


def test_long_sources_do_not_take_long() -> None:
    """A pattern that backtracks would not come back from these within the suite's time limit."""
    for piece in ("1:1,", "a,", "1:", "ab::", "1@tcp,", "1@tcp:", "[::]", "a@1."):
        kind_of_source(piece * 2000)
        kind_of_source(piece * 2000 + "/")


names = st.from_regex(r"[a-z0-9]{1,8}", fullmatch=True)
addresses = st.tuples(
    st.one_of(names, st.just("192.0.2.7"), st.just("2001:db8::7")),
    st.sampled_from(["tcp", "o2ib", "tcp1", "o2ib12", "gni"]),
).map("@".join)


@given(st.lists(st.lists(addresses, min_size=1, max_size=3), min_size=1, max_size=3), names)
def test_written_sources_come_back(nodes: list[list[str]], fsname: str) -> None:
    source = ":".join(",".join(node) for node in nodes) + f":/{fsname}"
    expected = LustreSource(fsname, None, tuple(tuple(node) for node in nodes))
    assert parse_lustre_source(source) == expected
