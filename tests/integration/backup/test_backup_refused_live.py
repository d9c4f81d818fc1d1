"""What a backup says when etcd or the store refuses it, or nobody answers."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import replace
from pathlib import Path

import pytest
from backup_orders import at_s3, certificates, encrypt, etcdctl, order_for
from etcd_live import Cluster, Member
from faulty import proxied

from etcd_operator.backup import source as sources
from etcd_operator.backup.__main__ import back_up
from etcd_stateful.backup.order import Order
from etcd_stateful.backup.outcome import Failure, Stored
from localkube.s3 import S3Server, free_port

pytestmark = pytest.mark.integration


async def test_a_denied_backup_names_the_user_it_needs(
    cluster: Cluster, s3: S3Server, bucket: tuple[str, Path], secret: str
) -> None:
    cluster.begin(1)
    await cluster.ready()
    for words in ("user add root --no-password", "user grant-role root root", "auth enable"):
        command = etcdctl(cluster, *words.split())
        run = await asyncio.create_subprocess_exec(*command, stdout=-1, stderr=-1)
        out, errors = await run.communicate()
        assert run.returncode == 0, out + errors

    done = await back_up(order_for(cluster, at_s3(s3, bucket[0])), secret=secret)

    assert isinstance(done, Failure)
    assert done.reason == "EtcdRefused"
    assert "spec.clientTLSSecret" in done.message
    assert "role root" in done.message


async def test_the_certificate_of_the_secret_is_used_for_an_etcd_with_tls(
    one_member: Cluster, s3: S3Server, bucket: tuple[str, Path], secret: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    member, keys = one_member.first[0], tmp_path / "client"
    certificates(keys, member.host)
    member.stop()
    url = f"https://{member.host}:{member.client_port}"
    encrypt(member, keys)
    member.start(one_member.initial_cluster(one_member.first), one_member.token, "new")
    order = order_for(one_member, at_s3(s3, bucket[0]), endpoints=(url,))
    async with asyncio.timeout(90):
        while not await answers(member):
            await asyncio.sleep(0.1)

    stranger = await back_up(order, secret=secret)
    assert isinstance(stranger, Failure)
    assert "name the Secret with one in spec.clientTLSSecret" in stranger.message
    named = replace(order, client_secret="etcd-client-tls")
    lacking = await back_up(named, secret=secret)
    assert isinstance(lacking, Failure)
    assert "spec.clientTLSSecret: Secret etcd-client-tls has no key" in lacking.message

    plain = replace(order, endpoints=(url.replace("https", "http"),))
    told_ = await back_up(plain, secret=secret)
    assert isinstance(told_, Failure)
    assert told_.reason == "EtcdRefused"
    assert "speaks TLS: it must begin with https://. Unless it is a Service" in told_.message
    by_name = replace(plain, endpoints_field="spec.clusterRef.name")
    told_ = await back_up(by_name, secret=secret)
    assert isinstance(told_, Failure)
    assert f"give spec.etcdEndpoints with {url} instead" in told_.message

    shown = functools.partial(sources.open_channels, folder=str(keys))
    monkeypatch.setattr(sources, "open_channels", shown)
    assert isinstance(await back_up(named, secret=secret), Stored)


async def answers(member: Member) -> bool:
    try:
        _, writer = await asyncio.open_connection(member.host, member.client_port)
    except OSError:
        return False
    writer.close()
    return True


class TestBadInput:
    """Within ten seconds, by the field, in words."""

    async def failure(self, order: Order, secret: str) -> str:
        began = asyncio.get_running_loop().time()
        done = await back_up(order, secret=secret)
        assert isinstance(done, Failure)
        assert asyncio.get_running_loop().time() - began < 8
        assert "test-secret-key" not in done.message
        return done.message

    async def test_a_missing_bucket_is_reported(
        self, shared_cluster: Cluster, s3: S3Server, secret: str
    ) -> None:
        told_ = await self.failure(order_for(shared_cluster, at_s3(s3, "nowhere")), secret)

        assert "spec.s3.path: there is no bucket 'nowhere'" in told_

    async def test_an_unreachable_store_is_reported(
        self, shared_cluster: Cluster, s3: S3Server, secret: str
    ) -> None:
        store = replace(at_s3(s3, "b"), endpoint=f"http://127.0.0.1:{free_port()}")

        assert "spec.s3.endpoint" in await self.failure(order_for(shared_cluster, store), secret)

    async def test_a_store_that_never_answers_is_reported(
        self, shared_cluster: Cluster, s3: S3Server, secret: str
    ) -> None:
        async with proxied(s3.endpoint) as proxy:
            proxy.judge = lambda *_: "slow"
            store = replace(at_s3(s3, "b"), endpoint=proxy.endpoint)
            told_ = await self.failure(order_for(shared_cluster, store), secret)

        assert f"spec.s3.endpoint: {proxy.endpoint} cannot be reached" in told_

    async def test_a_store_whose_name_does_not_resolve_is_reported(
        self, shared_cluster: Cluster, s3: S3Server, secret: str
    ) -> None:
        store = replace(at_s3(s3, "b"), endpoint="http://minio.nowhere.invalid:9000")

        assert "spec.s3.endpoint" in await self.failure(order_for(shared_cluster, store), secret)

    @pytest.mark.parametrize(
        ("old", "new"), [("TESTACCESSKEY", "OTHER"), ("test-secret-key", "wrong")]
    )
    async def test_credentials_unknown_to_the_store_are_reported(
        self,
        shared_cluster: Cluster,
        s3: S3Server,
        bucket: tuple[str, Path],
        secret: str,
        old: str,
        new: str,
    ) -> None:
        file = Path(secret) / "credentials"
        file.write_text(file.read_text().replace(old, new))

        assert "spec.s3.awsSecret: the credentials in Secret aws" in await self.failure(
            order_for(shared_cluster, at_s3(s3, bucket[0])), secret
        )

    async def test_a_missing_secret_is_reported(
        self, shared_cluster: Cluster, s3: S3Server, tmp_path: Path
    ) -> None:
        told_ = await self.failure(
            order_for(shared_cluster, at_s3(s3, "b")), str(tmp_path / "nothing")
        )

        assert "spec.s3.awsSecret: Secret aws: there is no such Secret" in told_

    async def test_an_unreachable_etcd_is_reported(
        self, shared_cluster: Cluster, s3: S3Server, bucket: tuple[str, Path], secret: str
    ) -> None:
        nobody = (f"http://127.0.0.1:{free_port()}", "http://etcd.nowhere.invalid:2379")
        told_ = await self.failure(
            order_for(shared_cluster, at_s3(s3, bucket[0]), endpoints=nobody), secret
        )

        assert "spec.etcdEndpoints: no endpoint answers" in told_
        assert all(where in told_ for where in nobody)

    async def test_endpoints_of_another_cluster_are_reported(
        self, shared_cluster: Cluster, s3: S3Server, bucket: tuple[str, Path], secret: str
    ) -> None:
        told_ = await self.failure(
            order_for(shared_cluster, at_s3(s3, bucket[0]), cluster_id=0xAB), secret
        )

        assert "00000000000000ab is to be backed up" in told_
