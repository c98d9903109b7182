"""From a site's configuration and a command's words to an order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slurm_io.config import Config
from slurm_io.errors import HostError, UsageError
from slurm_io.filesystems.sizes import parse_size
from slurm_io.staging.datasets import state_folder
from slurm_io.staging.manifest.files import read_header
from slurm_io.staging.stage import sources
from slurm_io.staging.stage.model import SourceSpec
from slurm_io.staging.stage.order import StageOrder
from slurm_io.staging.stage.target_folder import open_target
from slurm_io.staging.verify.by_hand import What, from_paths, from_registry


@dataclass(frozen=True)
class Words:
    """What a person said, as text; None = nothing. `sources_json`, `repair_lines`: contents."""

    name: str | None = None
    path: str | None = None
    manifest: str | None = None
    tier: str | None = None
    given: Sequence[str] = ()
    sources_json: str | None = None
    repair_lines: str | None = None
    engine: str | None = None
    streams: int | None = None
    bandwidth: str | None = None
    delete_extra: bool = False
    accept_sizes: bool = False


def order_of(config: Config, words: Words) -> StageOrder:
    """The order. Raises SlurmIoError for words that make none."""
    what = what_of(config, words)
    if what.manifest is None:
        raise UsageError("staging needs a manifest: --manifest, or set it in [dataset.NAME]")
    settings = config.stage
    return StageOrder(
        name=what.name,
        tier=what.tier,
        path=what.path,
        manifest=what.manifest,
        state_dir=state_folder(config),
        sources=_sources(config, what, words),
        content_id=what.content_id,
        engine=words.engine,
        streams=words.streams or settings.streams,
        bandwidth_bytes_s=_least(settings.bandwidth_bytes_s, words.bandwidth),
        free_share=settings.free_share,
        debris_age_s=settings.debris_age_s,
        repair=None if words.repair_lines is None else sources.repair_list(words.repair_lines),
        delete_extra=words.delete_extra,
        accept_sizes=words.accept_sizes,
    )


def what_of(config: Config, words: Words) -> What:
    """Which dataset, in which folder. Raises SlurmIoError."""
    if bool(words.name) == bool(words.path):
        raise UsageError("give a dataset's NAME, or --path DIR (with --manifest FILE)")
    if words.path:
        _refuse_led_astray(words.path)
        return from_paths(words.path, words.manifest, words.tier)
    assert words.name is not None
    what = from_registry(config, words.name, words.tier)
    if words.manifest is None:
        return what
    return What(what.name, what.tier, what.path, words.manifest, what.content_id)


def _refuse_led_astray(path: str) -> None:
    """Before links in it are resolved: some may be a user's. Raises HostError."""
    try:
        open_target(path).close()
    except FileNotFoundError:
        return  # it is made later
    except OSError as error:
        raise HostError(f"the folder {path!a} cannot be opened: {error.strerror}") from error


def _sources(config: Config, what: What, words: Words) -> tuple[SourceSpec, ...]:
    if words.sources_json is not None:
        if words.given:
            raise UsageError("--from and --sources: give one of them")
        return sources.from_json(words.sources_json)
    known = {"path": _shared(config, what), "s3": _in_s3(what)}
    if words.given:
        return sources.named(words.given, known)
    return sources.preferred(config.stage.engines, known)


def _shared(config: Config, what: What) -> list[str]:
    """The shared copy, as a source of a local one."""
    if what.name not in config.datasets or what.tier != "local":
        return []
    if not config.datasets[what.name].shared:
        return []
    return [from_registry(config, what.name, "shared").path]


def s3_places(manifest: str) -> list[str]:
    """Buckets that a manifest names as its sources. Raises ManifestError."""
    return [place for place in read_header(manifest).sources if place.startswith("s3://")]


def _in_s3(what: What) -> list[str]:
    assert what.manifest is not None
    return s3_places(what.manifest)


def _least(site: int, asked: str | None) -> int:
    """The tighter of two limits; 0 = none."""
    size = None if asked is None else parse_size(asked.removesuffix("/s"))
    if asked is not None and (size is None or size.size_bytes < 1):
        raise UsageError(f"--bandwidth {asked!a:.40} is no number of bytes a second, as 500M")
    limits = [limit for limit in (site, size.size_bytes if size else 0) if limit]
    return min(limits, default=0)
