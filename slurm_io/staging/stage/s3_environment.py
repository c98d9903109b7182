"""The environment of a program that reads S3: what boto3 would read, in that program's words."""

from __future__ import annotations

from collections.abc import Mapping

from slurm_io.host.run import TOOL_FOLDERS

_PASSED = ("HOME", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


def program_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """Credentials, region and proxies as they are; the endpoint also as s5cmd reads it."""
    given = {k: v for k, v in ours.items() if k in _PASSED or k.startswith(("AWS_", "SSL_CERT_"))}
    endpoint = next((ours[name] for name in _ENDPOINTS if ours.get(name)), "")
    if endpoint and ours.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() != "true":
        given["S3_ENDPOINT_URL"] = endpoint
    return {"PATH": ":".join(TOOL_FOLDERS), "LC_ALL": "C", **given}
