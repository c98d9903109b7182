"""An S3 store on this machine: moto's server, in a process of its own, with its objects in memory.

    with S3Server() as store:
        client = store.client()
        client.create_bucket(Bucket="data")

`store.environment` is what programs need to find it. moto checks no credentials.
"""

from __future__ import annotations

import os
import subprocess
import sys
from types import TracebackType
from typing import Any, Self

from tests.labs.object_store import REPOSITORY, STOP_TIMEOUT_S

SECRET = "not-to-be-seen-anywhere"


class S3Server:
    """Empty at the start; everything is gone at the end."""

    def __init__(self) -> None:
        self.endpoint = ""
        self._server: subprocess.Popen[str] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """As boto3 reads it."""
        return environment_of(self.endpoint)

    def client(self) -> Any:
        """A boto3 client."""
        import boto3

        return boto3.session.Session().client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id="testing",
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
        )

    def __enter__(self) -> Self:
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.labs.s3_server"],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=dict(os.environ) | environment_of(""),
        )
        assert self._server.stdout is not None
        self.endpoint = self._server.stdout.readline().strip()
        if not self.endpoint:
            raise RuntimeError("the S3 server did not start: pip install 'moto[server]'")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self._server.kill()
            self._server.communicate(timeout=STOP_TIMEOUT_S)


def environment_of(endpoint: str) -> dict[str, str]:
    """Settings for a store at an endpoint."""
    return {
        "AWS_ENDPOINT_URL_S3": endpoint,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def main() -> None:
    """Serve until standard input ends; the first line of output is the address."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    print(f"http://{host}:{port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
