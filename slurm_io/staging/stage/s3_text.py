"""What answers of an object store mean: whose fault, and what to do. Pure."""

from __future__ import annotations

from typing import Literal

Whose = Literal["source", "link", "target"]

NO_KEY = "no object can have this name: keys are UTF-8"
CHANGED = "the object changed: it is no longer the version of the manifest"
NO_CREDENTIALS = "there are no S3 credentials: set AWS_PROFILE or AWS_ACCESS_KEY_ID"
_DENIED = (
    "access denied: check the credentials (AWS_ACCESS_KEY_ID, AWS_PROFILE or the instance's role) "
    "and that they may read this bucket"
)
_BY_CODE: dict[str, tuple[Whose, str]] = {
    "NoSuchKey": ("source", "there is no such object"),
    "NoSuchVersion": ("source", "this version of the object is gone"),
    "NoSuchBucket": ("source", "there is no such bucket"),
    "InvalidRange": ("source", "the object is shorter than the manifest says"),
    "PreconditionFailed": ("source", CHANGED),
    "InvalidObjectState": ("source", "the object is archived: restore it first"),
    "AccessDenied": ("source", _DENIED),
    "InvalidAccessKeyId": ("source", _DENIED),
    "SignatureDoesNotMatch": ("source", _DENIED),
    "ExpiredToken": ("source", f"the credentials have expired; {_DENIED}"),
    "RequestTimeTooSkewed": (
        "source",
        "this node's clock is wrong, the store says",
    ),
    "SlowDown": ("link", "the store asks to go slower"),
}
_BY_STATUS: dict[int, tuple[Whose, str]] = {
    403: ("source", _DENIED),
    401: ("source", _DENIED),
    404: ("source", "there is no such object"),  # of a HEAD, which tells no code
    405: ("source", "the object is deleted (a delete marker)"),
    412: ("source", CHANGED),
    416: ("source", "the object is shorter than the manifest says"),
    429: ("link", "the store asks to go slower"),
}


def fault_of(code: str, status: int | None) -> tuple[Whose, str]:
    """Whose fault an error of the store is, in words. `code` as S3 names it, or a number."""
    if code in _BY_CODE:
        return _BY_CODE[code]
    if status is None and code.isdigit():
        status = int(code)
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status is not None and status < 500:
        return "source", f"the store refuses: {code} (HTTP {status})"
    return "link", f"the store fails: {code}" + (f" (HTTP {status})" if status else "")


def of_size(size_bytes: int, expected_bytes: int) -> str:
    """An object of another length."""
    return f"the object has {size_bytes} bytes, the manifest says {expected_bytes}"
