"""Real kopf, in its thread, with a test API server that fails as a test says."""

import asyncio
import gc
import itertools
import json
import threading

import aiohttp
import kopf
import pytest
from aiohttp import web

from etcd_operator.kube import watches as watches_module
from etcd_operator.kube.api import ETCD_CLUSTERS, PODS, SECRETS, WATCH_SECONDS
from etcd_operator.kube.watches import (
    SELECTORS,
    SILENT_SECONDS,
    START_SECONDS,
    STUCK_SECONDS,
    Scope,
    Watches,
    operator_settings,
    scopes,
)
from unit.kube.listening import listening

ALL_PODS = Scope(PODS, None)
PODS_PATH = ALL_PODS.path


def pod(version, name="a-0", **metadata):
    metadata = {"name": name, "namespace": "ns", "uid": name, **metadata}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "resourceVersion": str(version)},
    }


class Fast:
    def __iter__(self):
        return itertools.repeat(0.01)


class Api:
    """Discovery, LIST and WATCH, as kopf uses them. Records every request."""

    def __init__(self):
        self.asked = []
        self.objects = {}
        self.streams = {}
        self.refuse = {}
        self.unwatchable = {}
        self.below = ""

    @property
    def server(self):
        return self.url

    def session(self, *traces):
        return aiohttp.ClientSession(trace_configs=list(traces))

    async def handle(self, request):
        self.asked.append(request)
        for path, statuses in self.refuse.items():
            if request.path == path and statuses:
                status = statuses.pop(0)
                text = json.dumps({"kind": "Status", "code": status, "message": "no"})
                return web.Response(status=status, text=text, content_type="application/json")
        if "watch" in request.query:
            if status := self.unwatchable.get(request.path):
                return web.json_response({"kind": "Status", "code": status}, status=status)
            return await self._watch(request)
        return web.json_response(self._answer(request.path.removeprefix(self.below)))

    def _answer(self, path):
        parts = path.strip("/").split("/")
        if path == "/api":
            return {"versions": ["v1"]}
        if path == "/apis":
            groups = {r.group for r in SELECTORS if r.group} | {"apiextensions.k8s.io"}
            return {
                "groups": [
                    {
                        "name": group,
                        "versions": [{"version": version(group)}],
                        "preferredVersion": {"version": version(group)},
                    }
                    for group in groups
                ]
            }
        if path == "/api/v1" or (parts[0] == "apis" and len(parts) == 3):
            return self._discovery("" if path == "/api/v1" else parts[1])
        return {"metadata": {"resourceVersion": "10"}, "items": self.objects.get(path, [])}

    def _discovery(self, group):
        known = [(r.plural, r.kind, True) for r in SELECTORS if r.group == group]
        if not group:
            known.append(("namespaces", "Namespace", False))
        if group == "apiextensions.k8s.io":
            known.append(("customresourcedefinitions", "CustomResourceDefinition", False))
        return {
            "resources": [
                {
                    "name": plural,
                    "singularName": kind.lower(),
                    "kind": kind,
                    "namespaced": namespaced,
                    "verbs": ["list", "watch", "get", "patch"],
                }
                for plural, kind, namespaced in known
            ]
        }

    async def _watch(self, request):
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        queue = self.streams[request.path] = asyncio.Queue()
        for obj in self.objects.get(request.path, []):
            if int(obj["metadata"]["resourceVersion"]) > int(request.query["resourceVersion"]):
                queue.put_nowait({"type": "ADDED", "object": obj})
        while (event := await queue.get()) is not None:
            await response.write(json.dumps(event).encode() + b"\n")
        return response

    def tell(self, kind, obj, path=PODS_PATH):
        self.streams[path].put_nowait({"type": kind, "object": obj})


def version(group):
    return next((r.version for r in SELECTORS if r.group == group), "v1")


@pytest.fixture
async def api():
    api = Api()
    async with listening(api.handle) as served:
        api.url = served.url
        yield api


@pytest.fixture
def told():
    return []


@pytest.fixture
def listed():
    return []


@pytest.fixture
async def watches(api, told, listed, monkeypatch):
    monkeypatch.setattr(watches_module, "FIRST_DELAY", 0.05)
    monkeypatch.setattr(watches_module, "END_SECONDS", 0.5)
    monkeypatch.setattr(watches_module, "LOGIN_SECONDS", 0.1)
    monkeypatch.setattr(watches_module, "_Delays", Fast)
    watches = Watches(
        api,
        None,
        deliver=lambda resource, kind, obj: told.append((resource, kind, obj)),
        listed=listed.append,
    )
    watches.start()
    yield watches
    for stream in api.streams.values():
        stream.put_nowait(None)
    await watches.stop(10)
    assert not watches._thread.is_alive()
    gc.collect()  # an open connection is an error here, not in a later test


async def until(condition, seconds=10):
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


async def test_every_resource_is_listed_and_watched_with_its_selector(api, watches, listed):
    await until(lambda: not watches.missing())

    for resource, selector in SELECTORS.items():
        mine = [r for r in api.asked if r.path == resource.path()]
        assert [r.query.get("labelSelector", "") for r in mine] == [selector, selector]
        assert mine[1].query["timeoutSeconds"] == str(WATCH_SECONDS)
    assert {scope.resource for scope in listed} == set(SELECTORS)


async def test_events_are_delivered_on_the_callers_thread(api, watches, told):
    threads = set()
    watches._deliver = lambda *event: (threads.add(threading.get_ident()), told.append(event))
    await until(lambda: PODS_PATH in api.streams)
    for event in (("ADDED", pod(11)), ("MODIFIED", pod(12)), ("DELETED", pod(13))):
        api.tell(*event)
    await until(lambda: len(told) == 3)

    assert [(r, kind, o["metadata"]["resourceVersion"]) for r, kind, o in told] == [
        (PODS, "ADDED", "11"),
        (PODS, "MODIFIED", "12"),
        (PODS, "DELETED", "13"),
    ]
    assert threads == {threading.get_ident()}


async def test_kopf_only_reads(api, watches, told):
    finalized = {"finalizers": ["kopf.zalando.org/KopfFinalizerMarker"]}
    api.objects[PODS_PATH] = [pod(5), pod(6, "a-1", **finalized)]
    path = ETCD_CLUSTERS.path()
    await until(lambda: path in api.streams and PODS_PATH in api.streams)
    cluster = pod(11, "a", **finalized) | {"spec": {}}
    api.tell("ADDED", cluster, path)
    api.tell("MODIFIED", pod(12), PODS_PATH)
    api.tell("DELETED", pod(13), PODS_PATH)
    await until(lambda: len(told) >= 3)
    await asyncio.sleep(0.3)

    assert {request.method for request in api.asked} == {"GET"}


async def test_a_deletion_missed_between_two_watches_is_followed_by_a_list(
    api, watches, told, listed
):
    api.objects[PODS_PATH] = [pod(5), pod(6, "a-1")]
    await until(lambda: PODS_PATH in api.streams and not watches.missing())
    listed.clear()
    told.clear()
    api.objects[PODS_PATH] = [pod(6, "a-1")]
    api.tell("ERROR", {"kind": "Status", "code": 410, "message": "too old"})
    await until(lambda: listed)

    # kopf itself reports nothing about a-0 (1.45.2). Our own LIST does.
    assert listed == [Scope(PODS, None)]
    assert not [kind for _, kind, _ in told if kind == "DELETED"]


async def test_a_failing_server_is_retried_without_end(api, watches, told):
    await until(lambda: PODS_PATH in api.streams)
    starts = watches._started
    api.refuse[PODS_PATH] = [500, 503, 403, 429, 502, 504] * 4
    api.streams[PODS_PATH].put_nowait(None)
    await until(lambda: not api.refuse[PODS_PATH], 30)
    await asyncio.sleep(0.3)
    api.tell("ADDED", pod(20))
    await until(lambda: told)

    assert watches._started == starts


def test_the_backoffs_never_end_and_start_over_for_each_request():
    delays = operator_settings().networking.error_backoffs

    assert list(itertools.islice(delays, 3)) == [1.0, 1.0, 2.0]
    assert list(itertools.islice(delays, 1)) == [1.0]
    assert max(itertools.islice(delays, 1000)) == 10.0


async def test_expired_credentials_are_requested_again(api, watches, told):
    await until(lambda: not watches.missing())
    api.refuse[PODS_PATH] = [401, 401]
    api.objects[PODS_PATH] = [pod(20)]
    api.streams[PODS_PATH].put_nowait(None)
    # One 401 closes the session that all watches share. Some of them may fail then in a way that
    # kopf does not survive, and kopf is started again. So it is not known which request is the
    # last, and the pod is reported to any that comes after both.
    await until(lambda: told, 20)
    await until(lambda: not watches.missing(), 20)

    assert not api.refuse[PODS_PATH]


async def test_kopf_is_restarted_when_it_dies(api, watches, told, caplog):
    await until(lambda: not watches.missing())
    api.tell("ERROR", {"kind": "Status", "code": 500, "message": "kaput"})
    del api.streams[PODS_PATH]
    await until(lambda: PODS_PATH in api.streams, 20)
    api.tell("ADDED", pod(20))
    await until(lambda: told)

    assert "the watches failed" in caplog.text


async def test_a_restart_starts_every_watch_again(api, watches):
    await until(lambda: not watches.missing())
    before = len([r for r in api.asked if r.path == PODS_PATH])
    watches.restart()
    await until(watches.missing, 15)
    await until(lambda: not watches.missing())

    assert len([r for r in api.asked if r.path == PODS_PATH]) == before + 2


async def test_there_is_one_watch_per_served_namespace(api, told):
    watches = Watches(api, ("x", "y"), deliver=lambda *_: None, listed=lambda _: None)
    watches.start()
    await until(lambda: not watches.missing())
    for stream in api.streams.values():
        stream.put_nowait(None)
    await watches.stop(10)

    assert {r.path for r in api.asked if "watch" in r.query} == {
        resource.path(namespace) for resource in SELECTORS for namespace in ("x", "y")
    }


def test_watches_are_stuck_if_a_restart_does_not_happen():
    now = [0.0]
    watches = Watches(
        None, None, deliver=lambda *_: None, listed=lambda _: None, clock=lambda: now[0]
    )
    assert not watches.stuck()
    now[0] = 100
    watches.restart()
    now[0] += STUCK_SECONDS
    watches.restart()
    assert not watches.stuck()
    now[0] += 1
    assert watches.stuck()


def test_the_operator_ended_when_kopf_did_just_before_it_was_asked_to():
    class Closing:
        """The loop of kopf's thread, closed between a look at it and a call."""

        def is_closed(self):
            return False

        def call_soon_threadsafe(self, *_):
            raise RuntimeError("Event loop is closed")

    watches = Watches(None, None, deliver=lambda *_: None, listed=lambda _: None)
    watches._loop, watches._ending = Closing(), asyncio.Event()

    watches.restart()


def test_a_watch_without_a_renewal_is_silent():
    now = [0.0]
    watches = Watches(
        None, None, deliver=lambda *_: None, listed=lambda _: None, clock=lambda: now[0]
    )
    every = scopes(None)
    assert watches.missing() == every
    assert watches.silent() == []
    now[0] = START_SECONDS
    assert watches.silent() == every

    watches._renewed = dict.fromkeys(every, now[0])
    now[0] += SILENT_SECONDS
    watches._renewed[ALL_PODS] = now[0]
    assert watches.silent() == []
    now[0] += 1
    assert watches.silent() == [scope for scope in every if scope != ALL_PODS]
    assert watches.missing() == []


@pytest.mark.parametrize("status", [403, 500])
async def test_a_role_without_watch_had_all_watches_restarted_every_four_minutes(
    api, watches, told, status
):
    await until(lambda: not watches.missing())
    api.unwatchable[PODS_PATH] = status
    watches.restart()
    await until(lambda: watches.missing() == [ALL_PODS], 15)
    started = watches._started
    watches._clock = lambda: started + START_SECONDS
    asked = len(api.asked)
    await until(lambda: len(api.asked) > asked + 2)

    assert (watches.silent(), watches.missing()) == ([], [ALL_PODS])

    api.unwatchable.clear()
    await until(lambda: not watches.missing())
    assert watches._started == started


def test_watches_of_a_fleet_that_take_long_to_start_get_more_time(monkeypatch):
    """A start that is interrupted begins at nothing, so with the same time it would never
    finish."""
    monkeypatch.setattr(watches_module, "FIRST_DELAY", 0.0)
    now, given = [0.0], []
    watches = Watches(
        None, None, deliver=lambda *_: None, listed=lambda _: None, clock=lambda: now[0]
    )
    every = scopes(None)
    begun = [every[:-1]] * 5 + [every, every]

    async def kopf_ends():
        """It ends once it is told to, and only when it is silent."""
        watches._renewed = dict.fromkeys(begun[len(given)], now[0])
        started = now[0]
        while not (silent := watches.silent()):
            now[0] += 1
        given.append(now[0] - started)
        watches.restart(silent)
        if len(given) == len(begun):
            watches._ended.set()

    monkeypatch.setattr(watches, "_kopf", kopf_ends)
    watches._run()

    silence = SILENT_SECONDS + 1
    assert given == [30, 60, 120, 240, 240, silence, silence]
    assert watches._patience == START_SECONDS


def test_the_api_server_filters_out_secrets_and_pods_of_others():
    settings = operator_settings()
    for resource in (PODS, SECRETS):
        found = [
            selector
            for key, selector in settings.watching.label_selectors.items()
            if (key.group, key.version, key.any_name)
            == (resource.group, resource.version, resource.plural)
        ]
        assert found == ["app.kubernetes.io/managed-by=etcd-operator"]
    assert not settings.posting.enabled
    assert settings.scanning.disabled


async def test_an_annotation_of_kopf_hid_every_event_of_its_object(api, watches, told, caplog):
    """kopf parsed it, failed, logged a traceback, and dropped the events."""
    await until(lambda: PODS_PATH in api.streams)
    api.tell("ADDED", pod(11, annotations={"kopf.zalando.org/last-handled-configuration": "{"}))
    await until(lambda: told, 2)

    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.usefixtures("deep_json")
async def test_one_object_with_deep_managed_fields_ended_all_watches(api, watches, told, caplog):
    await until(lambda: PODS_PATH in api.streams)
    fields = {}
    for _ in range(9_900):
        fields = {"f:a": fields}
    api.tell("ADDED", pod(11, managedFields=[{"fieldsV1": fields}]))
    api.tell("ADDED", pod(12, "a-1"))
    await until(lambda: len(told) == 2, 2)

    assert not [record for record in caplog.records if record.exc_info]


def test_nothing_is_registered_with_kopf_at_import():
    assert not kopf.get_default_registry()._watching.get_all_handlers()


async def test_an_api_server_below_a_path_never_counted_as_watched(api, told, monkeypatch):
    """As in the kubeconfig of a proxy that serves many clusters."""
    monkeypatch.setattr(Api, "server", property(lambda api: f"{api.url}/k8s/clusters/c-1"))
    api.below = "/k8s/clusters/c-1"
    watches = Watches(api, None, deliver=lambda *_: None, listed=lambda _: None)
    watches.start()
    try:
        await until(lambda: len(api.streams) == len(SELECTORS))
        await until(lambda: not watches.missing(), 3)
    finally:
        for stream in api.streams.values():
            stream.put_nowait(None)
        await watches.stop(10)
