"""The policy looks at size, readers and where the bytes lie; the count alone decides nothing."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.filesystems.layout import commands
from slurm_io.filesystems.layout.checkpoints import Writers, judge_checkpoints
from slurm_io.filesystems.layout.lov import parse_lov
from slurm_io.filesystems.layout.model import DirectoryDefault, Layout
from slurm_io.filesystems.layout.policy import (
    GIB,
    TIB,
    Thresholds,
    advised_osts,
    judge_balance,
    judge_file,
    judge_small_files,
)
from tests.filesystems.layout.lov_maker import (
    INIT,
    MDT,
    RAID0,
    RELEASED,
    STALE,
    Part,
    composite,
    plain,
)

LIMITS = Thresholds()


def striped(count: int, size: int = 1 << 20) -> Layout:
    return parse_lov(plain(Part(osts=tuple(range(count)), count=count, size=size)))


def codes(layout: Layout, size: int, readers: int, osts: int | None = None) -> list[str]:
    return [finding.code for finding in judge_file("/data/f", size, layout, readers, osts)]


def test_large_file_on_one_ost_matters_from_four_readers_on() -> None:
    assert codes(striped(1), 10 * GIB, 4) == ["narrow"]
    assert codes(striped(1), 10 * GIB, 3) == []
    assert codes(striped(1), 10 * GIB - 1, 4) == []
    assert codes(striped(3), 10 * GIB, 4) == ["narrow"]
    assert codes(striped(4), 10 * GIB, 4) == []


def test_one_gib_on_one_ost_matters_from_eight_readers_on() -> None:
    assert codes(striped(1), GIB, 8) == ["narrow"]
    assert codes(striped(1), GIB, 7) == []
    assert codes(striped(2), GIB, 8) == []
    assert codes(striped(1), GIB - 1, 1000) == []


def test_overstriping_counts_osts() -> None:
    layout = parse_lov(plain(Part(osts=(1, 2) * 4, count=8, pattern=0x201)))
    assert codes(layout, 10 * GIB, 4) == ["narrow"]


def test_stripes_so_large_that_one_ost_has_most_of_the_file() -> None:
    assert codes(striped(4, 3 << 30), 5 * GIB, 4) == []
    assert codes(striped(4, 0xFFFF0000), 10 * GIB, 4) == []
    wide_then_one = composite([
        Part(osts=tuple(range(8)), count=8, end=GIB),
        Part(osts=(9,), count=1, start=GIB, identity=2),
    ])  # fmt: skip
    (finding,) = judge_file("/f", 100 * GIB, parse_lov(wide_then_one), 16)
    assert finding.code == "narrow" and "99% of it on one" in finding.text


def test_progressive_layouts_are_good() -> None:
    layout = parse_lov(composite([
        Part(osts=(0,), count=1, end=GIB),
        Part(osts=(1, 2, 3, 4), count=4, start=GIB, end=4 * GIB, identity=2),
        Part(osts=tuple(range(8)), count=8, start=4 * GIB, identity=3),
    ]))  # fmt: skip
    assert codes(layout, 20 * GIB, 64) == []


def test_small_file_on_the_mdt_only_is_good() -> None:
    assert codes(parse_lov(plain(Part(count=0, pattern=MDT))), 60_000, 1000) == []


def test_released_and_stale_are_named() -> None:
    released = parse_lov(plain(Part(count=4, pattern=RAID0 | RELEASED)))
    (finding,) = judge_file("/data/f", GIB, released, 8)
    assert finding.code == "released" and finding.commands == ("lfs hsm_restore /data/f",)
    mirrors = composite([
        Part(osts=(1, 2, 3, 4), count=4, identity=0x10001, flags=INIT | STALE),
        Part(osts=(5,), count=1, identity=0x20002),
    ], mirrors=2)  # fmt: skip
    assert codes(parse_lov(mirrors), 20 * GIB, 8) == ["stale-mirror", "narrow"]


def test_where_all_osts_are_in_use_nothing_is_advised() -> None:
    assert codes(striped(1), 20 * GIB, 64, osts=1) == []
    assert codes(striped(2), 20 * GIB, 64, osts=2) == []
    assert codes(striped(1), 20 * GIB, 64, osts=2) == ["narrow"]


@given(st.integers(GIB, 100 * TIB), st.none() | st.integers(1, 2000))
def test_never_all_osts_and_never_more_than_there_are(size: int, osts: int | None) -> None:
    count = advised_osts(size, osts)
    assert 1 <= count <= min(450, osts or 450)
    assert size >= 16 * TIB or count <= 72
    for finding in judge_file("/f", size, striped(1), 100, osts):
        assert "-c -1" not in finding.commands[0]


def test_advice_grows_with_the_file() -> None:
    advised = [advised_osts(size, 1000) for size in (GIB, 10 * GIB, 100 * GIB, TIB, 20 * TIB)]
    assert advised == [4, 8, 24, 72, 128]


def test_too_wide() -> None:
    (finding,) = judge_file("/f", GIB, striped(451), 1)
    assert finding.code == "too-wide" and finding.commands == ("lfs migrate -c 4 /f",)
    assert codes(striped(450), GIB, 1) == []


def test_small_files_are_judged_by_their_number() -> None:
    assert judge_small_files("/data", 1000, LIMITS) is None
    finding = judge_small_files("/data", 1001, LIMITS)
    assert finding is not None and "pack them" in finding.text
    default, files = finding.commands
    assert default == "lfs setstripe -c 1 /data"
    assert files.startswith(
        "lfs find /data -type f -size -4M --stripe-count +1 --print0 | xargs -0"
    )
    assert files.endswith("lfs migrate -c 1")


def test_balance_needs_enough_objects_and_a_factor_of_three() -> None:
    def found(counts: dict[int, int], active: frozenset[int] | None = None) -> bool:
        sizes = {ost: count * GIB for ost, count in counts.items()}
        return judge_balance("/d", counts, sizes, active, LIMITS) is not None

    assert found({0: 100, 1: 10, 2: 10, 3: 10})
    assert not found({0: 29, 1: 10, 2: 10, 3: 10}), "1.97 times"
    assert not found({0: 10, 1: 1, 2: 1, 3: 1}), "13 objects prove nothing"
    assert not found({0: 100})
    assert found({0: 100}, frozenset(range(4))), "three OSTs hold nothing"


HOSTILE = ["/a b", "/a'b", "/a\nb", "/a\tb'c\\d", "/a$(touch x)`y`", "/é", "/\udcff\udc80", "-rf",
           "/\x1b[31m", "/a\n9", "/a!b"]  # fmt: skip


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("path", HOSTILE)
def test_command_words_are_one_printable_line_and_the_shell_reads_the_path_back(path: str) -> None:
    word = commands.shell_word(path)
    assert word.isprintable()
    done = subprocess.run(
        ["bash", "-c", f"printf %s {word}"], capture_output=True, check=True, timeout=20
    )
    want = path if not path.startswith("-") else "./" + path
    assert done.stdout.decode("utf-8", "surrogateescape") == want


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("path", [*HOSTILE, "/!!", "/\n!!", "/'\n'!echo", "/\n\\'!-1"])
def test_command_words_survive_the_history_of_an_interactive_shell(path: str) -> None:
    lines = f"set -o history -o histexpand\ntrue before\nprintf 'it is:%s.' {_word(path)}\n"
    done = subprocess.run(
        ["bash", "--norc", "--noprofile", "-i"],
        input=lines.encode("utf-8", "surrogateescape"),
        capture_output=True,
        check=False,
        timeout=20,
        start_new_session=True,
        env={"PATH": os.environ["PATH"], "HISTFILE": "/dev/null", "PS1": "", "LC_ALL": "C.UTF-8"},
    )
    want = path if not path.startswith("-") else "./" + path
    assert f"it is:{want}.".encode("utf-8", "surrogateescape") in done.stdout


def _word(path: str) -> str:
    return commands.shell_word(path)


@given(st.text(st.characters(codec="ascii", exclude_characters="\0"), min_size=1))
def test_plain_words_are_as_shlex_has_them(path: str) -> None:
    if path.isprintable() and not path.startswith("-"):
        assert shlex.split(commands.restripe(path, 8)) == ["lfs", "migrate", "-c", "8", path]


def test_mirrored_file_gets_another_mirror_and_keeps_those_it_has() -> None:
    """`lfs migrate` would leave it one."""
    mirrors = composite([
        Part(osts=(1,), count=1, identity=0x10001, pool="flash"),
        Part(osts=(5,), count=1, identity=0x20002, pool="archive"),
    ], mirrors=2)  # fmt: skip
    (finding,) = judge_file("/f", 20 * GIB, parse_lov(mirrors), 8)
    assert finding.commands == ("lfs mirror extend -N -c 8 -p flash /f",)
    assert "add such a mirror, then take the old ones of 2 off" in finding.text


def test_pool_is_kept_unless_its_name_is_odd() -> None:
    assert commands.restripe("/f", 4, "flash") == "lfs migrate -c 4 -p flash /f"
    assert commands.restripe("/f", 4, "-x;rm") == "lfs migrate -c 4 /f"


def template(count: int) -> DirectoryDefault:
    return DirectoryDefault(parse_lov(plain(Part(count=count)), is_directory=True))


def test_checkpoints_a_file_per_rank() -> None:
    writers = Writers(8, 64, habit="file-per-rank")
    assert judge_checkpoints("/c", template(1), writers, 32) is None
    assert judge_checkpoints("/c", template(4), writers, 32) is None
    finding = judge_checkpoints("/c", template(8), writers, 32)
    assert finding is not None and finding.code == "default-wide"
    assert finding.commands == ("lfs setstripe -c 1 /c",)
    assert judge_checkpoints("/c", template(-1), writers, 4) is None, "only four OSTs"
    assert judge_checkpoints("/c", template(-1), writers, None) is None, "not known"


def test_checkpoints_in_one_shared_file() -> None:
    writers = Writers(16, 128, habit="shared-file")
    finding = judge_checkpoints("/c", DirectoryDefault(None), writers, 100)
    assert finding is not None and finding.commands == ("lfs setstripe -c 16 /c",)
    assert judge_checkpoints("/c", template(8), writers, 100) is None
    few = judge_checkpoints("/c", template(1), writers, 6)
    assert few is not None and few.facts["advised_shared"] == 6
    many = Writers(500, 4000, habit="shared-file")
    capped = judge_checkpoints("/c", template(1), many, 1000)
    assert capped is not None and capped.facts["advised_shared"] == 72


def test_checkpoints_of_unknown_habit_are_wrong_only_for_both() -> None:
    assert judge_checkpoints("/c", template(1), Writers(16, 128), 100) is None
    assert judge_checkpoints("/c", template(16), Writers(16, 128), 100) is None
    assert judge_checkpoints("/c", template(17), Writers(16, 128), 100) is not None
    assert judge_checkpoints("/c", template(-1), Writers(2, 16), 100) is not None
    assert judge_checkpoints("/c", template(-1), Writers(1, 1), 100) is None, "one writer"


def test_progressive_template_fits_all_checkpoints() -> None:
    parts = [
        Part(count=1, flags=0, end=GIB, identity=0),
        Part(count=-1, flags=0, start=GIB, identity=0),
    ]
    default = DirectoryDefault(parse_lov(composite(parts), is_directory=True))
    for habit in ("unknown", "file-per-rank", "shared-file"):
        assert judge_checkpoints("/c", default, Writers(16, 128, None, habit), 100) is None  # type: ignore[arg-type]
