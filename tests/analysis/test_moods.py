"""A month's rows of a table are looked at in evenly spread seconds, and say the same."""

from __future__ import annotations

import pytest

from slurm_io.analysis import moods
from slurm_io.analysis.inputs import Tables
from slurm_io.analysis.moods import find_moods, in_moods, latency_contrast, most_stalled
from slurm_io.analysis.picture import Picture, take_picture
from slurm_io.analysis.thresholds import Thresholds, Witness
from tests.analysis.rules.stores import Row, job, put
from tests.analysis.stand_in import one_rank, train

COLUMNS = ("device", "r_await", "stuck")


def picture() -> Picture:
    """Every third block of ten seconds waits for a disk that answers in 60 ms, else in 1 ms."""

    def wait(k: int) -> tuple[float, str]:
        return (0.9, "storage") if k // 10 % 3 == 0 else (0.001, "cpu")

    store = job(train(one_rank(0), 600, 0.1, wait), fstype="ext4")
    slow = {row["mono_ns"] // 10**9 for row in store.nodes["n1"].tables["waits"]
            if row["n_storage"] > 5}  # fmt: skip

    def row(second: int) -> list[Row]:
        waits = second in slow
        return [
            {"device": f"nvme{n}", "role": "disk", "r_await": 60.0 if waits and n == 0 else 1.0,
             "stuck": waits and n == 0}
            for n in range(4)
        ]  # fmt: skip

    put(store, "block", row)
    return take_picture(store, Thresholds())


@pytest.mark.parametrize("enough", [10**6, 200])
def test_fewer_rows_say_the_same(enough: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = picture()
    mood = find_moods(seen.causes)
    whole = in_moods(seen.tables, "block", COLUMNS, seen.causes, mood)
    monkeypatch.setattr(moods, "_ENOUGH_ROWS", enough)
    rows = in_moods(Tables(seen.store), "block", COLUMNS, seen.causes, mood)
    assert (rows.height < whole.height / 5) is (enough == 200)
    found = latency_contrast("b", "m", rows, ["node", "device"], "r_await", (3.0, 5.0, 50.0))
    assert found.agrees
    assert found.value == 60.0
    stuck = most_stalled(rows.filter(rows["stuck"]), mood, ["node", "device"], Witness())
    assert stuck is not None
    assert stuck["device"] == "nvme0"
    assert stuck["share"] == pytest.approx(1.0, abs=0.15)
