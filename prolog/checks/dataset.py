"""The dataset a job named is there, whole, and the version the job asked for.

*What it checks*: the dataset's folder against what this node recorded when it last verified it
(``slurm-io dataset verify NAME --record``), else against the manifest. How deep is the dataset's
own ``level``: 0 the record (this machine, this file system, this version, ready); 1 stat of every
file, and what does not belong there; 2 residency and probes of the ends of some files; 3 what time
is left goes into full hashes of index files and of a random sample. Node-local datasets are looked
at on every node, shared ones by the job's leader only. It runs as the job's user and reads only.

*Why it matters*: a job whose data is missing or half copied fails after its GPUs were allocated,
and one that reads the wrong version does not fail at all.

*Needs*: a record on this node, or a small manifest in JSON Lines; the user may read the data.

*Answers*: OK. DEGRADED: extra files or debris, evicted files, or files whose ctime moved since they
were verified. FAIL: no such dataset or tier, folder missing or unreadable, another version, files
missing, of another size, replaced, or with other content. The fault is the job's, but the node's
when the mount below the folder is configured and absent. UNKNOWN: neither record nor manifest, or
the time was over: with what is not proven.

A version asked for by its id (``dataset=NAME@c1-...``) is OK when this node's record says that it
is here, whatever the manifest describes by now; FAIL when the record is of another version, or when
none can be used and the manifest describes another version. Ids are compared whole: the beginning
of one is a FAIL which names the id it may stand for. Upper and lower case are one.

*What to do*: stage the dataset again (``slurm-io dataset verify NAME --level 4 --repair-list FILE``
says which files), then ``slurm-io dataset verify NAME --level 4 --record`` on the node.

*Known false alarms*: chmod or chown of a verified dataset moves every ctime: verify it again with
level 4 and --record. A dataset staged anew without --record is a "wrong version" until then. A
node image that hands out one machine-id and one host name to many nodes: give each its own.

*Settings*: ``probe_files``, ``manifest_files_max``, ``extra``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from slurm_io.config import Setting, _key, read_section
from slurm_io.model import CheckResult
from slurm_io.prolog.checks.base import CHECKS, CheckContext, check
from slurm_io.records import dataclass

if TYPE_CHECKING:
    from slurm_io.staging.datasets import Place
    from slurm_io.staging.verify.on_node import Looked

_LISTED_MAX = 20
_BUDGET_SHARE = 0.85


@dataclass(frozen=True)
class Settings:
    """[check.dataset]: its own keys."""

    probe_files: int = _key(
        100, Setting("files probed at level 2", "15 ms CPU; the rest is chance", "count", 0, 100000)
    )
    manifest_files_max: int = _key(
        5000,
        Setting(
            "without a record, larger manifests are not read in the prolog",
            "15 µs CPU a file",
            "count",
            0,
        ),
    )
    extra: str = _key(
        "degraded",
        Setting(
            "what files make that no manifest names: degraded, or fine",
            "some loaders read every file they find",
            choices=("degraded", "fine"),
        ),
    )


def _names_dataset(context: CheckContext) -> bool:
    return context.spec.dataset is not None


@CHECKS.register("dataset")
@check(
    kind="job",
    scope="node",
    identity="user",
    policy="warn",
    applies=_names_dataset,
    needs_for_dataset=(
        "slurm_io.staging.manifest.files",
        "slurm_io.staging.verify.l2",
        "slurm_io.staging.verify.on_node",
    ),
)
def dataset(context: CheckContext) -> list[CheckResult]:
    """One result, none when the job named no dataset or another node looks."""
    if context.spec.dataset is None:
        return []
    from slurm_io.errors import SpecError
    from slurm_io.staging.datasets import Names, place_of

    settings = read_section(Settings, context.own, "configuration", "check.dataset")
    names = Names(context.node, context.user, context.job)
    try:
        place = place_of(context.config, context.spec, names)
    except SpecError as error:
        return [CheckResult("dataset", "FAIL", "job", str(error), context.spec.dataset)]
    if place is None or (place.tier == "shared" and not context.leader):
        return []
    if (fault := _no_id(place)) is not None:
        return [CheckResult("dataset", "FAIL", "job", fault, place.name)]
    return [_judge(context, place, _look(context, settings, place))]


def _no_id(place: Place) -> str | None:
    """Why what was asked for cannot be the id of any version; None when it can."""
    if place.content_id is None:
        return None
    from slurm_io.errors import ManifestError
    from slurm_io.staging.manifest.content_id import PATTERN
    from slurm_io.staging.manifest.files import read_header

    if PATTERN.fullmatch(place.content_id):
        return None
    text = f"dataset {place.name!a}: {place.content_id!a} is no content id (c1- and 32 hex digits)"
    try:
        described = read_header(place.manifest).content_id if place.manifest else ""
    except ManifestError:
        described = ""
    if described.startswith(place.content_id):
        return f"{text}; if {described} is meant, ask for {place.name}@{described}"
    return f"{text}; slurm-io dataset list shows what there is"


def _look(context: CheckContext, settings: Settings, place: Place) -> Looked:
    from slurm_io.staging.datasets import state_folder
    from slurm_io.staging.verify.identity import Roots
    from slurm_io.staging.verify.on_node import NodeLook
    from slurm_io.staging.verify.work import Options

    options = Options(
        probe_files=settings.probe_files,
        extra_is_fine=settings.extra == "fine",
        listed_max=_LISTED_MAX,
        workers=2,
    )
    look = NodeLook(
        place,
        state_folder(context.config, context.node),
        settings.manifest_files_max,
        f"{_command(place)} --record",
        Roots(proc=context.proc_root),
    )
    return look.look(max(0.01, context.budget_s * _BUDGET_SHARE), options)


def _judge(context: CheckContext, place: Place, looked: Looked) -> CheckResult:
    answer = looked.answer
    absent = _absent_mount(context, place, looked) if answer.answer == "FAIL" else None
    return CheckResult(
        check="dataset",
        answer=answer.answer,
        kind="job" if absent is None else "node",
        text=_words(context, place, looked, absent),
        subject=place.name,
        facts=_facts(place, looked, absent),
        not_looked_at=tuple(dict.fromkeys((*looked.notes, *answer.not_looked_at))),
        commands=() if answer.answer == "OK" else (_remedy(place, looked),),
    )


def _absent_mount(context: CheckContext, place: Place, looked: Looked) -> str | None:
    """The mount point below a path of the registry that is configured, and where nothing is."""
    if place.name.startswith("/"):
        return None
    from slurm_io.staging.verify.absent_mount import absent_mount

    settings = context.config.check.get("mounts")
    required = settings.own.get("required", ()) if settings is not None else ()
    points = [words[0] for words in (str(line).split() for line in required) if words]
    if looked.record is not None:
        points.append(looked.record.filesystem.mount_point)
    return absent_mount(place.path, points, context.proc_root)


def _words(context: CheckContext, place: Place, looked: Looked, absent: str | None) -> str:
    """One line: what, where, what to do."""
    from slurm_io.staging.manifest.paths import printable

    answer = looked.answer
    where = f"dataset {place.name!a} in {printable(place.path)} on node {context.node}"
    if answer.answer == "OK":
        return f"{where}: {answer.text}"
    if absent is not None:
        return f"{where}: its mount {absent!a} is absent: mount it; no more can be told before"
    if answer.missing:
        return f"{where} is not there: stage it, or ask for a tier that has it (tier=local|shared)"
    if answer.wrong_version is not None and not answer.bad_count:
        return (
            f"{where} is version {answer.wrong_version}, but {answer.content_id} is wanted: stage "
            f"that version, then {_command(place)} --level 4 --record"
        )
    if looked.described is not None:
        return _words_on_version(context, place, looked)
    if answer.answer == "UNKNOWN":
        why = looked.notes[0] if looked.notes else answer.text
        return f"{where} could not be proven: {why}"
    return f"{where}: {answer.text}; stage it again, or look closer: {_command(place)} --level 4"


def _words_on_version(context: CheckContext, place: Place, looked: Looked) -> str:
    """Short enough for a line of the job's output, with both ids in it."""
    asked = "@" in (context.spec.dataset or "")
    wanted = f"version {place.content_id} " + ("was asked for" if asked else "is the site's")
    node, known, problem = context.node, looked.record, looked.answer.record_problem
    record = f"no record on {node} says it is here"
    if problem is not None:
        record = f"the record on {node} proves nothing ({problem})"
    elif known is not None and known.state != "absent":  # of another version it had been a FAIL
        record = f"on {node} it was never verified (record: {known.state})"
    instead = f"ask for {place.name}" if asked else "mend [dataset] in the configuration"
    return (
        f"dataset {place.name!a}: {wanted}; the site's manifest describes {looked.described}, and "
        f"{record}: {instead}, or have it staged and verified"
    )


def _remedy(place: Place, looked: Looked) -> str:
    if looked.described is None:
        return f"{_command(place)} --level 4 --record"
    version = f"{place.name}@{place.content_id}"
    return (
        f"slurm-io dataset verify {version} --tier {place.tier} --manifest FILE --level 4 --record"
    )


def _command(place: Place) -> str:
    """What a person types to verify this place."""
    if place.name.startswith("/"):
        import shlex

        return f"slurm-io dataset verify --path {shlex.quote(place.path)} --manifest FILE"
    return f"slurm-io dataset verify {place.name} --tier {place.tier}"


def _facts(place: Place, looked: Looked, absent: str | None) -> dict[str, Any]:
    """What the verify answered, and what the report's rules F11 and F12 go by."""
    from slurm_io.staging.manifest.paths import printable

    answer = looked.answer
    facts = answer.to_dict()
    for name in ("answer", "text", "not_looked_at", "bad_files", "repair", "missing"):
        del facts[name]
    facts["bad_files"] = [f"{bad.why}: {printable(bad.path)}" for bad in answer.bad_files]
    return {
        "path": printable(place.path),
        "tier": place.tier,
        **facts,
        "folder_missing": answer.missing,
        "absent_mount": None if absent is None else printable(absent),
        "described": looked.described,
        "record": _record_facts(looked),
    }


def _record_facts(looked: Looked) -> dict[str, Any] | None:
    """What the node's record says; None without one that was made here. `age_s`: since its verify
    by this node's clock, None when there was none."""
    import time

    record = looked.record
    if record is None or looked.answer.record_problem is not None:
        return None
    verified_ns = record.verified_ns
    is_known = 0 < verified_ns < 1 << 62
    return {
        "content_id": record.content_id,
        "state": record.state,
        "level": record.level,
        "age_s": (time.time_ns() - verified_ns) / 1e9 if is_known else None,
    }
