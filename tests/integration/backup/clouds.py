"""Stores of the clouds other than S3, each with a server that checks credentials.

Azure: Azurite. Google: `google_front.py`. Alibaba: the S3 server, with the bucket in the host name
and in Alibaba's region; a proxy resolves that name, as it is in no DNS here.
"""

from __future__ import annotations

import base64
import contextlib
import email.utils
import hmac
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path

from faulty import Faulty, serving
from google_front import Google

from etcd_stateful.api.stores import Store
from localkube.azure import AzureServer
from localkube.s3 import S3Server

FULL = 6_000_000
"""Bytes of data, which make two parts of the smallest size that S3 accepts."""

OSS_HOST = "oss-cn-hangzhou.aliyuncs.com"
OSS_REGION = "cn-hangzhou"


@dataclass
class Cloud:
    """One store, with a bucket for one test."""

    store: Store
    secret: Mapping[str, str]
    """The Secret, with the coreos operator's keys."""
    proxy: Faulty
    client: Mapping[str, str] = field(default_factory=dict)
    """Further options of the store's client."""


@contextlib.asynccontextmanager
async def azure(server: AzureServer, bucket: str) -> AsyncIterator[Cloud]:
    create_container(server, bucket)
    async with serving(Faulty(server.endpoint)) as proxy:
        secret = server.secret | {"cloud": f"{proxy.endpoint}/{server.account}"}
        yield Cloud(Store("ABS", bucket, "a/etcd.backup", secret="cloud"), secret, proxy)


@contextlib.asynccontextmanager
async def google(server: S3Server, bucket: str) -> AsyncIterator[Cloud]:
    server.bucket(bucket)
    async with serving(Google(server.endpoint, s3=server)) as front:
        secret = {"credentials.json": front.credentials}
        yield Cloud(Store("GCS", bucket, "a/etcd.backup", secret="cloud"), secret, front)


@contextlib.asynccontextmanager
async def alibaba(server: S3Server, bucket: str) -> AsyncIterator[Cloud]:
    server.bucket(bucket)
    async with serving(Faulty(server.endpoint)) as proxy:
        endpoint = f"http://{OSS_HOST}"
        store = Store("OSS", bucket, "a/etcd.backup", secret="cloud", endpoint=endpoint)
        secret = {"accessKeyID": server.access_key, "accessKeySecret": server.secret_key}
        yield Cloud(store, secret, proxy, {"proxy_url": proxy.endpoint})


def written(folder: Path, secret: Mapping[str, str]) -> str:
    """Writes the Secret's files as the pod mounts them."""
    folder.mkdir(exist_ok=True)
    for key, content in secret.items():
        (folder / key).write_text(content)
    return str(folder)


def create_container(server: AzureServer, name: str) -> None:
    """Creates a container, with another client than the tested one."""
    date, version = email.utils.formatdate(usegmt=True), "2021-08-06"
    own = f"x-ms-date:{date}\nx-ms-version:{version}\n"
    place = f"/{server.account}/{server.account}/{name}\nrestype:container"
    text = "PUT" + "\n" * 12 + own + place
    digest = hmac.digest(base64.b64decode(server.key), text.encode(), "sha256")
    signature = base64.b64encode(digest).decode()
    headers = {
        "x-ms-date": date,
        "x-ms-version": version,
        "Authorization": f"SharedKey {server.account}:{signature}",
    }
    connection = HTTPConnection(server.host, server.port, timeout=10)
    url = f"/{server.account}/{name}?restype=container"
    with contextlib.closing(connection):
        connection.request("PUT", url, headers=headers)
        answer = connection.getresponse()
        assert answer.status == 201, answer.read()
