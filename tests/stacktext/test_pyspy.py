"""py-spy's three texts, as two versions print them for three Pythons."""

from __future__ import annotations

import pytest

from slurm_io.stacktext.folded import parse_folded
from slurm_io.stacktext.model import Dump, Frame
from slurm_io.stacktext.pyspy_dump import parse_dump
from slurm_io.stacktext.pyspy_json import parse_dump_json
from tests.stacktext.samples import names, sample


def main_thread_of(dump: Dump) -> list[str]:
    return [str(f) for t in dump.threads if t.name == "MainThread" for f in t.frames]


QUALIFIED = ["A.run_it (prog.py:4)", "<module> (prog.py:8)"]
BARE = ["run_it (prog.py:4)", "<module> (prog.py:8)"]


@pytest.mark.parametrize("name", names(".dump"))
def test_a_dump_gives_both_threads_innermost_first(name: str) -> None:
    dump = parse_dump(sample(name))
    new = "043" in name and "py3.8" not in name
    assert main_thread_of(dump)[-2:] == (QUALIFIED if new else BARE)
    assert {thread.name.split(" ")[0] for thread in dump.threads} == {"MainThread", "Thread-1"}
    assert dump.python is not None and name.endswith(f"py{dump.python.rsplit('.', 1)[0]}.dump")
    assert dump.dropped_frames == dump.dropped_lines == 0


@pytest.mark.parametrize("name", names(".dump"))
def test_lines_of_the_command_are_no_threads(name: str) -> None:
    text = sample(name).decode()
    assert 'Thread 1 (idle): "Fake"\n' in text, "the sample's command looks like a thread"
    assert [thread.ident for thread in parse_dump(text).threads if thread.name == "Fake"] == []


@pytest.mark.parametrize("name", names(".json"))
def test_json_says_the_same_as_the_text(name: str) -> None:
    if "chrometrace" in name:
        return
    from_json = parse_dump_json(sample(name))
    from_text = parse_dump(sample(name.replace(".json", ".dump")))
    assert main_thread_of(from_json) == main_thread_of(from_text)
    assert len(from_json.threads) == 2
    assert from_json.dropped_frames == from_json.dropped_lines == 0


def test_status_and_thread_ids_are_kept_and_nothing_is_made_up_for_old_pythons() -> None:
    new = parse_dump_json(sample("pyspy-043-py3.11.json")).threads
    assert {thread.status for thread in new} == {"idle"}
    assert all(thread.pid == int(thread.ident) for thread in new if thread.name == "MainThread")
    text = parse_dump(sample("pyspy-043-py3.8.dump")).threads
    assert text[0].ident.startswith("0x")


@pytest.mark.parametrize("name", names(".raw"))
def test_raw_records_survive_line_breaks_and_semicolons_in_the_command(name: str) -> None:
    records, rest = parse_folded(sample(name))
    assert rest == 0
    assert [record.samples for record in records] == [9, 9]
    assert {record.thread.split(" ")[0] for record in records} == {"MainThread", "Thread-1"}
    main = next(record for record in records if record.thread == "MainThread")
    assert main.pid is not None and main.dropped_frames == 0
    assert main.frames[-1] == Frame("<module>", "prog.py", 8), "innermost first, so the root last"


def test_native_frames_keep_their_whole_name() -> None:
    dump = parse_dump(
        'Thread 7 (active): "MainThread"\n'
        "    std::vector<int, std::allocator<int> >::push_back (libfoo.so.1)\n"
        "    0x7f1e5a3c21d0 (?)\n"
        "    nested.<locals>.<lambda> (a (copy)/b.py:3)\n"
    )
    names_seen = [frame.short_name for frame in dump.threads[0].frames]
    assert names_seen == [
        "std::vector<int, std::allocator<int> >::push_back",
        "0x7f1e5a3c21d0",
        "<lambda>",
    ]
    assert [frame.is_native for frame in dump.threads[0].frames] == [True, True, False]
    assert dump.threads[0].frames[2].file == "a (copy)/b.py"


@pytest.mark.parametrize(
    "torn",
    [
        "\x00\x01 (a.py:1)",
        "two words (a.py:1)",
        "f (a.py:99999999)",
        " (a.py:1)",
        "x" * 2000 + " (a:1)",
        "f",
        "f(",
        "ab\ufffdc (a.py:2)",
    ],
)
def test_torn_frames_are_dropped_and_counted(torn: str) -> None:
    dump = parse_dump(f'Thread 7 (idle): "MainThread"\n    good (a.py:1)\n    {torn}\n')
    assert [frame.name for frame in dump.threads[0].frames] == ["good"]
    assert dump.dropped_frames == 1


def test_several_processes_in_one_text_keep_their_pids() -> None:
    one = sample("pyspy-043-py3.11.dump").decode()
    dump = parse_dump(one + one.replace("Process 5794", "Process 17"))
    assert len(dump.threads) == 4
    assert {thread.pid for thread in dump.threads[2:]} == {17}


@pytest.mark.parametrize(
    "text", ["{}", "[1]", '[{"frames": 3}]', "[" * 100_000, "", "nonsense", "null"]
)
def test_what_is_no_dump_is_said(text: str) -> None:
    dump = parse_dump_json(text)
    assert dump.threads == () and dump.dropped_lines >= 1
