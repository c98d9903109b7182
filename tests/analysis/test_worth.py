"""GPU hours and dollars of a finding: the formula holds, and its base is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slurm_io import config
from slurm_io.analysis.api import analyse_store
from slurm_io.analysis.reports.base import FORMATS
from slurm_io.analysis.thresholds import Site, Thresholds, of_config
from tests.analysis.report_shape import problems
from tests.analysis.stand_in import StandInStore
from tests.analysis.test_asked import slow_store


def worth_of(store: StandInStore, rule: str, site: Site | None = None) -> dict[str, Any]:
    thresholds = replace(Thresholds(), site=site or Site())
    report = analyse_store(store, thresholds)
    assert problems(report) == []
    finding = next(one for one in report["findings"] if one["rule"] == rule)
    found: dict[str, Any] = finding["worth"]
    assert found["gpu_hours"]["value"] == pytest.approx(finding["gpu_hours"])
    return found


@pytest.mark.parametrize("rule", ["F01", "F04"])
def test_the_formula_gives_what_the_report_says(rule: str) -> None:
    found = worth_of(slow_store("slurm-io: price=3"), rule)
    hours = found["share"]["value"] * found["gpus"] * found["hours"]
    assert hours == pytest.approx(found["gpu_hours"]["value"], rel=1e-3)
    assert found["cost"]["value"] == pytest.approx(3 * hours, abs=0.006)
    assert found["formula"] == "gpu_hours = share x GPUs x hours; cost = gpu_hours x price"
    assert found["base"].startswith("training GPU-seconds")


def test_storage_has_a_range_around_its_value() -> None:
    found = worth_of(slow_store("slurm-io: price=3"), "F01")
    for name in ("share", "gpu_hours", "cost"):
        low, value, high = (found[name][end] for end in ("low", "value", "high"))
        assert low <= value <= high
        assert low < high


def test_without_a_price_no_dollars_are_named() -> None:
    found = worth_of(slow_store(), "F01")
    assert found["price_usd_h"] is None
    assert "cost" not in found
    assert "USD" not in found["text"]


def test_the_sites_price_is_for_jobs_that_name_none() -> None:
    site = Site(price_usd_h=2.5)
    assert worth_of(slow_store(), "F01", site)["price_usd_h"] == 2.5
    assert worth_of(slow_store("slurm-io: price=4"), "F01", site)["price_usd_h"] == 4.0
    assert worth_of(slow_store("slurm-io: price=0"), "F01", site)["price_usd_h"] == 0.0


def test_no_price_in_the_configuration_is_no_price_of_zero() -> None:
    assert of_config(config.Config()) == Thresholds()
    told = of_config(config.parse({"rules": {"price_usd_h": 2.5, "site_dir": "/etc/rules"}}))
    assert told.site == Site("/etc/rules", 2.5)


def test_the_text_report_shows_the_formula_with_its_numbers() -> None:
    text = FORMATS.get("text")(analyse_store(slow_store("slurm-io: price=3")))
    assert "% of 1000 GPUs x " in text
    assert "x 3.00 USD = " in text
