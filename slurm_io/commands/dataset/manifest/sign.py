"""``slurm-io dataset manifest sign``: vouch for a manifest with an ed25519 key."""

from __future__ import annotations

import json

import click

from slurm_io.commands import GIVEN
from slurm_io.errors import UsageError


@click.command("sign", short_help="Vouch for a manifest with a key.")
@click.argument("manifest", type=GIVEN, required=False)
@click.option("--key", metavar="FILE", help="Private key (PEM, readable by nobody else).")
@click.option("--generate-key", metavar="FILE", help="Make FILE (private) and FILE.pub first.")
@click.option("-o", "--output", metavar="FILE", help="Write here [MANIFEST itself].")
@click.option("--json", "as_json", is_flag=True, help="The result as JSON.")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def command(
    manifest: str | None,
    key: str | None,
    generate_key: str | None,
    output: str | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Sign MANIFEST: its header, and through it every file.

    With --generate-key and no MANIFEST only makes the key pair. Needs cryptography (the `sign`
    extra).
    """
    from slurm_io.staging.manifest import signing
    from slurm_io.staging.manifest.files import form_of, open_manifest, write_manifest
    from slurm_io.staging.manifest.summary import signer_of

    if key and generate_key:
        raise UsageError("give --key or --generate-key, not both")
    if not (key or generate_key) or not (manifest or generate_key):
        raise UsageError("give a MANIFEST and its --key FILE; --generate-key FILE makes one")
    whole = open_manifest(manifest) if manifest else None
    facts: dict[str, str | None] = {}
    if generate_key:
        facts = {"key": generate_key, "key_id": signing.generate_key(generate_key)}
    if manifest and whole:
        signed = signing.sign(whole, key or generate_key or "")
        write_manifest(output or manifest, signed, form_of(manifest))
        facts |= {"manifest": output or manifest, "key_id": signer_of(signed.header)}
        if not signing.is_tamper_proof(signed.header):
            click.echo(
                f"note: {signed.header.algorithm} digests find damage, not forgery: for that build "
                "with --algorithm blake3 or sha256",
                err=True,
            )
    click.echo(
        json.dumps(facts) if as_json else "\n".join(f"{k:<8}  {v}" for k, v in facts.items())
    )
