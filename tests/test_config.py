"""The site's configuration: every mistake is named with its file, its key and the way out."""

import tomllib
from pathlib import Path

import pytest

from slurm_io import config_page
from slurm_io.config import SECTIONS, Config, load, parse, settings_of
from slurm_io.errors import ConfigError, SpecError
from slurm_io.model import SamplerSpec
from slurm_io.prolog.own_settings import prove_own_settings
from slurm_io.spec import spec_from_pairs

EXAMPLE = """\
spool_dir = "/data/spool"
[sampler]
waits_hz = 5
collectors_off = ["block"]
[policy]
bad_request = "stop"
[partition.gpu]
check = "warn"
silence = ["F03", "F10"]
price = 2.5
"""


def written(folder: Path, text: str) -> str:
    path = folder / "config.toml"
    path.write_text(text)
    return str(path)


def test_a_file_changes_what_it_names_and_nothing_else(tmp_path: Path) -> None:
    config = load(written(tmp_path, EXAMPLE))
    assert config.spool_dir == "/data/spool"
    assert config.runtime_dir == Config().runtime_dir
    assert config.sampler.waits_hz == 5.0
    assert isinstance(config.sampler.waits_hz, float)
    assert config.sampler.collectors_off == ("block",)
    assert config.policy.bad_request == "stop"
    assert config.partitions["gpu"].silence == ("F03", "F10")
    assert config.partitions["gpu"].price_usd_h == 2.5


def test_no_path_and_no_default_file_means_all_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slurm_io.config.DEFAULT_PATH", "/nonexistent/config.toml")
    assert load() == Config()


def test_defaults_of_the_sampler_are_those_of_its_own_spec() -> None:
    spec = SamplerSpec.__dataclass_fields__
    for key in ("interval_s", "waits_hz", "budget_share", "spool_max_bytes", "max_lifetime_s"):
        assert getattr(Config().sampler, key) == spec[key].default, key


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("spool_dri = '/x'", ["spool_dri", "did you mean 'spool_dir'"]),
        ("[sampelr]\n", ["sampelr", "did you mean 'sampler'"]),
        ("[sampler]\nwait_hz = 3", ["sampler.wait_hz", "did you mean 'waits_hz'"]),
        ("[sampler]\nwaits_hz = 'x'", ["sampler.waits_hz", "number", "'x'"]),
        ("[sampler]\nwaits_hz = true", ["sampler.waits_hz", "number"]),
        ("[sampler]\nwaits_hz = nan", ["sampler.waits_hz", "between 0.5 and 50"]),
        ("[sampler]\nwaits_hz = 0.1", ["sampler.waits_hz", "between 0.5 and 50"]),
        ("[sampler]\nspool_max_bytes = 2e9", ["spool_max_bytes", "whole number"]),
        ("[sampler]\nenabled = 1", ["sampler.enabled", "true or false"]),
        ("[sampler]\ncollectors_off = 'block'", ["collectors_off", "list of strings"]),
        ("[epilog]\ngrace_s = -1", ["epilog.grace_s", "0"]),
        ("[policy]\nbad_request = 'drain'", ["bad_request", "record, warn, stop"]),
        ("spool_dir = 'relative'", ["spool_dir", "absolute path"]),
        ("spool_dir = '/a/../etc'", ["spool_dir", "absolute path"]),
        ("spool_dir = ''", ["spool_dir", "absolute path"]),
        ("spool_dir = '/'", ["spool_dir", "absolute path"]),
        ("sampler = 3", ["sampler is a section", "[sampler]"]),
        ("[store]\nsite_path = '/site'", ["site_path and service_user"]),
        ("[partition.gpu]\ncheck = 'x'", ["partition.gpu", "warn, hold or off"]),
        ("[partition.gpu]\nchekc = 'off'", ["partition.gpu", "unknown key 'chekc'"]),
        ("spool_dir = ", ["not valid TOML"]),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, words: list[str]) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(path)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_the_default_file_may_be_absent_whoever_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The entry scripts name it always: a site without a file would have no job profiled."""
    absent = str(tmp_path / "absent.toml")
    monkeypatch.setattr("slurm_io.config.DEFAULT_PATH", absent)
    assert load(absent) == Config()


def test_an_endless_file_is_refused() -> None:
    with pytest.raises(ConfigError, match="larger than"):
        load("/dev/zero")


def test_a_named_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load(str(tmp_path / "absent.toml"))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load(str(path))


def test_every_setting_gives_a_meaning_a_reason_and_a_default_that_passes_its_own_check() -> None:
    for name, kind in {"": Config, **SECTIONS}.items():
        values = {key: kind.__dataclass_fields__[key].default for key in settings_of(kind)}
        for key, setting in settings_of(kind).items():
            assert setting.doc, key
            assert setting.reason, key
        as_toml = {key: list(v) if isinstance(v, tuple) else v for key, v in values.items()}
        parse({name: as_toml} if name else as_toml)


ROOM = {"prolog": {"deadline_s": 5.3}, "checks": {"drain_exit": True}}


def test_a_drain_inside_the_prolog_must_fit_into_it() -> None:
    """2 s of checks, 2 s to settle and 1.3 s to decide and write down."""
    assert parse(ROOM).checks.drain_exit
    with pytest.raises(ConfigError) as caught:
        parse({**ROOM, "prolog": {"deadline_s": 5.2}}, "site.toml")
    text = str(caught.value)
    for word in ("site.toml: checks.drain_exit", "prolog.deadline_s", "checks.deadline_s",
                 "checks.settle_s", "= 5.3 s, not 5.2"):  # fmt: skip
        assert word in text
    assert "\n" not in text
    assert not parse({}).checks.drain_exit, "without the key the defaults need no such room"


def test_the_longest_deadline_of_any_check_needs_the_room() -> None:
    own = {"deadline_s": 4.0}
    with pytest.raises(ConfigError, match=r"check\.residency\.deadline_s .* = 7\.3 s"):
        parse({**ROOM, "check": {"residency": own}})
    assert parse({**ROOM, "check": {"residency": {**own, "enabled": False}}})
    assert parse({**ROOM, "checks": {**ROOM["checks"], "enabled": False}, "prolog": {}})
    with pytest.raises(ConfigError, match=r"checks\.deadline_s"):
        parse({"checks": {"drain_exit": True}})


def test_the_page_tells_every_key_and_is_fresh() -> None:
    text = config_page.page()
    for kind in (Config, *SECTIONS.values()):
        for key in settings_of(kind):
            assert f"| `{key}` |" in text
    assert config_page.main(["--check"]) == 0


def test_the_pages_example_can_be_used() -> None:
    config = parse(tomllib.loads(config_page.EXAMPLE))
    prove_own_settings(config, "example")
    assert config.partitions["gpu"].price_usd_h == 2.5


def test_the_page_tells_every_word_a_job_may_use() -> None:
    with pytest.raises(SpecError) as caught:
        spec_from_pairs({"nonsense": "1"})
    assert str(caught.value).endswith(f"known: {', '.join(config_page.WORDS)}")


def test_the_page_writes_numbers_out() -> None:
    assert "e+" not in config_page.page()


@pytest.mark.parametrize("dataset", ["a b", "c4@c1-00", "/data/c4", "", "-x", "x" * 200])
def test_a_dataset_that_no_job_could_ask_for_is_refused(dataset: str) -> None:
    with pytest.raises(ConfigError, match="no job can ask for this name"):
        parse({"dataset": {dataset: {"local": "/data"}}})


@pytest.mark.parametrize("path", ["/lib/%N", "/lib/%n/x", "/lib/%h", "/lib/100%%"])
def test_the_state_folder_may_hold_the_nodes_name(path: str) -> None:
    assert parse({"state_dir": path}).state_dir == path


@pytest.mark.parametrize("path", ["/lib/%u", "/lib/%j", "/lib/%", "/lib/%%%", "/lib/%%%u"])
def test_the_state_folder_depends_on_no_job(path: str) -> None:
    with pytest.raises(ConfigError, match="%N, %n, %h and %%"):
        parse({"state_dir": path})


@pytest.mark.parametrize("text", ["x = " + "1" * 5000, "x = " + "[" * 100_000])
def test_what_toml_can_say_and_python_cannot_read_is_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"c.toml: not valid TOML"):
        load(str(tmp_path / "c.toml"))
