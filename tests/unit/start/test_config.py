"""The settings of a pod and the configuration that `start` writes for etcd."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from start_helpers import SETTINGS, TICKET

from etcd_stateful import naming
from etcd_stateful.start import configuration

GIVEN = {
    "clusterUID": "uid",
    "epoch": 0,
    "domain": "c.ns.svc.cluster.local",
    "clientScheme": "http",
    "peerScheme": "https",
    "dnsTimeoutSeconds": 5,
    "etcd": {"quota-backend-bytes": 1},
}
POD = {"POD_NAME": "c-1", "POD_UID": "pod-uid", "POD_IP": "10.0.0.7"}


def environment(given: object = GIVEN, **changes: str) -> dict[str, str]:
    return POD | {"START_SETTINGS": json.dumps(given)} | changes


def test_the_settings_of_a_pod_are_read() -> None:
    assert configuration.parse_settings(environment()) == configuration.Settings(
        cluster_uid="uid",
        epoch=0,
        member="c-1",
        pod_uid="pod-uid",
        pod_ip="10.0.0.7",
        host="c-1.c.ns.svc.cluster.local",
        client_scheme="http",
        peer_scheme="https",
        dns_timeout=5,
        options={"quota-backend-bytes": 1},
        listen_host="0.0.0.0",  # noqa: S104
    )


def test_omitted_settings_have_defaults() -> None:
    given = {key: value for key, value in GIVEN.items() if key != "etcd"}
    settings = configuration.parse_settings(environment(given | {"dnsTimeoutSeconds": 0}))
    assert settings.dns_timeout == 30
    assert settings.options == {}


def test_ipv6_is_listened_on_if_the_pod_has_it() -> None:
    settings = configuration.parse_settings(environment(POD_IP="fd00::7"))
    config = json.loads(configuration.run_config(settings))
    assert config["listen-client-urls"] == "http://[::]:2379"
    assert config["listen-peer-urls"] == "https://[::]:2380"
    assert config["listen-metrics-urls"] == "http://[::]:2381"


@pytest.mark.parametrize("name", ["POD_NAME", "POD_UID", "POD_IP", "START_SETTINGS"])
def test_an_unset_variable_is_named(name: str) -> None:
    variables = environment()
    del variables[name]
    with pytest.raises(configuration.BadSettings, match=name):
        configuration.parse_settings(variables)
    with pytest.raises(configuration.BadSettings, match=name):
        configuration.parse_settings(variables | {name: ""})


@pytest.mark.parametrize("text", ["noise", "[]", "null", "1"])
def test_settings_that_are_not_an_object_are_refused(text: str) -> None:
    with pytest.raises(configuration.BadSettings, match="START_SETTINGS"):
        configuration.parse_settings(environment(START_SETTINGS=text))


@pytest.mark.parametrize("name", GIVEN)
@pytest.mark.parametrize("value", [None, True, -1, 1.5, "", []])
def test_a_setting_of_the_wrong_type_is_named(name: str, value: object) -> None:
    with pytest.raises(configuration.BadSettings, match=name):
        configuration.parse_settings(environment(GIVEN | {name: value}))


def test_the_first_start_is_configured_by_the_ticket() -> None:
    text = configuration.ticket_config(SETTINGS, replace(TICKET, state="existing"))
    assert json.loads(text) == {
        "advertise-client-urls": "http://c-1.c.ns.svc:2379",
        "data-dir": "/var/etcd/data",
        "initial-advertise-peer-urls": "http://c-1.c.ns.svc:2380",
        "initial-cluster": TICKET.initial_cluster,
        "initial-cluster-state": "existing",
        "initial-cluster-token": TICKET.token,
        "listen-client-urls": "http://0.0.0.0:2379",
        "listen-metrics-urls": "http://0.0.0.0:2381",
        "listen-peer-urls": "http://0.0.0.0:2380",
        "log-level": "info",
        "name": "c-1",
        "quota-backend-bytes": 8589934592,
        "strict-reconfig-check": True,
    }
    assert text == configuration.ticket_config(SETTINGS, replace(TICKET, state="existing"))


def test_a_member_joining_while_tls_is_turned_on_has_all_its_listed_urls() -> None:
    """etcd refuses to join if the list has other URLs for the member than its own configuration."""
    urls = [f"{scheme}://c-1.c.ns.svc:2380" for scheme in ("http", "https")]
    initial = ",".join([f"c-0={urls[0].replace('c-1', 'c-0')}", *(f"c-1={url}" for url in urls)])
    ticket = replace(TICKET, state="existing", initial_cluster=initial)
    found = json.loads(configuration.ticket_config(SETTINGS, ticket))
    assert found["initial-advertise-peer-urls"] == ",".join(urls)
    assert found["listen-peer-urls"] == "http://0.0.0.0:2380"


def test_clients_are_served_with_and_without_tls_if_configured() -> None:
    both = replace(SETTINGS, client_scheme="https", plaintext_clients=True)
    found = json.loads(configuration.run_config(both))
    assert found["listen-client-urls"] == "http://0.0.0.0:2379,https://0.0.0.0:2379"
    assert found["advertise-client-urls"] == ("http://c-1.c.ns.svc:2379,https://c-1.c.ns.svc:2379")


def test_a_restart_is_configured_so_that_it_cannot_bootstrap() -> None:
    first = json.loads(configuration.ticket_config(SETTINGS, TICKET))
    config = json.loads(configuration.run_config(SETTINGS))
    assert config == first | {
        "initial-cluster": "c-1=http://c-1.c.ns.svc:2380",
        "initial-cluster-state": "existing",
        "initial-cluster-token": SETTINGS.cluster_uid,
    }


OWNED = [
    "name",
    "data-dir",
    "listen-client-urls",
    "listen-peer-urls",
    "listen-metrics-urls",
    "advertise-client-urls",
    "initial-advertise-peer-urls",
    "initial-cluster",
    "initial-cluster-state",
    "initial-cluster-token",
    "strict-reconfig-check",
]
DANGEROUS = [
    "force-new-cluster",
    "wal-dir",
    "discovery",
    "discovery-srv",
    "discovery-config",
    "proxy",
]
DISGUISED = [
    "Force-New-Cluster",
    "FORCE-NEW-CLUSTER",
    "force-new-clu\u017fter",  # a long s: Go folds it to an s
    "discovery-srv-name ",
    "<<",
    "",
    "na\u043de",
]


@pytest.mark.parametrize("key", OWNED + DANGEROUS + DISGUISED)
def test_a_base_option_cannot_override_what_start_owns(key: str) -> None:
    settings = replace(SETTINGS, options=SETTINGS.options | {key: "mine"})  # type: ignore[operator]
    assert configuration.ignored_options(settings) == (key,)
    assert configuration.run_config(settings) == configuration.run_config(SETTINGS)
    assert configuration.ticket_config(settings, TICKET) == configuration.ticket_config(
        SETTINGS, TICKET
    )


def test_other_options_are_passed_on_unchanged() -> None:
    options: dict[str, Any] = {
        "auto-compaction-mode": "periodic",
        "feature-gates": "InitialCorruptCheck=true",
        "client-transport-security": {"cert-file": "/tls/a", "client-cert-auth": True},
        "max-wals": 5,
    }
    settings = replace(SETTINGS, options=options)
    assert configuration.ignored_options(settings) == ()
    assert options.items() <= json.loads(configuration.run_config(settings)).items()


def test_the_configuration_is_where_its_path_leads() -> None:
    before, _, name = naming.CONFIG_PATH.rpartition("/../../../")
    assert before == f"{naming.VOLUME_PATH}/data/member/wal"
    assert name == configuration.FILE
    assert f"{naming.VOLUME_PATH}/data" == naming.DATA_DIRECTORY
