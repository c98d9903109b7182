"""Reservations as text and in JSON, and what may be done to their nodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.errors import SlurmError, SlurmRefused
from slurm_io.slurm.base import NewReservation
from slurm_io.slurm.hostlist import expand
from slurm_io.slurm.infos import NodeInfo, ReservationInfo
from slurm_io.slurm.known_bugs import known_bugs
from slurm_io.slurm.reservation_rules import (
    nodes_argument,
    refuse_bad_wish,
    refuse_changed,
    refuse_unfit,
    wanted_nodes,
)
from slurm_io.slurm.reservations import (
    normal_flags,
    reservations_from_json,
    reservations_from_text,
)
from slurm_io.slurm.version import parse_json

FIXTURES = Path(__file__).parents[1] / "fixtures" / "slurm"
FOUND = ReservationInfo(
    "spares", ("n1", "n2", "n3"), start_s=100, end_s=200, flags=("SPEC_NODES",), users=("u",),
    cores=12,
)  # fmt: skip
MEMBERS = tuple(NodeInfo(name, "IDLE", cores=4) for name in ("n1", "n2", "n3", "n4"))


@pytest.mark.parametrize("release", ["24.11.5", "26.05.5"])
def test_json_of_an_old_schema_hides_what_the_text_says(release: str) -> None:
    """Why this project reads text: Slurm replaces the nodes of the second one by itself."""
    text = reservations_from_text((FIXTURES / f"reservations-{release}.txt").read_text())
    answer = parse_json((FIXTURES / f"reservations-{release}-v0.0.42.json").read_text())
    json = reservations_from_json(answer)
    assert text[1].flags == ("REPLACE_DOWN",) and json[1].flags == ()
    assert [replace(each, state=None, flags=()) for each in text] == [
        replace(each, flags=()) for each in json
    ]
    assert text[0].flags == json[0].flags == ("IGNORE_JOBS", "SPEC_NODES")
    for told in (text[1], json[1]):
        with pytest.raises(SlurmRefused):
            refuse_unfit(told, MEMBERS)


@pytest.mark.parametrize(
    ("printed", "flags"),
    [
        ("MAINT,SPEC_NODES", ("MAINT", "SPEC_NODES")),
        ("PURGE_COMP=00:05:00,STATIC", ("PURGE_COMP", "STATIC")),
        ("STATIC_ALLOC", ("STATIC",)),
        ("NO_HOLD_JOBS_AFTER,maint", ("NO_HOLD_JOBS_AFTER_END", "MAINT")),
        ("FLEX,FLEX,A_NEW_FLAG", ("FLEX", "A_NEW_FLAG")),
        ("(null)", ()),
        ("", ()),
    ],
)
def test_spellings_of_flags(printed: str, flags: tuple[str, ...]) -> None:
    line = f"ReservationName=r StartTime=1 EndTime=2 Nodes=n1 Flags={printed} Users=u"
    (found,) = reservations_from_text(line)
    assert found.flags == flags == normal_flags(flags)


@pytest.mark.parametrize("between", [" ", "\n   "])
def test_both_forms_of_a_record_are_one(between: str) -> None:
    pairs = ["ReservationName=r-1", "StartTime=100", "EndTime=UNLIMITED", "Duration=UNLIMITED",
             "Nodes=(null)", "NodeCnt=0", "CoreCnt=0", "PartitionName=(null)", "Flags=FLEX",
             "TRES=(null)", "Users=-bad,u2", "Accounts=a,b", "State=INACTIVE"]  # fmt: skip
    (found,) = reservations_from_text(between.join(pairs) + "\n\n")
    assert (found.nodes, found.start_s, found.end_s, found.duration_s) == ((), 100, None, None)
    assert (found.users, found.accounts, found.state) == (("-bad", "u2"), ("a", "b"), "INACTIVE")
    assert found.problems == () and found.left_s(50) is None and found.is_active(50) is None


@pytest.mark.parametrize("text", ["", "\n", "No reservations in the system\n"])
def test_no_reservations(text: str) -> None:
    assert reservations_from_text(text) == ()


@pytest.mark.parametrize(
    "text",
    ["x", "ReservationName= Nodes=n1", "ReservationName=r", "ReservationName=r Nodes=n[1-2",
     "ReservationName=r Nodes=n[1-2] NodeCnt=4", "ReservationName=r Nodes=n1 Flags=a b",
     "ReservationName=r Nodes=n1 Duration=5", "ReservationName=r Nodes=n1 CoreCnt=x",
     "ReservationName=r Nodes=n1\nReservationName=r Nodes=n2"],
)  # fmt: skip
def test_a_damaged_reservation_is_refused(text: str) -> None:
    with pytest.raises(SlurmError):
        reservations_from_text(text)


# -- rules ---------------------------------------------------------------------------------------

names = st.lists(st.sampled_from([f"n{number}" for number in range(9)]), unique=True)


@given(names, names, names)
def test_the_list_that_is_sent_is_what_was_asked_for(
    has: list[str], add: list[str], remove: list[str]
) -> None:
    found = replace(FOUND, nodes=tuple(has))
    wanted = (set(has) | set(add)) - set(remove)
    try:
        nodes = wanted_nodes(found, tuple(add), tuple(remove))
    except SlurmRefused:
        assert not wanted or set(add) & set(remove) or set(remove) - set(has)
        return
    assert nodes and set(nodes) == wanted and len(nodes) == len(wanted)
    full = nodes_argument((22, 5, 8), nodes, tuple(add), tuple(remove))
    assert set(expand(full.removeprefix("Nodes="))) == wanted
    assert "+" not in full and full != "Nodes="


@pytest.mark.parametrize(
    ("version", "argument"),
    [((22, 5, 8), "Nodes=n[2-3]"), ((23, 2, 3), "Nodes=n[2-3]"), ((23, 2, 4), "Nodes=+n3,-n1"),
     ((26, 5, 5), "Nodes=+n3,-n1")],
)  # fmt: skip
def test_each_version_hears_its_own_words(version: tuple[int, int, int], argument: str) -> None:
    assert nodes_argument(version, ("n2", "n3"), ("n3",), ("n1",)) == argument


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("SPEC_NODES", "REPLACE"), "has REPLACE:"),
        (("REPLACE_DOWN",), "has REPLACE_DOWN:"),
        (("PART_NODES", "SPEC_NODES"), "follows its partition"),
        (("ALL_NODES",), "follows its partition"),
        ((), "replaces a failed node with any idle one"),
        (("MAINT",), "replaces a failed node with any idle one"),
    ],
)
def test_nodes_that_are_slurms_to_choose_are_refused(flags: tuple[str, ...], told: str) -> None:
    with pytest.raises(SlurmRefused, match=told):
        refuse_unfit(replace(FOUND, flags=flags), MEMBERS)


@pytest.mark.parametrize("flags", [("SPEC_NODES",), ("STATIC",), ("IGNORE_JOBS", "SPEC_NODES")])
def test_explicit_nodes_are_ours_to_set(flags: tuple[str, ...]) -> None:
    refuse_unfit(replace(FOUND, flags=flags), MEMBERS)
    refuse_unfit(replace(FOUND, flags=flags, cores=None), MEMBERS)


def test_some_cores_of_nodes_are_no_whole_nodes() -> None:
    with pytest.raises(SlurmRefused, match="8 of 12 cores"):
        refuse_unfit(replace(FOUND, cores=8), MEMBERS)


@pytest.mark.parametrize(
    "change",
    [{"start_s": 101}, {"flags": ("SPEC_NODES", "MAINT")}, {"users": ("v",)}, {"nodes": ("n1",)}],
)
def test_another_one_than_was_read_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(SlurmRefused, match="somebody changed it"):
        refuse_changed(replace(FOUND, **change), FOUND)  # type: ignore[arg-type]
    refuse_changed(replace(FOUND, end_s=999, nodes=("n3", "n2", "n1")), FOUND)


@pytest.mark.parametrize(
    "wish",
    [NewReservation("r", ()), NewReservation("r", ("n1",)),
     NewReservation("r", ("n1",), users=("u",), duration_s=366 * 86400),
     NewReservation("r", ("n1",), users=("u",), duration_s=0)],
)  # fmt: skip
def test_a_wish_that_slurm_would_read_otherwise_is_refused(wish: NewReservation) -> None:
    with pytest.raises(SlurmRefused):
        refuse_bad_wish(wish)


def test_bugs_of_a_release_end_with_the_one_that_mends_them() -> None:
    def has(version: tuple[int, int, int], word: str) -> bool:
        return any(word in each for each in known_bugs(version))

    assert has((23, 2, 0), "misread") and not has((23, 2, 4), "misread")
    assert not has((22, 5, 8), "misread")
    assert has((25, 5, 7), "for good") and not has((25, 5, 8), "for good")
    assert has((25, 11, 5), "for good") and not has((25, 11, 6), "for good")
    assert known_bugs((26, 5, 5)) == ()
