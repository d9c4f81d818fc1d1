"""A client of the API server that works with plain dictionaries."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from kubernetes import client, config

from harness.slow import SLOW
from localkube import providers

Json = dict[str, Any]

ROOT = Path(__file__).parents[3]
LOCAL_KUBECONFIG = ROOT / "build" / "cluster" / "kubeconfig"
KUBECONFIG = providers.kubeconfig()
ETCD_GROUP = "etcd.database.coreos.com"


class ApiError(Exception):
    """The API server refused a request."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


@dataclass(frozen=True)
class Kind:
    path: str
    api_version: str
    kind: str
    namespaced: bool = True

    def url(self, namespace: str | None = None, name: str = "") -> str:
        group = "/api/v1" if "/" not in self.api_version else f"/apis/{self.api_version}"
        inside = f"/namespaces/{namespace}" if namespace and self.namespaced else ""
        return f"{group}{inside}/{self.path}" + (f"/{name}" if name else "")


CLUSTERS = Kind("etcdclusters", f"{ETCD_GROUP}/v1beta2", "EtcdCluster")
BACKUPS = Kind("etcdbackups", f"{ETCD_GROUP}/v1beta2", "EtcdBackup")
SCHEDULES = Kind("etcdbackupschedules", f"{ETCD_GROUP}/v1beta2", "EtcdBackupSchedule")
RESTORES = Kind("etcdrestores", f"{ETCD_GROUP}/v1beta2", "EtcdRestore")
STATEFUL_SETS = Kind("statefulsets", "apps/v1", "StatefulSet")
DEPLOYMENTS = Kind("deployments", "apps/v1", "Deployment")
REVISIONS = Kind("controllerrevisions", "apps/v1", "ControllerRevision")
JOBS = Kind("jobs", "batch/v1", "Job")
LEASES = Kind("leases", "coordination.k8s.io/v1", "Lease")
SLICES = Kind("endpointslices", "discovery.k8s.io/v1", "EndpointSlice")
BUDGETS = Kind("poddisruptionbudgets", "policy/v1", "PodDisruptionBudget")
POLICIES = Kind("networkpolicies", "networking.k8s.io/v1", "NetworkPolicy")
CERTIFICATES = Kind("certificates", "cert-manager.io/v1", "Certificate")
REQUESTS = Kind("certificaterequests", "cert-manager.io/v1", "CertificateRequest")
ISSUERS = Kind("issuers", "cert-manager.io/v1", "Issuer")
PODS = Kind("pods", "v1", "Pod")
SERVICES = Kind("services", "v1", "Service")
SECRETS = Kind("secrets", "v1", "Secret")
CLAIMS = Kind("persistentvolumeclaims", "v1", "PersistentVolumeClaim")
EVENTS = Kind("events", "v1", "Event")
VOLUMES = Kind("persistentvolumes", "v1", "PersistentVolume", namespaced=False)
NODES = Kind("nodes", "v1", "Node", namespaced=False)
NAMESPACES = Kind("namespaces", "v1", "Namespace", namespaced=False)
CLUSTER_ROLES = Kind(
    "clusterroles", "rbac.authorization.k8s.io/v1", "ClusterRole", namespaced=False
)
CRDS = Kind(
    "customresourcedefinitions",
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    namespaced=False,
)


class Kube:
    """The verbs of the API, for any Kind. It is thread-safe: watches and log followers share it
    with the test."""

    def __init__(self, kubeconfig: Path = KUBECONFIG) -> None:
        self.kubeconfig = kubeconfig
        loaded = client.Configuration()
        config.load_kube_config(str(kubeconfig), client_configuration=loaded)
        loaded.connection_pool_maxsize = 32
        self._api = client.ApiClient(loaded)

    def get(self, kind: Kind, namespace: str | None, name: str) -> Json | None:
        try:
            return self.request("GET", kind.url(namespace, name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(self, kind: Kind, namespace: str | None = None, selector: str = "") -> list[Json]:
        query = {"labelSelector": selector} if selector else {}
        return list(self.request("GET", kind.url(namespace), query)["items"])

    def create(self, kind: Kind, manifest: Json, namespace: str | None = None) -> Json:
        where = namespace or manifest["metadata"].get("namespace")
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **manifest}
        return self.request("POST", kind.url(where), body=body)

    def patch(
        self, kind: Kind, namespace: str | None, name: str, patch: Any, subresource: str = ""
    ) -> Json:
        """Sends a merge patch, or a JSON patch if it is a list."""
        form = "json-patch" if isinstance(patch, list) else "merge-patch"
        url = kind.url(namespace, name) + (f"/{subresource}" if subresource else "")
        return self.request("PATCH", url, body=patch, form=f"application/{form}+json")

    def delete(self, kind: Kind, namespace: str | None, name: str, **options: Any) -> None:
        """Deletes without waiting; the options are fields of DeleteOptions."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        self.request("DELETE", kind.url(namespace, name), body=body)

    def watch(
        self, kind: Kind, namespace: str | None = None, seconds: int = 3600, since: str = ""
    ) -> Iterator[Json]:
        """Watch events, until the time is up. They begin after the resource version `since`, or
        with the existing objects if there is none."""
        query = {"watch": "1", "timeoutSeconds": str(seconds), "allowWatchBookmarks": "false"}
        query |= {"resourceVersion": since} if since else {}
        response = self._send("GET", kind.url(namespace), query, timeout=(5, seconds + 5))
        rest = b""
        for chunk in response.stream(amt=None):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield json.loads(line)

    def log_lines(self, namespace: str, pod: str, **query: str) -> Iterator[str]:
        """A pod's log, line by line; with follow="true" until the container ends."""
        url = f"{PODS.url(namespace, pod)}/log"
        rest = b""
        for chunk in self._send("GET", url, query, timeout=(5, 3600)).stream(amt=None):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from (line.decode(errors="replace") for line in lines)
        if rest:
            yield rest.decode(errors="replace")

    def request(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: Any = None,
        form: str = "application/json",
    ) -> Json:
        answer = self._send(method, path, query or {}, body, form).data
        return dict(json.loads(answer))

    def _send(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: Any = None,
        form: str = "application/json",
        timeout: Any = 30,
    ) -> Any:
        headers = {"Content-Type": form, "Accept": "application/json, */*"}
        text = None if body is None else json.dumps(body)
        url = path + (f"?{urlencode(query)}" if query else "")
        words = self._api.param_serialize(
            method, url, header_params=headers, body=text, auth_settings=["BearerToken"]
        )
        # A string is sent as it is, for any content type.
        response = self._api.rest_client.pool_manager.request(
            words[0],
            words[1],
            body=text,
            headers=words[2],
            timeout=_timeout(timeout),
            preload_content=False,
            retries=False,
        )
        if response.status >= 400:
            raise ApiError(response.status, _message(response.data))
        return response

    def kubectl(self, *words: str, seconds: float = SLOW * 30, stdin: str | None = None) -> str:
        """Runs kubectl, for requests that are not plain HTTP (exec, attach), or as users do."""
        done = subprocess.run(
            ["kubectl", f"--kubeconfig={self.kubeconfig}", *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        if done.returncode:
            raise ApiError(done.returncode, f"kubectl {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout


def _timeout(timeout: Any) -> Any:
    from urllib3 import Timeout

    if isinstance(timeout, tuple):
        return Timeout(connect=timeout[0], read=timeout[1])
    return Timeout(connect=5, read=timeout)


def _message(data: bytes) -> str:
    try:
        return str(json.loads(data)["message"])
    except (ValueError, KeyError, TypeError):
        return data.decode(errors="replace")[:500]
