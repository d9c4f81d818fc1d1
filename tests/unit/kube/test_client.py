"""The client, with an HTTP server that behaves or misbehaves as a test says."""

import asyncio
import json
import shutil

import certifi
import pytest
from aiohttp import web
from fakes import NODES
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import incluster_config

from etcd_operator.kube.api import (
    CLAIMS,
    ETCD_CLUSTERS,
    LEASES,
    PODS,
    SERVICES,
    Conflict,
    Rejected,
    Unavailable,
)
from etcd_operator.kube.client import Client
from unit.kube.listening import listening

SERVICE = {"metadata": {"namespace": "ns", "name": "a"}, "spec": {"clusterIP": "None"}}


class Server:
    """Gives the answers that a test sets, and records the requests."""

    def __init__(self):
        self.asked = []
        self.answers = []
        self.delay = 0.0
        self.hangs = "nothing"

    async def handle(self, request):
        body = await request.text()
        self.asked.append((request, json.loads(body) if body else None))
        await asyncio.sleep(1e6 if self.hangs in request.path else self.delay)
        status, answer, headers = self.answers.pop(0)
        text = answer if isinstance(answer, str) else json.dumps(answer)
        return web.Response(status=status, text=text, headers=headers)

    def will(self, answer=None, *, status=200, headers=None):
        self.answers.append((status, answer if answer is not None else {"kind": "x"}, headers))

    def refuses(self, status, reason="", message="told why", headers=None):
        body = {"kind": "Status", "reason": reason, "message": message, "code": status}
        self.will(body, status=status, headers=headers)

    @property
    def last(self):
        return self.asked[-1]


@pytest.fixture
async def server():
    server = Server()
    async with listening(server.handle) as served:
        server.url, server.stop = served
        yield server


@pytest.fixture
def observed():
    return []


@pytest.fixture
async def client(server, observed):
    configuration = Configuration(host=server.url)
    configuration.api_key["BearerToken"] = "bearer s3cret"
    client = Client(configuration, seconds=10, observe=lambda *call: observed.append(call[:3]))
    yield client
    await client.close()


async def test_get_reads_an_object(client, server):
    server.will({"metadata": {"name": "a"}})

    assert await client.get(PODS, "ns", "a") == {"metadata": {"name": "a"}}
    request, body = server.last
    assert (request.method, request.path_qs) == ("GET", "/api/v1/namespaces/ns/pods/a")
    assert request.headers["Authorization"] == "bearer s3cret"
    assert request.headers["User-Agent"] == "etcd-operator"
    assert body is None


async def test_get_of_an_absent_object_is_none(client, server):
    server.refuses(404, "NotFound")

    assert await client.get(PODS, "ns", "a") is None


@pytest.mark.parametrize("body", ["", "<h1>404</h1>", "404 page not found\n", '{"code": 404}'])
async def test_a_404_from_a_proxy_was_taken_for_absence(client, server, body):
    """A claim that a load balancer does not find is not gone."""
    for call in (client.get(PODS, "ns", "a"), client.delete(PODS, "ns", "a", uid="u")):
        server.will(body, status=404)
        with pytest.raises(Unavailable):
            await call


async def test_a_forbidden_get_is_not_taken_for_absence(client, server):
    server.refuses(403, "Forbidden")

    with pytest.raises(Rejected, match="told why"):
        await client.get(PODS, "ns", "a")


async def test_apply_is_a_server_side_apply(client, server):
    server.will({"metadata": {}})
    await client.apply(SERVICES, SERVICE)

    request, body = server.last
    assert (request.method, request.path) == ("PATCH", "/api/v1/namespaces/ns/services/a")
    assert dict(request.query) == {"fieldManager": "etcd-operator", "force": "true"}
    assert request.content_type == "application/apply-patch+yaml"
    assert body == {"apiVersion": "v1", "kind": "Service", **SERVICE}


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("\U0001f511", b"\xf0\x9f\x94\x91"),
        ("\x1b\x7f\x85\u2028\ufeff\uffff", rb"\u001b\u007f\u0085\u2028\ufeff\uffff"),
        ("\\ud83d\\udd11", rb"\\ud83d\\udd11"),
        ("\ud83d", b"?"),
    ],
)
async def test_an_emoji_in_an_annotation_or_a_message_had_its_apply_refused(
    client, server, text, sent
):
    """The API server reads it as YAML, which has no surrogate pairs, and in which some characters
    have to be escaped."""
    server.will({"metadata": {}})
    await client.apply(SERVICES, {**SERVICE, "spec": {text: text}})

    request, _ = server.last
    assert b'"spec": {"%s": "%s"}' % (sent, sent) in await request.read()


async def test_status_is_applied_to_the_subresource_by_another_manager(client, server):
    server.will()
    await client.apply(ETCD_CLUSTERS, SERVICE, status=True)

    request, body = server.last
    assert request.path.endswith("/namespaces/ns/etcdclusters/a/status")
    assert request.query["fieldManager"] == "etcd-operator-status"
    assert (body["apiVersion"], body["kind"]) == (ETCD_CLUSTERS.api_version, "EtcdCluster")


async def test_create_posts_an_object(client, server):
    server.will(status=201)
    await client.create(SERVICES, SERVICE)

    request, body = server.last
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/ns/services")
    assert dict(request.query) == {"fieldManager": "etcd-operator"}
    assert body["kind"] == "Service"


@pytest.mark.parametrize(
    ("status", "suffix", "manager"),
    [(False, "", "etcd-operator"), (True, "/status", "etcd-operator-status")],
)
async def test_a_merge_patch_is_sent(client, server, status, suffix, manager):
    server.will({"metadata": {"uid": "u"}})
    patch = {"metadata": {"uid": "u", "resourceVersion": "7"}, "spec": {"x": None}}
    await client.merge_patch(SERVICES, "ns", "a", patch, status=status)

    request, body = server.last
    assert (request.method, request.path) == (
        "PATCH",
        f"/api/v1/namespaces/ns/services/a{suffix}",
    )
    assert request.headers["Content-Type"] == "application/merge-patch+json"
    assert dict(request.query) == {"fieldManager": manager}
    assert body == patch


async def test_a_dry_run_is_asked_for_as_one(client, server):
    """Otherwise claims grow by being looked at."""
    server.will({"metadata": {}})
    await client.merge_patch(CLAIMS, "ns", "a", {"spec": {}}, dry_run=True)

    request, _ = server.last
    assert dict(request.query) == {"fieldManager": "etcd-operator", "dryRun": "All"}


@pytest.mark.parametrize("status", [False, True])
async def test_a_response_about_another_object_is_a_conflict(client, server, status):
    manifest = {"metadata": SERVICE["metadata"] | {"uid": "u"}}
    for _ in range(2):
        server.will({"metadata": {"uid": "another"}})

    with pytest.raises(Conflict, match="another object"):
        await client.apply(SERVICES, manifest, status=status)
    with pytest.raises(Conflict, match="another object"):
        await client.merge_patch(SERVICES, "ns", "a", manifest, status=status)


async def test_delete_sends_its_preconditions(client, server):
    server.will()

    assert await client.delete(PODS, "ns", "a", uid="u", resource_version="7", grace_seconds=0)
    request, body = server.last
    assert (request.method, request.path) == ("DELETE", "/api/v1/namespaces/ns/pods/a")
    assert body["preconditions"] == {"uid": "u", "resourceVersion": "7"}
    assert body["propagationPolicy"] == "Background"
    assert body["gracePeriodSeconds"] == 0


async def test_delete_can_orphan_the_children(client, server):
    server.will()
    await client.delete(PODS, "ns", "a", uid="u", propagation="Orphan")

    _, body = server.last
    assert body["propagationPolicy"] == "Orphan"
    assert body["preconditions"] == {"uid": "u"}
    assert "gracePeriodSeconds" not in body


async def test_deletion_of_an_absent_object_is_no_error(client, server):
    server.refuses(404, "NotFound")

    assert not await client.delete(PODS, "ns", "a", uid="u")


def page(names, version, more=""):
    return {
        "metadata": {"resourceVersion": str(version), "continue": more},
        "items": [{"metadata": {"name": name}} for name in names],
    }


async def test_list_reads_all_pages_and_gives_the_items_their_types(client, server):
    server.will(page(["a", "b"], 20, "token"))
    server.will(page(["c"], 20))

    items, version = await client.list(PODS, None, "x=y")

    assert [item["metadata"]["name"] for item in items] == ["a", "b", "c"]
    assert version == 20
    assert all((item["apiVersion"], item["kind"]) == ("v1", "Pod") for item in items)
    first, second = (dict(request.query) for request, _ in server.asked)
    assert first == {"limit": "500", "labelSelector": "x=y"}
    assert second == first | {"continue": "token"}
    assert server.last[0].path == "/api/v1/pods"


async def test_list_covers_a_namespace_or_the_whole_cluster(client, server):
    server.will(page([], 1))
    server.will({"metadata": {"resourceVersion": "1"}, "items": None})

    assert await client.list(PODS, "ns") == ([], 1)
    assert await client.list(NODES, None) == ([], 1)
    assert [request.path for request, _ in server.asked] == [
        "/api/v1/namespaces/ns/pods",
        "/api/v1/nodes",
    ]


@pytest.mark.parametrize(
    "answer", [{}, {"metadata": {}}, {"metadata": None}, {"metadata": {"resourceVersion": "x"}}]
)
async def test_a_response_that_was_not_a_list_ended_the_operator(client, server, answer):
    server.will(answer)

    with pytest.raises(Unavailable, match="list /api/v1/pods"):
        await client.list(PODS, None)


@pytest.mark.usefixtures("deep_json")
async def test_one_object_with_deep_managed_fields_prevented_every_list(client, server):
    """Anyone who may write an object may write these, as deep as the API server reads."""
    depth = 9_990
    fields = '{"f:a":' * depth + "{}" + "}" * depth
    metadata = f'{{"name": "a", "managedFields": [{{"fieldsV1": {fields}}}]}}'
    server.will(
        f'{{"metadata": {{"resourceVersion": "7"}}, "items": [{{"metadata": {metadata}}}]}}'
    )

    [found] = (await client.list(PODS, None)).items
    assert found["metadata"]["name"] == "a"


async def test_a_list_starts_over_when_its_pages_expire(client, server):
    server.will(page(["a"], 20, "token"))
    server.refuses(410, "Expired")
    server.will(page(["b"], 30))

    items, version = await client.list(PODS, None)

    assert ([item["metadata"]["name"] for item in items], version) == (["b"], 30)


async def test_a_list_whose_pages_always_expire_gives_up_for_now(client, server):
    for _ in range(3):
        server.refuses(410, "Expired")

    with pytest.raises(Unavailable, match="expired three times"):
        await client.list(PODS, None)


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (400, "BadRequest", Rejected),
        (403, "Forbidden", Rejected),
        (404, "NotFound", Rejected),
        (405, "MethodNotAllowed", Rejected),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", Conflict),
        (413, "RequestEntityTooLarge", Rejected),
        (415, "UnsupportedMediaType", Rejected),
        (422, "Invalid", Rejected),
        (401, "Unauthorized", Unavailable),
        (429, "TooManyRequests", Unavailable),
        (500, "InternalError", Unavailable),
        (503, "ServiceUnavailable", Unavailable),
        (504, "Timeout", Unavailable),
    ],
)
async def test_a_refused_write_raises_the_error_for_its_status(
    client, server, observed, status, reason, kind
):
    server.refuses(status, reason, "spec.replicas: Invalid value: -1")

    with pytest.raises(kind) as refused:
        await client.merge_patch(PODS, "ns", "a", {})

    assert type(refused.value) is kind
    assert (refused.value.status, refused.value.reason) == (status, reason)
    assert "spec.replicas: Invalid value: -1" in str(refused.value)
    assert observed == [("patch", PODS, status)]


async def test_the_object_that_could_not_be_created_is_named(client, server):
    """The path of a POST does not contain the name, and the message ends up in a status."""
    server.refuses(500, "InternalError")

    with pytest.raises(Unavailable, match=r"^create /api/v1/namespaces/ns/services/a: told why"):
        await client.create(SERVICES, SERVICE)


async def test_a_wrong_uid_is_a_conflict(client, server):
    # The message of kube-apiserver 1.36.
    told = {
        "kind": "Status",
        "reason": "Invalid",
        "message": 'Service "a" is invalid: metadata.uid: Invalid value: "u": field is immutable',
        "details": {"causes": [{"reason": "FieldValueInvalid", "field": "metadata.uid"}]},
    }
    server.will(told, status=422)

    with pytest.raises(Conflict, match="field is immutable"):
        await client.apply(SERVICES, SERVICE)


async def test_retry_after_is_passed_on(client, server):
    server.refuses(429, headers={"Retry-After": "17"})
    server.refuses(503, headers={"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"})

    with pytest.raises(Unavailable) as busy:
        await client.get(PODS, "ns", "a")
    assert busy.value.retry_after == 17
    with pytest.raises(Unavailable) as busy:
        await client.get(PODS, "ns", "a")
    assert busy.value.retry_after is None


async def test_a_retry_after_of_another_digit_ended_a_call_with_a_traceback(client, server):
    server.refuses(503, headers={"Retry-After": "\N{SUPERSCRIPT TWO}"})

    with pytest.raises(Unavailable) as busy:
        await client.get(PODS, "ns", "a")
    assert busy.value.retry_after is None


@pytest.mark.parametrize(
    ("status", "answer", "kind"),
    [
        (502, "<html>Bad Gateway</html>", Unavailable),
        (200, "<html>a login page</html>", Unavailable),
        (200, "[]", Unavailable),
        (200, "", Unavailable),
        (403, "<html>no</html>", Rejected),
    ],
)
async def test_a_response_that_is_not_from_the_api_server_is_an_error_with_its_status(
    client, server, status, answer, kind
):
    server.will(answer, status=status)

    with pytest.raises(kind, match=f"HTTP {status}"):
        await client.get(PODS, "ns", "a")


async def test_a_request_ends_at_its_deadline(client, server, observed):
    server.delay = 5
    server.will()
    client._seconds = 0.5
    began = asyncio.get_running_loop().time()

    with pytest.raises(Unavailable, match=r"no answer within 0.5 s"):
        await client.apply(SERVICES, SERVICE)
    assert asyncio.get_running_loop().time() - began < server.delay
    assert observed == [("apply", SERVICES, 0)]


async def test_an_unreachable_server_is_unavailable(client, server):
    await server.stop()

    with pytest.raises(Unavailable) as away:
        await client.get(PODS, "ns", "a")
    assert away.value.status == 0


async def test_a_broken_connection_is_unavailable(client, server):
    async def slam(reader, writer):
        await reader.read(100)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
        writer.close()

    async with await asyncio.start_server(slam, "127.0.0.1", 0) as broken:
        port = broken.sockets[0].getsockname()[1]
        other = Client(Configuration(host=f"http://127.0.0.1:{port}"), seconds=2)
        with pytest.raises(Unavailable):
            await other.get(PODS, "ns", "a")
        await other.close()


async def test_connections_are_reused(client, server):
    ports = set()
    for _ in range(5):
        server.will()
        await client.get(PODS, "ns", "a")
        ports.add(server.last[0].transport.get_extra_info("peername")[1])

    assert len(ports) == 1


async def test_a_session_of_the_watches_refreshes_the_token_for_each_request(client, server):
    client.transport.configuration.refresh_api_key_hook = lambda c: c.api_key.update(
        BearerToken=f"bearer {len(server.asked)}"
    )
    async with client.transport.session() as session:
        for _ in range(2):
            server.will()
            async with session.get(f"{client.transport.server}/api/v1/pods") as response:
                assert response.status == 200

    tokens = [request.headers["Authorization"] for request, _ in server.asked]
    assert tokens == ["bearer 0", "bearer 1"]


@pytest.fixture
def pod(server, tmp_path, monkeypatch):
    """The file of the token in the pod that this process is in."""
    token, ca = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("first")
    shutil.copy(certifi.where(), ca)
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(ca))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", server.url.rpartition(":")[2])
    return token


async def connected(server):
    client = await Client.connect(seconds=10)
    client.transport.configuration.host = server.url  # the server here speaks no TLS
    return client


async def test_a_proxy_in_the_environment_kept_a_pod_from_the_api_server(server, pod, monkeypatch):
    """As a policy of the cluster may add it to every pod, with the network of its Services in
    NO_PROXY, which programs in Go understand."""
    for name, value in (("http_proxy", "http://127.0.0.1:9"), ("no_proxy", "127.0.0.0/8")):
        monkeypatch.setenv(name, value)
    client = await connected(server)
    for _ in range(2):
        server.will()

    await client.get(PODS, "ns", "a")
    async with (
        client.transport.session() as session,
        session.get(f"{server.url}/api/v1/pods") as response,
    ):
        assert response.status == 200
    await client.close()


async def test_in_a_pod_the_token_is_read_again(server, pod):
    token, client = pod, await connected(server)
    hook = client.transport.configuration.refresh_api_key_hook
    loader = hook.__closure__[0].cell_contents
    for content in ("first", "second"):
        token.write_text(content)
        loader.token_expires_at = loader.token_expires_at.replace(year=2000)
        loader.host = server.url
        server.will()
        await client.get(PODS, "ns", "a")
    token.write_text("")
    loader.token_expires_at = loader.token_expires_at.replace(year=2000)
    with pytest.raises(Unavailable, match="empty"):  # once it ended the operator
        await client.get(PODS, "ns", "a")
    await client.close()

    assert [request.headers["Authorization"] for request, _ in server.asked] == [
        "bearer first",
        "bearer second",
    ]


async def test_hanging_requests_used_up_all_connections_and_the_lease_was_lost(client, server):
    """Events, labels and passes of many clusters, while the API server or a webhook hangs."""
    server.hangs = "/pods/"
    hanging = [asyncio.create_task(client.get(PODS, "ns", str(n))) for n in range(150)]
    async with asyncio.timeout(60):
        while len(server.asked) < 100:
            await asyncio.sleep(0.01)
    server.will({"metadata": {"name": "lease"}})
    try:
        async with asyncio.timeout(2):
            assert await client.get(LEASES, "ns", "a") is not None
    finally:
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
