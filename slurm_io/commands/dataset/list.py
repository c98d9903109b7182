"""``slurm-io dataset list``: the datasets of this site's configuration."""

from __future__ import annotations

import getpass
import json
import os
from typing import Any

import click

from slurm_io.commands import GIVEN
from slurm_io.config import Config, DatasetConfig, load
from slurm_io.errors import SlurmIoError


@click.command("list", short_help="List the datasets a job can ask for.")
@click.option(
    "--config", "config_path", type=GIVEN, metavar="FILE", help="The site's configuration file."
)
@click.option("--json", "as_json", is_flag=True, help="The list as JSON.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(config_path: str | None, as_json: bool, debug: bool) -> None:
    """List the datasets a job can ask for: where they lie, and what their manifests say.

    Exit code 0; 1 when a manifest cannot be read or names another version than the configuration.
    """
    rows = dataset_rows(load(config_path))
    click.echo(json.dumps(rows, indent=2) if as_json else "\n".join(_text(rows)))
    if any(row["problem"] for row in rows):
        raise SystemExit(1)


def dataset_rows(config: Config) -> list[dict[str, Any]]:
    """One row a dataset; paths as they are on this node for this user."""
    return [_row(name, config.datasets[name]) for name in sorted(config.datasets)]


def _row(name: str, settings: DatasetConfig) -> dict[str, Any]:
    row: dict[str, Any] = {
        "dataset": name,
        "tier": settings.tier,
        "local": settings.local or None,
        "shared": settings.shared or None,
        "manifest": settings.manifest or None,
        "content_id": settings.content_id or None,
        "file_count": None,
        "total_bytes": None,
        "signed_by": None,
        "problem": None,
    }
    if settings.manifest:
        try:
            row |= _manifest_facts(settings)
        except SlurmIoError as error:
            row["problem"] = str(error)
    return row


def _manifest_facts(settings: DatasetConfig) -> dict[str, Any]:
    """What the manifest's header says. Raises SlurmIoError."""
    from slurm_io.slurm.node_name import node_name
    from slurm_io.staging.datasets import Names, expand_pattern
    from slurm_io.staging.manifest.files import read_header
    from slurm_io.staging.manifest.summary import signer_of

    # A job's id is not known here: a pattern that needs it (%j) is an error in its row.
    names = Names(node_name(os.environ), _user())
    header = read_header(expand_pattern(settings.manifest, names))
    problem = None
    if settings.content_id not in ("", header.content_id):
        problem = f"the configuration wants {settings.content_id}, the manifest is another version"
    elif header.missing_count:
        problem = f"incomplete: the manifest misses {header.missing_count} path(s)"
    return {
        "content_id": settings.content_id or header.content_id,
        "file_count": header.file_count,
        "total_bytes": header.total_bytes,
        "signed_by": signer_of(header),
        "problem": problem,
    }


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no such account here: containers
        return str(os.geteuid())


def _text(rows: list[dict[str, Any]]) -> list[str]:
    from slurm_io.staging.manifest.summary import human_bytes

    if not rows:
        return ["no datasets: the site's configuration has no [dataset.NAME]"]
    lines = []
    for row in rows:
        lines.append(f"{row['dataset']}  {row['content_id'] or 'no version known'}")
        for key in ("local", "shared", "manifest"):
            if row[key]:
                lines.append(f"  {key:<9} {row[key]}")
        if row["file_count"] is not None:
            signed = f", signed by {row['signed_by']}" if row["signed_by"] else ""
            lines.append(f"  {row['file_count']} files, {human_bytes(row['total_bytes'])}{signed}")
        if row["problem"]:
            lines.append(f"  PROBLEM   {row['problem']}")
    return lines
