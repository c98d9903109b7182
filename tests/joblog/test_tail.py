"""A log as it grows: in any pieces, rewritten bars, interleaved ranks, holes, rubbish."""

from __future__ import annotations

import random
import tracemalloc

import pytest

from slurm_io.joblog.forms.base import FORMS
from slurm_io.joblog.model import LONGEST_LINE_BYTES, LogRecord
from slurm_io.joblog.tail import LogTail
from tests.joblog.logs import MEGATRON, ONE_OF_EACH, parse

TITAN = (
    "{label}[titan] 2025-06-01 10:{minute:02d}:{second:02d},{ms:03d} - root - INFO - "
    "step: {step:2d}  loss: {loss:8.5f}  grad_norm:  1.0000  tps: 1,000  mfu: 1.0%\n"
)
BAR = "\rEpoch 0:  10%|█         | {n}/1000 [{clock}<10:00,  2.00it/s, v_num=1, loss=2.5]"


def titan(step: int, label: str = "", at_s: float = 0.0, loss: float = 2.5) -> str:
    whole = int(at_s)
    return TITAN.format(
        label=label, minute=whole // 60, second=whole % 60, ms=round(at_s % 1 * 1000), step=step,
        loss=loss,
    )  # fmt: skip


def megatron(step: int, second: int = 0) -> str:
    return MEGATRON.format(second=second, step=step, samples=step * 1024) + "\n"


def fed(*pieces: str | bytes, at_byte: int = 0) -> LogTail:
    tail = LogTail(at_byte)
    for piece in pieces:
        tail.feed(piece.encode() if isinstance(piece, str) else piece)
    return tail


def steps(records: list[LogRecord]) -> list[int | None]:
    return [record.step for record in records]


def test_pieces_of_any_size_give_the_same_records() -> None:
    whole = "".join(f"{text}\n" for text in ONE_OF_EACH.values()).encode()
    expected = parse(whole)
    assert len(expected) == len(ONE_OF_EACH)
    for size in (1, 2, 3, 7, 64, 1000):
        tail = fed(*(whole[at : at + size] for at in range(0, len(whole), size)))
        assert tail.take(last=True) == expected


class TestBars:
    def test_of_many_states_the_last_is_taken_at_every_look(self) -> None:
        tail = fed(*(BAR.format(n=n, clock=f"00:{n:02d}") for n in range(1, 31)))
        assert steps(tail.take()) == [30]
        assert tail.take() == []  # it has not moved
        tail.feed(BAR.format(n=31, clock="00:31").encode())
        [record] = tail.take()
        assert (record.step, record.detail["elapsed_s"]) == (31, 31)

    def test_a_bar_without_an_end_of_line_is_seen(self) -> None:
        assert steps(fed(BAR.format(n=5, clock="00:05")).take()) == [5]

    def test_a_bar_that_is_being_written_is_not_read(self) -> None:
        text = BAR.format(n=5, clock="00:05")
        for end in range(1, len(text) - 1):
            assert fed(text[:end]).take() == []

    def test_a_bar_that_begins_anew_leaves_its_last_state(self) -> None:
        tail = fed(BAR.format(n=1000, clock="08:20"), "\n", BAR.format(n=3, clock="00:02"))
        records = tail.take()
        assert steps(records) == [1000, 3]
        assert [record.run for record in records] == [1, 2]

    def test_epochs_of_one_bar_go_on_counting(self) -> None:
        second = BAR.replace("Epoch 0", "Epoch 1")
        tail = fed(BAR.format(n=1000, clock="08:20"), second.format(n=3, clock="00:02"))
        assert steps(tail.take()) == [1000, 1003]

    def test_two_bars_beside_each_other_are_two(self) -> None:
        other = "\r 50%|█████     | 5/10 [00:05<00:05,  1.00it/s]"
        tail = fed(*(BAR.format(n=n, clock=f"00:{n:02d}") + other for n in range(1, 9)))
        assert {(record.source, record.step) for record in tail.take()} == {
            ("lightning", 8), ("tqdm", 5),
        }  # fmt: skip

    def test_a_line_written_over_a_bar_is_read(self) -> None:
        text = BAR.format(n=5, clock="00:05") + "\r" + " " * 80 + "\r" + megatron(7)
        assert {(one.source, one.step) for one in fed(text).take(last=True)} == {
            ("lightning", 5), ("megatron", 7),
        }  # fmt: skip

    def test_a_line_behind_a_bar_is_read(self) -> None:
        text = BAR.format(n=5, clock="00:05") + titan(3)
        assert {(one.source, one.step) for one in fed(text).take(last=True)} == {
            ("lightning", 5), ("torchtitan", 3),
        }  # fmt: skip


class TestRanks:
    @pytest.mark.parametrize("labels", [[""] * 8, [f"{n}: " for n in range(8)]], ids=["no", "srun"])
    def test_one_step_of_eight_ranks_is_one_record(self, labels: list[str]) -> None:
        text = "".join(titan(step, label, step) for step in (1, 2, 3) for label in labels)
        records = fed(text).take(last=True)
        assert steps(records) == [1, 2, 3]
        assert [record.detail["ranks_seen"] for record in records] == [8, 8, 8]
        assert [record.step_time_s for record in records] == [None, 1.0, 1.0]

    def test_a_step_waits_for_the_ranks_that_are_behind(self) -> None:
        tail = fed(titan(1, "0: "))
        assert tail.take() == []
        tail.feed(titan(1, "1: ").encode())
        [record] = tail.take()
        assert record.detail["ranks_seen"] == 2

    def test_a_rank_later_than_that_makes_no_second_record(self) -> None:
        tail = fed(titan(1, "0: "))
        tail.take()
        assert steps(tail.take()) == [1]
        tail.feed(titan(1, "1: ", 0.5).encode() + titan(2, "0: ", 1.0).encode())
        assert steps(tail.take(last=True)) == [2]
        assert tail.counts.late_duplicates == 1

    def test_interleaved_ranks_do_not_start_the_counter_again(self) -> None:
        text = titan(5, "0: ", 5) + titan(6, "0: ", 6) + titan(5, "1: ", 5.2) + titan(7, "0: ", 7)
        records = fed(text).take(last=True)
        assert steps(records) == [5, 6, 7]
        assert {record.run for record in records} == {1}

    def test_without_stamps_only_another_rank_can_be_late(self) -> None:
        """A training that goes on from its last checkpoint repeats steps and losses too."""
        line = "{}iter {}: loss 2.5, time 9ms\n"
        ranks = "".join(line.format(*one) for one in (("0: ", 1), ("0: ", 2), ("1: ", 1)))
        assert steps(fed(ranks).take(last=True)) == [1, 2]
        again = "".join(line.format("0: ", step) for step in (1, 2, 1, 2))
        assert [one.run for one in fed(again).take(last=True)] == [1, 1, 2, 2]


class TestRuns:
    def test_a_counter_that_goes_back_is_another_run(self) -> None:
        """A requeue goes on at the last checkpoint, here with the very next lines."""
        text = "".join(megatron(step, step % 10) for step in (100, 101, 102))
        text += "".join(megatron(step, 40 + step % 10) for step in (101, 102, 103))
        records = fed(text).take(last=True)
        assert steps(records) == [100, 101, 102, 101, 102, 103]
        assert [record.run for record in records] == [1, 1, 1, 2, 2, 2]
        assert [bool(record.detail.get("warmup")) for record in records] == [
            True, False, False, True, False, False,
        ]  # fmt: skip

    def test_the_interval_is_the_distance_of_two_lines_of_a_run(self) -> None:
        text = "".join(megatron(step, 12 * n) for n, step in enumerate((10, 20, 40, 10, 20)))
        intervals = [one.detail.get("interval_steps") for one in fed(text).take(last=True)]
        assert intervals == [None, 10, 20, None, 10]

    def test_no_step_time_reaches_from_one_run_into_the_next(self) -> None:
        text = titan(8, at_s=1) + titan(9, at_s=2) + titan(1, at_s=100) + titan(2, at_s=103)
        assert [one.step_time_s for one in fed(text).take(last=True)] == [None, 1.0, None, 3.0]

    def test_in_the_middle_of_a_log_the_first_step_is_no_warm_up(self) -> None:
        tail = fed("half a line\n" + megatron(500), at_byte=10_000)
        [record] = tail.take(last=True)
        assert "warmup" not in record.detail
        assert record.at_byte == 10_000 + len("half a line\n")


class TestHoles:
    def test_bytes_left_out_cost_the_lines_at_both_ends_and_are_counted(self) -> None:
        first, second, third, fourth = (megatron(n, n) for n in (1, 2, 3, 4))
        tail = fed(first + second[:100])
        tail.skip(5000)
        tail.feed((third[200:] + fourth).encode())
        assert steps(tail.take(last=True)) == [1, 4]
        assert tail.counts.bytes_skipped == 5000
        assert tail.counts.torn_lines == 1

    def test_a_bar_cut_by_a_hole_is_not_read(self) -> None:
        """Its count would be 5 of 795."""
        tail = fed("")
        tail.skip(100)
        tail.feed(b"5/77225 [9:07:58<878:01:48, 41.36s/it]\n")
        assert tail.take(last=True) == []

    def test_a_file_that_was_emptied_goes_on(self) -> None:
        tail = fed(megatron(1, 1) + megatron(2, 2)[:50])
        tail.restart()
        tail.feed(megatron(3, 3).encode())
        records = tail.take(last=True)
        assert steps(records) == [1, 3]
        assert [record.at_byte for record in records] == [0, 0]


class TestRubbish:
    def test_a_fault_of_one_form_costs_that_form_its_line(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(FORMS.get("megatron"), "read", lambda self, line: 1 / 0)
        tail = fed(megatron(1) + titan(1) + megatron(2) + titan(2))
        assert {record.source for record in tail.take(last=True)} == {"torchtitan"}
        assert tail.counts.faults == 2

    def test_a_line_too_long_is_dropped_whatever_it_holds(self) -> None:
        long = "x" * LONGEST_LINE_BYTES + megatron(2, 2)
        for pieces in ([megatron(1) + long + megatron(3, 3)], [megatron(1), long, megatron(3, 3)]):
            tail = fed(*pieces)
            assert steps(tail.take(last=True)) == [1, 3]
            assert tail.counts.long_lines == 1

    def test_a_hundred_million_bytes_without_a_line_need_no_memory(self) -> None:
        tail = LogTail()
        piece = b"z" * (64 * 1024)
        tail.feed(piece)
        tracemalloc.start()
        for _ in range(1600):
            tail.feed(piece)
        _now, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 512 * 1024
        assert tail.counts.long_lines == 1
        tail.feed(b"\n" + megatron(3).encode())
        assert steps(tail.take(last=True)) == [3]

    def test_state_stays_small_however_much_is_read(self) -> None:
        chance = random.Random(7)
        tail = LogTail()
        tracemalloc.start()
        for number in range(500):
            text = "".join(
                f"\rjob {chance.random()}:  1%|  | {n}/{chance.randrange(10**6)} [00:01<00:01]"
                for n in range(20)
            )
            text += "".join(titan(number * 9 + n, f"{n}: ", number % 60) for n in range(9))
            tail.feed(text.encode())
            tail.take()
            if number == 300:  # the interpreter's own pools are full by then
                early, _ = tracemalloc.get_traced_memory()
        late, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert late - early < 16 * 1024

    def test_nul_bytes_of_a_sparse_file_are_no_text(self) -> None:
        assert steps(fed(b"\0" * 5000 + megatron(4).encode()).take(last=True)) == [4]

    def test_windows_line_ends(self) -> None:
        text = (megatron(1) + megatron(2, 2)).replace("\n", "\r\n")
        assert steps(fed(text).take(last=True)) == [1, 2]

    def test_numbers_that_no_column_can_hold_are_left_out(self) -> None:
        line = megatron(1).replace("       1/", f"{2**63 - 1}/")
        assert fed(line).take(last=True) == []
        huge = megatron(1).replace("2500.0", "9e999")
        assert fed(huge).take(last=True) == []


def test_a_job_that_wishes_us_ill_gains_no_memory() -> None:
    """Ever new labels, names and bars, for hours."""
    chance = random.Random(3)
    tail = LogTail()
    for number in range(200):
        lines = []
        for _ in range(40):
            label, name = chance.randrange(10**7), "n" * chance.randrange(3000) + str(number)
            lines.append(f"{label}: " + megatron(number).replace("loss scale", name))
            lines.append(f"({name[:40]} pid={label}) " + titan(number, at_s=number % 60))
            lines.append(f"\r{name[-40:]}: 5%| | {label}/{label + 9} [00:01<00:01, {name[:900]}]\r")
        tail.feed("".join(lines).encode())
        tail.take()
        if number == 20:
            tracemalloc.start()
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * 2**20
