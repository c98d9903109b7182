"""The journal on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurm_io.errors import HostError
from slurm_io.reservation.swap.journal import Journal, unfinished
from slurm_io.reservation.swap.model import Facts, facts_from


def write(folder: Path, *events: str) -> Path:
    book = Journal(str(folder), "R", "one")
    for event in events:
        wish = json.dumps({"bad": "t3"}) if event == "begin" else "text"
        book.write("fence", event, wish, {"bad": "t3", "held": ("7", "8")})  # type: ignore[arg-type]
    return folder / "reservations" / "R" / "swap.jsonl"


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    path = write(tmp_path, "begin", "intent")
    left = unfinished(str(tmp_path), "R")
    assert left is not None
    assert (left.swap, left.last_step, left.last_event) == ("one", "fence", "intent")
    assert (left.facts.bad, left.facts.held, left.wish) == ("t3", ("7", "8"), {"bad": "t3"})
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_ended_swap_is_not_unfinished(tmp_path: Path) -> None:
    write(tmp_path, "begin", "intent", "end")
    assert unfinished(str(tmp_path), "R") is None
    assert unfinished(str(tmp_path), "other") is None


@pytest.mark.parametrize("cut", [1, 2, 20, 60])
def test_a_torn_line_is_as_if_never_written_and_spoils_none_after_it(
    tmp_path: Path, cut: int
) -> None:
    path = write(tmp_path, "begin", "intent", "done")
    path.write_bytes(path.read_bytes()[:-cut])
    left = unfinished(str(tmp_path), "R")
    assert left is not None
    assert left.last_event == ("done" if cut == 1 else "intent")
    write(tmp_path, "failed")
    left = unfinished(str(tmp_path), "R")
    assert left is not None and left.last_event == "failed"
    write(tmp_path, "end")
    assert unfinished(str(tmp_path), "R") is None


def test_garbage_between_lines_is_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path, "begin")
    with path.open("ab") as file:
        file.write(b"\0\0\0\n[1]\n{}\nnull\n" + b"[" * 10000 + b"\n")
    left = unfinished(str(tmp_path), "R")
    assert left is not None and left.last_event == "begin"


def test_a_link_in_the_journals_place_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / "reservations" / "R"
    folder.mkdir(parents=True)
    (tmp_path / "victim").write_text("precious\n")
    (folder / "swap.jsonl").symlink_to(tmp_path / "victim")
    with pytest.raises(HostError):
        write(tmp_path, "begin")
    assert (tmp_path / "victim").read_text() == "precious\n"


@pytest.mark.parametrize("name", ["..", "a/b", "", "."])
def test_a_reservations_name_cannot_lead_out_of_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(HostError):
        Journal(str(tmp_path), name, "one").write("fence", "begin", "", {})


def test_facts_keep_through_json() -> None:
    facts = Facts(bad="t3", tried=(("t4", "x"),), held=("1",), phases={"clear": 1.5}, pins=("t1",))
    assert facts_from(json.loads(json.dumps(facts.to_dict()))) == facts
    assert facts_from({"unknown": 1, "bad": "t9"}, facts).tried == (("t4", "x"),)
