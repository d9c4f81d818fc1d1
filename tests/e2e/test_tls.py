"""TLS: made by the operator, brought by the user, and plaintext where it is asked for."""

from __future__ import annotations

import pytest
from harness.credentials import Credentials
from harness.etcd import EtcdError
from harness.place import Place

MANAGED = {"peer": "Managed", "client": "Managed"}


def test_managed_tls_lets_in_who_has_a_certificate_and_nobody_else(place: Place):
    cluster = place.declare(size=3, TLS=MANAGED).comes_up()

    cluster.client.put("greeting", "hello")
    mine = cluster.credentials()
    stranger = Credentials(mine.authority, b"", b"", mine.host)

    assert cluster.client.get("greeting") == "hello"
    with pytest.raises(EtcdError, match=r"(?i)certificate|alert|eof|reset"):
        cluster.client_with(lambda: stranger).get("greeting")
    with pytest.raises(EtcdError):
        cluster.client_with(lambda: None).get("greeting")
    urls = [url for member in cluster.client.members().members for url in member.peer_urls]
    assert all(url.startswith("https://") for url in urls), urls
