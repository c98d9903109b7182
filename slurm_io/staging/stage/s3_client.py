"""Reads objects with boto3: pinned, in pieces, tried again, and every error given a meaning."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from slurm_io.staging.manifest.model import FileEntry
from slurm_io.staging.stage.brake import Brake
from slurm_io.staging.stage.s3_place import S3Place, bare_etag
from slurm_io.staging.stage.s3_text import NO_CREDENTIALS, Whose, fault_of, of_size

TRIES = 5
_WAIT_S = 0.2
CONNECT_S, READ_S = 20, 60
_CONNECTIONS = 64


class S3Fault(Exception):
    """An object did not come, and whose fault that is."""

    def __init__(self, whose: Whose, text: str) -> None:
        super().__init__(text)
        self.whose: Whose = whose


class Stopped(Exception):
    """Told to end."""


@dataclass
class Wanted:
    """One object. `etag` pins it; where the manifest names none, the first answer does."""

    place: S3Place
    key: str
    entry: FileEntry
    etag: str | None = None

    def asked(self) -> dict[str, Any]:
        """What every request for it says."""
        asked: dict[str, Any] = {"Bucket": self.place.bucket, "Key": self.key}
        if self.entry.version_id:
            asked["VersionId"] = self.entry.version_id
        if etag := bare_etag(self.entry.etag) or self.etag:
            asked["IfMatch"] = f'"{etag}"'
        return asked


def new_client() -> Any:
    """A client with the credentials and the endpoint that boto3 finds. Raises S3Fault."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    config = Config(
        connect_timeout=CONNECT_S,
        read_timeout=READ_S,
        retries={"mode": "standard", "total_max_attempts": 3},
        max_pool_connections=_CONNECTIONS,
        response_checksum_validation="when_required",  # of a part the store knows none
    )
    try:
        return boto3.session.Session().client("s3", config=config)
    except (BotoCoreError, ValueError) as error:
        raise S3Fault("source", f"boto3 is not set up: {error}") from error


def bucket_problem(client: Any, place: S3Place) -> str | None:
    """Why a bucket cannot be read, None when nothing speaks against it."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        client.head_bucket(Bucket=place.bucket)
    except ClientError as error:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        # 403: who may read objects need not be allowed to ask about the bucket.
        if status == 403:
            return None
        text = "there is no such bucket" if status == 404 else meaning(error)
        return f"bucket {place.bucket}: {text}"
    except BotoCoreError as error:
        return f"bucket {place.bucket}: {meaning(error)}"
    return None


def size_of(client: Any, wanted: Wanted) -> int:
    """Bytes of an object, by HEAD. Raises S3Fault."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        answer = client.head_object(**wanted.asked())
    except (BotoCoreError, ClientError) as error:
        raise meaning(error) from error
    wanted.etag = wanted.etag or bare_etag(answer.get("ETag"))
    return int(answer["ContentLength"])


def read(
    client: Any, wanted: Wanted, start: int, length: int, brake: Brake, stop: threading.Event
) -> bytes:
    """One piece of an object, whole or not at all. Raises S3Fault, Stopped."""
    for attempt in range(TRIES):
        try:
            return _once(client, wanted, start, length, brake, stop)
        except S3Fault as fault:
            if fault.whose != "link" or attempt == TRIES - 1:
                raise
        if stop.wait(_WAIT_S * 2**attempt):
            raise Stopped
    raise AssertionError("the last try returns or raises")


def _once(
    client: Any, wanted: Wanted, start: int, length: int, brake: Brake, stop: threading.Event
) -> bytes:
    from botocore.exceptions import BotoCoreError, ClientError

    asked, expected = wanted.asked(), wanted.entry.size_bytes
    is_whole = start == 0 and length == expected
    if is_whole:
        asked["ChecksumMode"] = "ENABLED"  # botocore compares with what the store has kept
    else:
        asked["Range"] = f"bytes={start}-{start + length - 1}"
    try:
        answer = client.get_object(**asked)
        size = _whole_size(answer)
        if expected is not None and size is not None and size != expected:
            answer["Body"].close()
            raise S3Fault("source", of_size(size, expected))
        wanted.etag = wanted.etag or bare_etag(answer.get("ETag"))
        data = _body(answer["Body"], length, brake, stop)
    except (BotoCoreError, ClientError) as error:
        raise meaning(error) from error
    except OSError as error:
        raise S3Fault("link", f"the connection broke: {error}") from error
    if len(data) != length:
        raise S3Fault("link", f"{len(data)} bytes came instead of {length}")
    return data


def _body(body: Any, length: int, brake: Brake, stop: threading.Event) -> bytes:
    data = bytearray()
    try:
        while block := body.read(brake.step_bytes):
            data += block
            if len(data) > length:
                break
            brake.passed(len(block))
            if stop.is_set():
                raise Stopped
    finally:
        if len(data) != length:
            body.close()  # a connection with a rest in it is of no use to others
    return bytes(data)


def _whole_size(answer: dict[str, Any]) -> int | None:
    """Bytes of the whole object, as an answer tells."""
    if (content_range := answer.get("ContentRange")) is not None:
        total = str(content_range).rpartition("/")[2]
        return int(total) if total.isdigit() else None
    return int(answer["ContentLength"])


def meaning(error: Exception) -> S3Fault:
    """Whose fault an error of boto3 is; no secret is in its text."""
    from botocore.exceptions import ClientError, NoCredentialsError, PartialCredentialsError

    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        return S3Fault(*fault_of(str(error.response.get("Error", {}).get("Code")), status))
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return S3Fault("source", NO_CREDENTIALS)
    return S3Fault("link", f"{type(error).__name__}: {error}"[:300])
