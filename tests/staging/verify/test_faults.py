"""Each fault is found by the lowest level that can; the levels before say what they miss."""

from pathlib import Path

import pytest

from slurm_io.staging.verify.work import Options
from tests.labs.fault_kit import FAULTS, NEVER, RECORD_FAULTS, VICTIM, VICTIM_INDEX, Bench

MISSES = {
    0: "level 0 looks at the record only",
    1: "level 1 reads no data",
    2: "level 2 reads both ends",
    3: "level 3 reads a sample",
}
BESIDE_THE_VICTIM = Options(sample_share=0.1, cursor=0)
ON_THE_VICTIM = Options(sample_share=0.1, cursor=VICTIM_INDEX)


@pytest.mark.parametrize("level", range(5))
@pytest.mark.parametrize("name", FAULTS)
def test_with_the_record_of_this_node(name: str, level: int, tmp_path: Path) -> None:
    fault, bench = FAULTS[name], Bench.made(tmp_path)
    fault.apply(bench)
    answer = bench.verify(level, options=BESIDE_THE_VICTIM)
    if level < fault.found_at:
        assert answer.answer == "OK"
        assert any(note.startswith(MISSES[level]) for note in answer.not_looked_at)
    elif level == fault.found_at:
        assert answer.answer == fault.answer
        assert fault.why in ("", *answer.counts)
    elif name != "unfinished copy" or level < 4:
        assert answer.answer in ("FAIL", fault.answer)


@pytest.mark.parametrize("level", range(5))
@pytest.mark.parametrize("name", [name for name, f in FAULTS.items() if f.found_without != NEVER])
def test_with_the_manifest_alone(name: str, level: int, tmp_path: Path) -> None:
    fault, bench = FAULTS[name], Bench.made(tmp_path)
    fault.apply(bench)
    answer = bench.verify(level, with_record=False, options=BESIDE_THE_VICTIM)
    if level == 0 < fault.found_without:
        assert answer.answer == "UNKNOWN"
        assert "no record" in answer.text
    elif level < fault.found_without:
        assert answer.answer == "OK"
        assert any(note.startswith(MISSES[level]) for note in answer.not_looked_at)
        assert any("no usable record" in note for note in answer.not_looked_at)
    elif level == fault.found_without:
        assert answer.answer == (fault.answer_without or fault.answer)
        why = fault.why if fault.why_without is None else fault.why_without
        assert why in ("", *answer.counts)


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.sampled])
def test_level_3_finds_it_when_the_sample_holds_it(name: str, tmp_path: Path) -> None:
    bench = Bench.made(tmp_path)
    FAULTS[name].apply(bench)
    answer = bench.verify(3, with_record=False, options=ON_THE_VICTIM)
    assert (answer.answer, answer.level, dict(answer.counts)) == ("FAIL", 3, {"content": 1})
    assert answer.bad_files[0].path == VICTIM


@pytest.mark.parametrize("name", RECORD_FAULTS)
@pytest.mark.parametrize("level", range(5))
def test_a_record_that_was_not_made_here_proves_nothing(
    name: str, level: int, tmp_path: Path
) -> None:
    bench = Bench.made(tmp_path)
    RECORD_FAULTS[name](bench)
    answer = bench.verify(level)
    assert answer.record_problem is not None
    assert not answer.used_record
    assert answer.answer == ("UNKNOWN" if level == 0 else "OK")
    if 0 < level < 4:
        assert any("no usable record" in note for note in answer.not_looked_at)


def test_a_copied_record_hides_no_fault(tmp_path: Path) -> None:
    bench = Bench.made(tmp_path)
    RECORD_FAULTS["copied record"](bench)
    FAULTS["zero tail"].apply(bench)
    assert bench.verify(2).counts == {"zero tail": 1}


@pytest.mark.parametrize("level", range(5))
def test_a_good_copy_is_ok_at_every_level(level: int, tmp_path: Path) -> None:
    bench = Bench.made(tmp_path)
    answer = bench.verify(level)
    assert (answer.answer, answer.level, answer.bad_count) == ("OK", level, 0)
    assert answer.used_record


def test_a_flipped_bit_names_the_chunk_to_copy_again(tmp_path: Path) -> None:
    bench = Bench.made(tmp_path)
    FAULTS["bit flip"].apply(bench)
    (bad,) = bench.verify(4).repair
    assert (bad.path, bad.ranges) == (VICTIM, ((131072, 131072),))


def test_debris_counts_what_it_takes(tmp_path: Path) -> None:
    bench = Bench.made(tmp_path)
    FAULTS["rsync debris"].apply(bench)
    answer = bench.verify(1)
    assert answer.debris_bytes >= 100_000
    assert answer.repair == ()
