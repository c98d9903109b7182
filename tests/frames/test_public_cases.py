"""Stacks and process lists that people published, with the answer each of them needs.

``expected.json`` beside each text says what is right and what a tool must not say.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from slurm_io.frames.crew import judge_crew, judge_deaths, judge_native
from slurm_io.frames.process import ProcessState, judge_process
from slurm_io.frames.table import load_table
from slurm_io.frames.thread import ThreadState, judge_thread
from slurm_io.stacktext.faulthandler import parse_faulthandler
from slurm_io.stacktext.folded import parse_folded
from slurm_io.stacktext.gdb import parse_backtrace
from slurm_io.stacktext.ps import parse_ps
from slurm_io.stacktext.pyspy_dump import parse_dump
from slurm_io.stacktext.tracebacks import parse_tracebacks
from slurm_io.stacktext.worker_deaths import find_worker_deaths

PUBLIC = Path(__file__).parent / "public"
TABLE = load_table()
WORDS = {"ckpt": "checkpoint"}


def read(case: str, name: str) -> bytes:
    return (PUBLIC / case / name).read_bytes()


def expected(case: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(read(case, "expected.json"))["answer"]
    return answer


def word(state: ThreadState | ProcessState) -> str:
    """A thread that only waits beside the training is called idle."""
    if isinstance(state, ThreadState) and state.sub == "idle":
        return "idle"
    return WORDS.get(state.state, state.state)


def test_b02_an_asynchronous_save_that_joins_its_writer_blocks_and_is_no_data_wait() -> None:
    answer = expected("b02")
    dump = parse_dump(read("b02", "dump.txt"))
    process = judge_process(dump.threads, TABLE)
    by_id = dict(zip((thread.ident for thread in dump.threads), process.threads, strict=True))
    main, pin = by_id["36380"], by_id["38606"]
    assert word(main) == answer["threads"]["36380"]["state"]
    assert (main.role, main.blocking) == ("main", answer["threads"]["36380"]["blocking"])
    assert (word(pin), pin.role) == (answer["threads"]["38606"]["state"], "helper")
    assert "pin_memory" in "".join(frame.file for frame in dump.threads[1].frames)
    assert word(process) == answer["rank_state"] != "data_wait"
    assert process.sub == answer["checkpoint_kind"]
    assert process.blocking is answer["blocking"]


def test_b04_zombie_workers_are_dead_whatever_their_percentage_says() -> None:
    answer = expected("b04")
    processes, dropped = parse_ps(read("b04", "ps_after.txt"))
    crew = judge_crew(processes)
    assert dropped == 0
    assert crew.rank == answer["rank"]
    assert list(crew.workers) == answer["workers"]
    assert list(crew.alive) == answer["alive"]
    assert list(crew.dead) == answer["dead_zombie"]
    assert crew.cause == answer["cause"]
    now = {one.cpu_now for one in processes if one.pid in crew.dead}
    assert now == {answer["cpu_now_of_zombies"]}


def test_b05_the_current_thread_decides_and_monitors_do_not_count() -> None:
    answer = expected("b05")
    dump = parse_faulthandler(read("b05", "stderr.txt"))
    process = judge_process(dump.threads, TABLE)
    told = [
        {"state": word(state), "counts": index == process.decider}
        for index, state in enumerate(process.threads)
    ]
    assert told == [{key: one[key] for key in ("state", "counts")} for one in answer["threads"]]
    assert [state.role for state in process.threads[:2]] == ["housekeeping", "housekeeping"]
    assert (process.state, process.sub) == (answer["process_state"], "gpu")


def test_b06_the_last_frame_of_a_traceback_is_the_innermost_and_a_handler_hides_nothing() -> None:
    answer = expected("b06")
    text = read("b06", "stderr.txt")
    tracebacks = parse_tracebacks(text)
    assert tracebacks[0].frames[0].name == "handler", answer["order"]
    (one,) = judge_deaths(find_worker_deaths(text), tracebacks, TABLE)
    assert one.death.pids == (answer["pid"],)
    assert (one.death.signal, one.death.signal_number) == (
        answer["signal"],
        answer["signal_number"],
    )
    assert one.before is not None and one.before.state == answer["main_state_before"]


def test_b09_native_frames_hide_the_python_frame_that_decides() -> None:
    answer = expected("b09")
    told = {
        name: judge_process(parse_dump(read("b09", name)).threads, TABLE)
        for name in ("dump1.txt", "dump2.txt", "dump3.txt")
    }
    assert {name: state.state for name, state in told.items()} == {
        name: answer[name] for name in told
    }
    assert told["dump3.txt"].sub == "gpu", answer["detail"]["dump3.txt"]
    assert not told["dump2.txt"].certain, "nobody knows that scheduler: compute is what is left"


def test_b11_a_walk_of_the_environment_is_an_import_and_a_torn_frame_is_dropped() -> None:
    answer = expected("b11")
    (thread,) = parse_backtrace(read("b11", "gdb_bt.txt"))
    walk = judge_native(thread, TABLE)
    assert walk.thread.state == answer["gdb_bt.txt"]["state"]
    assert walk.path == answer["gdb_bt.txt"]["path"]
    assert walk.is_metadata and walk.thread.sub == "metadata", answer["gdb_bt.txt"]["wait_class"]

    records, rest = parse_folded(read("b11", "folded.txt"))
    folded = answer["folded.txt"]
    assert (len(records), rest) == (folded["stacks"], 0)
    assert records[0].samples == folded["samples"]
    assert len(records[0].frames) == folded["valid_frames"]
    assert records[0].dropped_frames == folded["dropped_frames"]
    assert judge_thread(records[0].frames, TABLE).state == folded["state"]
