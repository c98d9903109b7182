"""Recorded decoys: GPUs that became slower by themselves."""

from __future__ import annotations

from tests.analysis.rules.stores import Row, healthy_gpu
from tests.analysis.stand_in import StandInStore
from tests.grid.model import BLAMES_STORAGE, F01, NOT_ILL, Recorded
from tests.grid.recordings import ranks_on, replace_rows, store_of, train_in_lockstep

HOT = {"throttle_reasons": 0x20, "sm_clock_mhz": 1100, "temperature_c": 91}


def thermal_drop() -> tuple[StandInStore, float]:
    """GPU 3 gets too hot half way through, and every step takes 60 % longer from then on."""
    ranks = ranks_on(1, 4)
    truth = train_in_lockstep(
        ranks, 600, lambda k: 0.1 if k < 300 else 0.16, lambda rank, k: (0.001, "cpu")
    )
    store = store_of(ranks)
    hot_from = 100 + int((ranks[0].now - 100) * 0.4)
    store.nodes["n1"].meta["sources"]["gpu"] = {
        "state": "on",
        "gpus": [{"gpu": n, "vendor": "nvidia", "name": "H100"} for n in range(8)],
        "whose": {"known": True},
    }

    def row(second: int) -> list[Row]:
        hot = second >= hot_from
        return [healthy_gpu(n) | (HOT if hot and n == 3 else {}) for n in range(8)]

    replace_rows(store, "gpu", row, "n1")
    return store, truth


SCENARIOS = (
    Recorded(
        name="recorded-thermal-drop",
        why=(thermal_drop.__doc__ or "").strip(),
        make=thermal_drop,
        verdicts=NOT_ILL,
        fired=frozenset({"F20"}),
        quiet=F01 | BLAMES_STORAGE,
        decoy=True,
    ),
)
