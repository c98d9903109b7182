"""An S3 store on this machine: moto's server, in a process of its own, with its objects in memory.

    with S3Server() as store:
        client = store.client()
        client.create_bucket(Bucket="data")

`store.environment` is what programs need to find it. moto checks no credentials.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from tests.labs.server_process import ServerProcess

SECRET = "not-to-be-seen-anywhere"


class S3Server(ServerProcess):
    """Empty at the start; everything is gone at the end."""

    def __init__(self) -> None:
        super().__init__(
            "tests.labs.s3_server",
            env=dict(os.environ) | environment_of(""),
            hint=": pip install 'moto[server]'",
        )

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

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # else a line for each request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    print(f"http://{host}:{port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
