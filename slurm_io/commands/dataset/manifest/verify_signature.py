"""``slurm-io dataset manifest verify-signature``: whether a trusted key vouches for a manifest."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from slurm_io.commands import GIVEN
from slurm_io.errors import UsageError


@click.command("verify-signature", short_help="Say whether a trusted key signed one.")
@click.argument("manifest", type=GIVEN)
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="PATH",
    help="Trusted public key (PEM), or a folder of them; may be given more than once.",
)
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(manifest: str, keys: tuple[str, ...], as_json: bool, debug: bool) -> None:
    """Say whether one of the trusted keys signed MANIFEST as it stands.

    Exit code 0 when it did; 1 when the manifest is not signed, signed by another key, or was
    altered (header or entry, told apart); 3 when it cannot be read. Needs cryptography (the `sign`
    extra).
    """
    from slurm_io.staging.manifest import signing
    from slurm_io.staging.manifest.files import open_manifest

    if not keys:
        raise UsageError("give the trusted public key: --key FILE, or a folder of them")
    trusted = signing.public_keys(keys)
    answer = signing.verify_signature(open_manifest(manifest, check_id=False), trusted)
    click.echo(json.dumps(asdict(answer)) if as_json else f"{answer.state}: {answer.text}")
    if answer.state != "good":
        raise SystemExit(1)
