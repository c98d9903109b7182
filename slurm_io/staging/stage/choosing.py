"""Which engine serves a source, and whether it can now."""

from __future__ import annotations

from slurm_io.errors import RegistryError, UsageError
from slurm_io.staging.stage.engines.base import ENGINES, PREFERRED, Engine
from slurm_io.staging.stage.model import SourceSpec


def engine_for(
    source: SourceSpec, asked: str | None, limited: bool = False
) -> tuple[str, Engine] | str:
    """Name and engine, or why the source cannot be used. Raises UsageError for an unknown name.

    `limited`: only an engine that can keep a bandwidth limit will do.
    """
    names = _names(source, asked)
    reasons = []
    for name in names:
        try:
            kind = ENGINES.get(name)
        except RegistryError as error:
            reasons.append(str(error))
            continue
        missing = kind.missing()
        if limited and not getattr(kind, "keeps_bandwidth", True):
            missing = "it cannot keep a bandwidth limit"
        if missing is None:
            return _opened(name, kind, source)
        reasons.append(f"{name}: {missing}")
    return f"{source.label}: {'; '.join(reasons) or 'no engine reads this kind of source'}"


def _names(source: SourceSpec, asked: str | None) -> tuple[str, ...]:
    if asked is None:
        return PREFERRED[source.kind]
    try:
        fits = source.kind in ENGINES.get(asked).kinds
    except RegistryError as error:
        raise UsageError(str(error)) from error
    return (asked,) if fits else PREFERRED[source.kind]


def _opened(name: str, kind: type[Engine], source: SourceSpec) -> tuple[str, Engine] | str:
    engine = kind(source)
    problem = engine.problem()
    if problem is None:
        return name, engine
    engine.close()
    return f"{source.label}: {problem}"
