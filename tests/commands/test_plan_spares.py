"""``slurm-io plan spares``: known values with their base, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slurm_io.commands import cli
from slurm_io.errors import UsageError


def plan(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["plan", "spares", *arguments])


def test_known_needs_with_their_base() -> None:
    done = plan("--nodes", "48", "--rate", "0.03", "--cover", "24", "--cover", "168", "--json")
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert [one["spares"] for one in told["needs"]] == [2, 5]
    assert told["failures_per_week"] == pytest.approx(1.44)
    assert told["job_mtbf_h"] == pytest.approx(116.7, abs=0.1)
    assert (told["model"], told["rate_base"]) == ("Poisson", "as given")


def test_a_mean_time_between_failures_says_the_same() -> None:
    told = json.loads(plan("--nodes", "48", "--node-mtbf", "5600", "--json").stdout)
    assert told["rate"] == pytest.approx(0.03)
    assert told["rate_base"] == "168 h / 5600 h"


def test_every_number_has_its_base_in_words() -> None:
    text = plan("--nodes", "48", "--rate", "0.03", "--cover", "24", "--copy", "1.5").stdout
    assert "48 nodes x 0.03 failures per node and week (as given) = 1.44 a week" in text
    assert "covered again within 24 h: 2 spares (0.21 failures expected" in text
    assert "loses 829 GPU-h a week" in text
    assert "one spare costs 1,344 (168 h x 8 GPUs)" in text
    assert "does not pay by itself: -515 GPU-h a week" in text
    assert "break-even at 2.33 failures a week, expected 1.44" in text
    assert "runs work that gives way" in text


def test_a_price_makes_money_of_it() -> None:
    wanted = ("--nodes", "48", "--rate", "0.03", "--copy", "3", "--price", "2")
    (option,) = json.loads(plan(*wanted, "--json").stdout)["economics"]
    assert option["saved_usd"] == pytest.approx(2 * (1658.88 - 1344))
    assert "one spare pays: +315 GPU-h a week = +630 USD" in plan(*wanted).stdout


def test_bursts_are_named_and_need_more() -> None:
    wanted = ("--nodes", "48", "--rate", "0.03", "--cover", "336", "--json")
    calm, bursts = plan(*wanted), plan(*wanted, "--dispersion", "3")
    assert json.loads(bursts.stdout)["model"] == "negative binomial"
    assert (
        json.loads(bursts.stdout)["needs"][0]["spares"]
        > json.loads(calm.stdout)["needs"][0]["spares"]
    )


def test_the_site_s_rate_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text("[spares]\nfailures_per_node_week = 0.1\n")
    monkeypatch.setattr("slurm_io.config.DEFAULT_PATH", str(tmp_path / "site.toml"))
    told = json.loads(plan("--nodes", "48", "--json").stdout)
    assert told["rate"] == 0.1
    assert len(told["needs"]) == 5


@pytest.mark.parametrize(
    "wrong",
    [
        (),
        ("--nodes", "0"),
        ("--nodes", "48", "--confidence", "1"),
        ("--nodes", "48", "--dispersion", "0.5"),
        ("--nodes", "48", "--cover", "-3"),
        ("--nodes", "48", "--useful", "2"),
    ],
)
def test_what_cannot_be_is_a_usage_error(wrong: tuple[str, ...]) -> None:
    assert plan(*wrong).exit_code == 2


def test_two_rates_and_absurd_numbers_are_refused() -> None:
    from slurm_io.errors import UsageError

    for wrong in (("--rate", "1", "--node-mtbf", "5"), ("--rate", "100", "--cover", "1e9")):
        done = plan("--nodes", "48", *wrong)
        assert isinstance(done.exception, UsageError)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--rate", "nan"), ("--cover", "inf"), ("--cover", "nan"), ("--node-mtbf", "nan"),
        ("--copy", "1", "--swap", "inf"), ("--copy", "1", "--price", "1e308"),
        ("--dispersion", "nan"), ("--confidence", "nan"),
    ],
)  # fmt: skip
def test_what_is_no_number_to_reckon_with_is_wrong_use(arguments: tuple[str, ...]) -> None:
    done = plan("--nodes", "4", *arguments)
    assert done.exit_code == 2
    assert "Invalid value for" in done.stderr


@pytest.mark.parametrize("option", ["--price", "--save-interval", "--swap", "--useful"])
def test_an_option_that_would_be_left_out_is_refused(option: str) -> None:
    done = plan("--nodes", "4", option, "0.5")
    assert isinstance(done.exception, UsageError)
    assert "--copy" in str(done.exception)
    assert plan("--nodes", "4", option, "0.5", "--copy", "1").exit_code == 0


def test_no_chance_of_a_failure_is_rounded_away() -> None:
    text = plan("--nodes", "48", "--confidence", "0.999999", "--cover", "24").stdout
    assert ">= 99.9999%," in text
    assert "enough in more than 99.99% of cover times" in text
    assert "enough in 100.00%" in plan("--nodes", "48", "--rate", "0").stdout
