"""One number out of a kernel text."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_io.host.fields import first_number, number_after, pressure_total_us

PSI = Path(__file__).parents[1] / "fixtures" / "host" / "cgroup"


def test_the_label_must_begin_a_line() -> None:
    text = b"anon_thp 5\nxanon 4\nanon 3\nanon 2\n"
    assert number_after(text, b"anon ") == 3
    assert number_after(text, b"anon_thp ") == 5
    assert number_after(text, b"file ") is None
    assert number_after(b"", b"anon ") is None


@pytest.mark.parametrize("text", [b"max\n", b"", b"-5", b"x5"])
def test_what_is_no_number(text: bytes) -> None:
    assert first_number(text) is None


LABELS = st.text("abcdefg_", min_size=1, max_size=12)


@given(st.dictionaries(LABELS, st.integers(0, 2**64), min_size=1))
def test_every_line_is_found(lines: dict[str, int]) -> None:
    text = "".join(f"{name} {value}\n" for name, value in lines.items()).encode()
    for name, value in lines.items():
        assert number_after(text, f"{name} ".encode()) == value


@given(st.binary(), st.binary(min_size=1))
def test_no_text_breaks_it(text: bytes, label: bytes) -> None:
    found = number_after(text, label)
    assert found is None or found >= 0
    assert pressure_total_us(text, b"some") is None or b"some" in text


@pytest.mark.parametrize(
    ("name", "some", "full"),
    [
        ("psi_001_cpu", 157656722, None), ("psi_001_io", 55963282, 30048725),
        ("psi_001_memory", 3559632828, 3300487258), ("psi_002_cpu", 424932863, 387245317),
        ("psi_002_io", 63881296, 62029809), ("psi_002_memory", 168828, 154404),
        ("psi_002_irq", None, 100648410), ("io_pressure_root", 19182459659, 18950071131),
    ],
)  # fmt: skip
def test_pressure_samples(name: str, some: int | None, full: int | None) -> None:
    text = (PSI / f"{name}.txt").read_bytes()
    assert (pressure_total_us(text, b"some"), pressure_total_us(text, b"full")) == (some, full)
