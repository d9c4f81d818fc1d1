"""Which certificates a cluster needs, what is wrong with existing ones, and which are made."""

from __future__ import annotations

import base64
import datetime
import inspect
import ipaddress
import math
import warnings
from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import body

from etcd_operator.credentials import signers, signing
from etcd_operator.credentials.authorities import digest
from etcd_operator.credentials.checking import examine, problem_at
from etcd_stateful.api.cluster import parse_cluster
from etcd_stateful.certificates import (
    DAY,
    LEAF_SECONDS,
    managed,
    pinned_file,
    provided,
    renewed_at,
    trust_of,
)

NOW = 1_800_000_000.0
USUAL_HASH = hashes.SHA256()
MANAGED = {"peer": "Managed", "client": "Managed"}
STATIC = {
    "static": {"member": {"peerSecret": "p", "serverSecret": "s"}, "operatorSecret": "o"},
}


def needs(**spec):
    cluster = parse_cluster(body(3, **{"TLS": MANAGED, **spec}))
    return {(need.role, need.secret): need for need in managed(cluster)}


def need_of(role, **spec):
    return next(need for (one, _), need in needs(**spec).items() if one == role)


def made(role, now=NOW, authority=None, **spec):
    """The content of a managed Secret, and of its authority's."""
    need = need_of(role, **spec)
    above = needs(**spec).get(("authority", need.signed_by))
    authority = authority or signing.make(above, {}, now)
    return need, signing.make(need, authority, now), authority


def certificate(files, key):
    return x509.load_pem_x509_certificate(files[key])


def sans(files, key):
    found = certificate(files, key).extensions
    return found.get_extension_for_class(x509.SubjectAlternativeName).value


def test_authorities_that_only_older_pods_trust_are_found_in_the_files_that_are_named_after_them():
    """A damaged file, or one under another's name, says nothing."""
    need, files, authority = made("peer")
    old = signing.make(needs()["authority", need.signed_by], {}, NOW)["ca.crt"]
    both = authority["ca.crt"] + old
    digests = [digest(one) for one in x509.load_pem_x509_certificates(both)]
    named = {
        pinned_file("peer-ca.crt", trust_of(digests)): both,
        pinned_file("peer-ca.crt", "0" * 16): old,
        pinned_file("peer-ca.crt", "1" * 16): b"no certificate",
    }

    found = examine(need, files | named)

    assert not found.problem
    assert found.kept == (tuple(digests),)


class TestNames:
    def test_members_have_names_for_every_possible_ordinal(self):
        for role in ("peer", "server"):
            names = need_of(role).names
            for ordinal in range(7):
                assert f"c-{ordinal}.c.ns.svc" in names
                assert f"c-{ordinal}.c.ns.svc.cluster.local" in names, "as reverse DNS says it"

    def test_a_cluster_domain_replaces_the_usual_one(self):
        names = need_of("peer", pod={"ClusterDomain": ".corp.example"}).names
        assert "c-0.c.ns.svc.corp.example" in names
        assert "c-0.c.ns.svc" in names
        assert not [name for name in names if name.endswith("cluster.local")]

    def test_all_names_of_the_client_service_are_valid(self):
        names = need_of("server").names
        wanted = ("c-client", "c-client.ns", "c-client.ns.svc", "c-client.ns.svc.cluster.local")
        assert set(wanted) <= set(names)
        assert "localhost" in names
        assert need_of("server").addresses == ("127.0.0.1", "::1")

    def test_client_certificates_have_no_names(self):
        """etcd does not look at them: it compares those of its peers only."""
        for role in ("operator", "application"):
            _, files, _ = made(role)
            key = need_of(role).files.certificate
            with pytest.raises(x509.ExtensionNotFound):
                sans(files, key)

    def test_only_the_operators_certificate_has_the_common_name_root(self):
        """With authentication on, etcd takes the common name for a user."""
        named = {role for (role, _), need in needs().items() if need.subject == "root"}
        assert named == {"operator"}

    def test_no_wildcards(self):
        assert not [name for need in needs().values() for name in need.names if "*" in name]

    def test_each_link_has_its_own_authority(self):
        signed_by = {secret: need.signed_by for (_, secret), need in needs().items()}
        assert signed_by == {
            "c-peer-ca": "",
            "c-peer-tls": "c-peer-ca",
            "c-client-ca": "",
            "c-server-tls": "c-client-ca",
            "c-operator-tls": "c-client-ca",
            "c-client-tls": "c-client-ca",
        }

    def test_nothing_is_created_for_a_link_in_plaintext(self):
        assert set(needs(TLS={"client": "Plaintext"})) == {
            ("authority", "c-peer-ca"),
            ("peer", "c-peer-tls"),
        }
        assert not needs(TLS={"peer": "Plaintext", "client": "Plaintext"})

    def test_a_link_that_is_not_declared_is_managed(self):
        assert needs(TLS=None) == needs(TLS={"peer": "Managed"}) == needs()


class TestMade:
    @pytest.mark.parametrize("role", ["peer", "server", "operator", "application"])
    def test_a_created_certificate_is_what_is_needed(self, role):
        need, files, _ = made(role)
        assert set(files) == set(need.files)
        assert problem_at(examine(need, files), NOW) == ""

    def test_usages_are_those_that_etcd_checks(self):
        both = {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
        for role, wanted in (
            ("peer", both),
            ("server", both),
            ("operator", both - {ExtendedKeyUsageOID.SERVER_AUTH}),
            ("application", both - {ExtendedKeyUsageOID.SERVER_AUTH}),
        ):
            need, files, _ = made(role)
            extensions = certificate(files, need.files.certificate).extensions
            found = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
            assert set(found) == wanted, role

    def test_an_authority_signs_leaves_only(self):
        _, _, authority = made("peer")
        own = certificate(authority, "ca.crt").extensions
        assert own.get_extension_for_class(x509.BasicConstraints).value == x509.BasicConstraints(
            ca=True, path_length=0
        )
        assert own.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
        _, files, _ = made("peer")
        leaf = certificate(files, "peer.crt").extensions
        assert not leaf.get_extension_for_class(x509.BasicConstraints).value.ca
        assert not leaf.get_extension_for_class(x509.KeyUsage).value.key_cert_sign

    @pytest.mark.parametrize("generation", [1, 10, 1_000_000])
    def test_the_longest_name_has_room_for_every_generation(self, generation):
        """A name that did not fit into the certificate stopped the whole cluster with an
        exception."""
        resource = body(3, TLS=MANAGED)
        resource["metadata"]["name"] = "c" * 52
        for need in managed(parse_cluster(resource)):
            if need.role == "authority":
                files = signing.make(need, {}, NOW, generation)
                [name] = certificate(files, "ca.crt").subject
                assert generation == 1 or name.value.endswith(f"-{generation}")

    def test_every_certificate_has_its_own_key(self):
        need, first, authority = made("peer")
        again = signing.make(need, authority, NOW)
        assert first["peer.key"] != again["peer.key"]
        assert first["peer-ca.crt"] == again["peer-ca.crt"] == authority["ca.crt"]

    def test_none_outlives_its_authority(self):
        _, _, authority = made("peer")
        ends = certificate(authority, "ca.crt").not_valid_after_utc.timestamp()
        _, files, _ = made("peer", now=ends - 10 * DAY, authority=authority)
        assert certificate(files, "peer.crt").not_valid_after_utc.timestamp() == ends

    def test_a_clock_that_is_behind_accepts_it(self):
        need, files, _ = made("peer")
        assert problem_at(examine(need, files), NOW - 60) == ""

    def test_an_authority_without_a_certificate_signs_nothing(self):
        need = need_of("peer")
        _, _, authority = made("peer")
        for broken in ({}, {**authority, "ca.key": b"no"}, {"ca.crt": authority["ca.crt"]}):
            with pytest.raises(signing.CannotSign, match="holds no authority") as caught:
                signing.make(need, broken, NOW)
            assert caught.value.__cause__ is None, "a parser's words may quote the key"

    def test_an_authority_without_a_key_identifier_made_every_pass_fail(self):
        need = need_of("application")
        above, key = root()
        authority = {"ca.crt": pem(above), "ca.key": pem_key(key)}
        assert examine(needs()["authority", need.signed_by], authority).problem == ""
        assert problem_at(examine(need, signing.make(need, authority, NOW)), NOW) == ""

    @pytest.mark.parametrize(
        "key", [rsa.generate_private_key(65537, 2048), ed25519.Ed25519PrivateKey.generate()]
    )
    def test_an_authority_of_another_kind_passed_the_check_and_signed_nothing(self, key):
        """The operator tried again and again, and the status did not say why."""
        need = need_of("peer")
        above, _ = root(key=key)
        authority = {"ca.crt": pem(above), "ca.key": pem_key(key)}
        assert examine(needs()["authority", need.signed_by], authority).problem == ""
        assert problem_at(examine(need, signing.make(need, authority, NOW)), NOW) == ""

    def test_renewal_is_due_at_two_thirds_of_its_life(self):
        need, files, _ = made("peer")
        own = examine(need, files).certificate
        assert own.ends == NOW + LEAF_SECONDS
        assert abs(renewed_at(own.begins, own.ends) - (NOW + LEAF_SECONDS * 2 / 3)) < 600
        assert renewed_at(0, 300) == 200


def signed(
    *,
    names=("*.c.ns.svc", "*.c.ns.svc.cluster.local", "c-client.ns.svc"),
    usages=(ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH),
    begins=NOW - DAY,
    ends=NOW + DAY,
    authority=None,
    is_authority=True,
    key=None,
    usage=None,
    critical=(),
    hashed=USUAL_HASH,
):
    """A certificate as a user creates it: key, certificate, and its signer."""
    above, above_key = authority or root(ends=NOW + 1000 * DAY, ca=is_authority)
    key = key or ec.generate_private_key(ec.SECP256R1())
    builder = _builder("member", above.subject, key, begins, ends)
    if usages:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    if usage:
        builder = builder.add_extension(usage, critical=True)
    if names:
        alternatives = [
            x509.IPAddress(ipaddress.ip_address(name)) if name[0].isdigit() else x509.DNSName(name)
            for name in names
        ]
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    for extension in critical:
        builder = builder.add_extension(extension, critical=True)
    return pem_key(key), pem(builder.sign(above_key, hashed)), pem(above)


def root(
    *,
    ends=NOW + 1000 * DAY,
    begins=NOW - DAY,
    ca=True,
    name="root",
    above=None,
    path_length=None,
    others=(),
    critical=(),
    key=None,
    hashed=USUAL_HASH,
):
    key = key or ec.generate_private_key(ec.SECP256R1())
    issuer, signing = (above[0].subject, above[1]) if above else (_name(name), key)
    builder = _builder(name, issuer, key, begins, ends).add_extension(
        x509.BasicConstraints(ca=ca, path_length=path_length), critical=True
    )
    for extension in others:
        builder = builder.add_extension(extension, critical=False)
    for extension in critical:
        builder = builder.add_extension(extension, critical=True)
    hashed = None if isinstance(signing, ed25519.Ed25519PrivateKey) else hashed
    return builder.sign(signing, hashed), key


def _builder(name, issuer, key, begins, ends):
    moment = lambda at: datetime.datetime.fromtimestamp(at, datetime.UTC)  # noqa: E731
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(moment(begins))
        .not_valid_after(moment(ends))
    )


def _name(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def pem(certificate):
    return certificate.public_bytes(serialization.Encoding.PEM)


def pem_key(key):
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8
        if isinstance(key, ed25519.Ed25519PrivateKey)
        else serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _is_exponent(number, p, q):
    return math.gcd(number, (p - 1) * (q - 1)) == 1


def _rsa(p, q, exponent):
    d = pow(exponent, -1, (p - 1) * (q - 1))
    public = rsa.RSAPublicNumbers(exponent, p * q)
    crt = d % (p - 1), d % (q - 1), pow(q, -1, p)
    return rsa.RSAPrivateNumbers(p, q, d, *crt, public).private_key()


def _rsa_key(p, q, modulus=None):
    """A key in PEM form that is made of these primes, of which those of Mersenne can be large."""
    d = pow(65537, -1, (p - 1) * (q - 1))
    numbers = (0, modulus or p * q, 65537, d, p, q, d % (p - 1), d % (q - 1), pow(q, -1, p))
    body = b"".join(_der(2, one.to_bytes(one.bit_length() // 8 + 1)) for one in numbers)
    text = base64.encodebytes(_der(0x30, body)).decode()
    return f"-----BEGIN RSA PRIVATE KEY-----\n{text}-----END RSA PRIVATE KEY-----\n".encode()


def _der(tag, content):
    size = len(content)
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes([tag, *([size] if size < 128 else [128 | len(length), *length])]) + content


def wanted(role, size=3, **spec):
    cluster = parse_cluster(body(size, **{"TLS": STATIC, **spec}))
    return next(need for need in provided(cluster, cluster.size) if need.role == role)


def peer(**how):
    key, crt, ca = signed(**how)
    return {"peer.key": key, "peer.crt": crt, "peer-ca.crt": ca}


def server(**how):
    key, crt, ca = signed(**how)
    return {"server.key": key, "server.crt": crt, "server-ca.crt": ca}


def operator(**how):
    key, crt, ca = signed(**how)
    return {"etcd-client.key": key, "etcd-client.crt": crt, "etcd-client-ca.crt": ca}


def _usage(name):
    """The extension with this key usage alone."""
    every = list(inspect.signature(x509.KeyUsage).parameters)
    return x509.KeyUsage(**{one: one == name for one in every})


GOOD = peer()


def problem(data, role="peer", now=NOW, **spec):
    return problem_at(examine(wanted(role, **spec), data), now)


class TestProvided:
    def test_what_coreos_documented_is_accepted(self):
        assert problem(peer()) == ""
        names = ("*.c.ns.svc", "c-client.ns.svc", "localhost")
        assert problem(server(names=names), "server") == ""
        alone = operator(names=(), usages=(ExtendedKeyUsageOID.CLIENT_AUTH,))
        assert problem(alone, "operator") == ""

    def test_exact_names_are_accepted_in_place_of_a_wildcard(self):
        assert problem(peer(names=tuple(f"c-{one}.c.ns.svc" for one in range(3)))) == ""

    def test_a_long_chain_of_intermediates_held_up_every_cluster(self):
        """A check runs in the event loop. It compared each certificate of a chain with all others
        and with each authority: 200 of both, 160 kB in a Secret, took two minutes."""
        key, crt, ca = signed()
        other, _ = root(name="root")
        data = {"peer.key": key, "peer.crt": crt + ca * 11, "peer-ca.crt": pem(other)}
        said = "peer.crt holds 11 intermediates; at most 10 are accepted"
        assert problem(data) == said
        said = "peer-ca.crt holds 201 authorities; at most 200 are accepted"
        assert problem({"peer.key": key, "peer.crt": crt, "peer-ca.crt": ca * 201}) == said
        data = {"peer.key": key, "peer.crt": crt + pem(other) * 10, "peer-ca.crt": ca * 200}
        assert problem(data) == ""

    def test_a_large_key_held_up_every_cluster(self):
        """When an RSA key is loaded, its primes are tested: a minute at 20,000 bits, much longer
        above."""
        _, crt, ca = signed()
        data = {"peer.key": _rsa_key(2**4253 - 1, 2**4423 - 1), "peer.crt": crt, "peer-ca.crt": ca}
        assert problem(data).startswith("peer.key is an RSA key of 8676 bits; take ECDSA")
        data["peer.key"] = _rsa_key(2**21701 - 1, 2**44497 - 1)
        assert problem(data).endswith("bytes; at most 16384 are accepted")

    def test_authorities_with_large_exponents_held_up_every_cluster(self):
        """Each comparison with one took 15 ms, and a chain may have 2200. Go parses no such key."""
        numbers = rsa.generate_private_key(65537, 2048).private_numbers()
        p, q = numbers.p, numbers.q
        large = next(one for one in range(2**2000 + 1, 2**2001, 2) if _is_exponent(one, p, q))
        above = root(key=_rsa(p, q, large))
        assert problem(peer(authority=above)) == "peer-ca.crt has not signed peer.crt"
        assert problem(peer(authority=root(key=_rsa(p, q, 65537)))) == ""

    def test_a_key_with_a_large_prime_of_another_key_held_up_every_cluster(self, monkeypatch):
        _, crt, ca = signed()
        odd = _rsa_key(2**9689 - 1, 2**607 - 1, modulus=(2**1279 - 1) * (2**607 - 1))
        load, tested = serialization.load_pem_private_key, []

        def loaded(pem, password, **how):
            tested.extend([] if how.get("unsafe_skip_rsa_key_validation") else [pem])
            return load(pem, password, **how)

        monkeypatch.setattr(serialization, "load_pem_private_key", loaded)
        said = problem({"peer.key": odd, "peer.crt": crt, "peer-ca.crt": ca})
        assert said == "peer.key is not a private key in PEM form without a password"
        assert not tested

    def test_a_certificate_without_usages_is_accepted_for_all(self):
        assert problem(peer(usages=())) == ""
        assert problem(peer(usages=(ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,))) == ""

    def test_a_certificate_signed_by_an_intermediate(self):
        top = root(name="top")
        middle = root(name="middle", above=top)
        key, crt, _ = signed(authority=middle)
        data = {"peer.key": key, "peer.crt": crt + pem(middle[0]), "peer-ca.crt": pem(top[0])}
        assert problem(data) == ""
        assert problem({**data, "peer.crt": crt}) == "peer-ca.crt has not signed peer.crt"

    @pytest.mark.parametrize(
        ("how", "said"),
        [
            ({"ends": NOW - 1}, "an intermediate in peer.crt expired on 2027-01-15T07:59:59Z"),
            (
                {"begins": NOW + 60},
                "an intermediate in peer.crt is not valid before 2027-01-15T08:01:00Z",
            ),
            ({"ca": False}, "an intermediate in peer.crt is not the certificate of an authority"),
            (
                {"others": [x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])]},
                "an intermediate in peer.crt lacks the extended key usage clientAuth",
            ),
        ],
    )
    def test_an_intermediate_that_would_fail_handshakes_is_refused(self, how, said):
        """It was accepted, and members that were started with it could not connect to each
        other."""
        top = root(name="top")
        middle = root(name="middle", above=top, **how)
        key, crt, _ = signed(authority=middle)
        data = {"peer.key": key, "peer.crt": crt + pem(middle[0]), "peer-ca.crt": pem(top[0])}
        assert problem(data) == said

    def test_a_path_that_is_too_long_for_its_authority_is_refused(self):
        top = root(name="top", path_length=0)
        middle = root(name="middle", above=top)
        key, crt, _ = signed(authority=middle)
        data = {"peer.key": key, "peer.crt": crt + pem(middle[0]), "peer-ca.crt": pem(top[0])}
        assert problem(data) == "peer-ca.crt may not sign other authorities, by its path length"
        assert problem(peer(authority=top)) == ""

    @pytest.mark.parametrize(
        ("extension", "said"),
        [
            (signing._usage(signs=False), "peer-ca.crt lacks the key usage keyCertSign"),
            (signing._usage(signs=True), ""),
            (
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
                "peer-ca.crt lacks the extended key usage clientAuth",
            ),
            (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE]), ""),
        ],
    )
    def test_a_certificate_that_its_authority_may_not_sign_is_refused(self, extension, said):
        assert problem(peer(authority=root(others=[extension]))) == said

    @pytest.mark.parametrize("names", [["corp.example"], ["other.svc", "x.c.ns.svc"]])
    def test_names_that_an_authority_may_not_sign_were_accepted(self, names):
        """Members that were started with them refused each other."""
        constraint = x509.NameConstraints([x509.DNSName(one) for one in names], None)
        said = "peer-ca.crt may not sign for *.c.ns.svc, by its name constraints"
        assert problem(peer(authority=root(others=[constraint]))) == said

    @pytest.mark.parametrize(
        ("permitted", "excluded"),
        [
            (["svc", "svc.cluster.local"], None),
            (["ns.svc", "CLUSTER.local"], None),
            ([".c.ns.svc", ".cluster.local", "c-client.ns.svc"], None),
            (None, ["corp.example", "vc"]),
            (["svc", "local"], ["c-client"]),
        ],
    )
    def test_names_within_the_constraints_of_an_authority_are_accepted(self, permitted, excluded):
        trees = [one and list(map(x509.DNSName, one)) for one in (permitted, excluded)]
        assert problem(peer(authority=root(others=[x509.NameConstraints(*trees)]))) == ""

    def test_names_that_an_authority_excludes_are_refused(self):
        for tree, said in (
            (x509.DNSName("ns.svc"), "*.c.ns.svc"),
            (x509.IPAddress(ipaddress.ip_network("10.0.0.0/8")), "10.1.2.3"),
        ):
            above = root(others=[x509.NameConstraints(None, [tree])])
            data = peer(authority=above, names=("10.1.2.3", "*.c.ns.svc", "*.c.ns.svc.x"))
            assert problem(data) == (
                f"peer-ca.crt may not sign for {said}, by its name constraints"
            )

    def test_constraints_of_an_intermediate_count_too(self):
        top = root(name="top")
        constraint = x509.NameConstraints([x509.DNSName("corp.example")], None)
        middle = root(name="middle", above=top, others=[constraint])
        key, crt, _ = signed(authority=middle)
        data = {"peer.key": key, "peer.crt": crt + pem(middle[0]), "peer-ca.crt": pem(top[0])}
        assert problem(data).startswith("an intermediate in peer.crt may not sign for *.c.ns.svc")

    def test_constraints_that_would_take_long_to_compare_are_refused(self, monkeypatch):
        monkeypatch.setattr(signers, "MOST_COMPARISONS", 29)
        many = [x509.DNSName(f"n{one}") for one in range(10)]
        above = root(others=[x509.NameConstraints(None, many)])
        assert problem(peer(authority=above)) == "peer-ca.crt has too many name constraints"

    @pytest.mark.parametrize(
        ("label", "also"),
        [
            ("EC PRIVATE KEY", pem_key(ec.generate_private_key(ec.SECP256R1()))),
            ("X509 CRL", b"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n"),
            ("TRUSTED CERTIFICATE", GOOD["peer-ca.crt"].replace(b" CERT", b" TRUSTED CERT")),
        ],
    )
    def test_etcd_ended_with_something_else_beside_the_authorities(self, label, also):
        """It takes each block of that file for a certificate."""
        data = {**GOOD, "peer-ca.crt": GOOD["peer-ca.crt"] + also}
        said = f"peer-ca.crt also holds {label}, with which etcd does not start"
        assert problem(data).startswith(said)
        assert problem({**GOOD, "peer-ca.crt": b"# ours\n" + GOOD["peer-ca.crt"]}) == ""

    @pytest.mark.parametrize("curve", [ec.BrainpoolP256R1(), ec.SECP256K1()])
    def test_etcd_ended_with_an_authority_whose_key_it_does_not_know(self, curve):
        """Even one that has signed nothing."""
        other = pem(root(key=ec.generate_private_key(curve))[0])
        said = f"peer-ca.crt holds an authority with a key of kind {curve.name}, with which etcd"
        assert problem({**GOOD, "peer-ca.crt": GOOD["peer-ca.crt"] + other}).startswith(said)

    @pytest.mark.parametrize(
        "extension",
        [
            x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"\5\0"),
            x509.NameConstraints([x509.DirectoryName(_name("member"))], None),
        ],
        ids=["unknown", "constraints of other names"],
    )
    def test_a_critical_extension_that_etcd_does_not_know_was_accepted(self, extension):
        """Every handshake failed (`unhandled critical extension`), also with a certificate of an
        issuer, which was given to all members."""
        words = f"has the critical extension {extension.oid.dotted_string}, which etcd does not"
        assert problem(peer(critical=[extension])).startswith(f"peer.crt {words}")
        above = root(critical=[extension])
        assert problem(peer(authority=above)).startswith(f"peer-ca.crt {words}")
        assert problem(peer(authority=root(others=[extension]))) == ""

    def test_critical_extensions_that_etcd_knows_are_accepted(self):
        constraints = x509.NameConstraints([x509.DNSName("svc"), x509.DNSName("local")], None)
        above = root(critical=[constraints, x509.PolicyConstraints(0, None)])
        assert problem(peer(authority=above)) == ""

    @pytest.mark.parametrize("hashed", [hashes.SHA224(), hashes.SHA3_256()])
    def test_a_signature_that_etcd_does_not_verify_was_accepted(self, hashed):
        said = f"peer.crt is signed with {hashed.name}, which etcd does not accept: take SHA-256"
        assert problem(peer(hashed=hashed)) == said
        above = root()
        between = root(name="between", above=above, hashed=hashed)
        data = peer(authority=between)
        data = {
            **data,
            "peer.crt": data["peer.crt"] + pem(between[0]),
            "peer-ca.crt": pem(above[0]),
        }
        assert problem(data).startswith(f"an intermediate in peer.crt is signed with {hashed.name}")
        assert problem(peer(authority=root(hashed=hashed))) == "", "nobody verifies that of a root"

    @pytest.mark.parametrize("hashed", [hashes.SHA384(), hashes.SHA512()])
    def test_a_signature_with_a_longer_hash_is_accepted(self, hashed):
        assert problem(peer(hashed=hashed)) == ""

    def test_etcd_ended_with_a_certificate_under_a_label_that_openssl_accepts(self):
        other = GOOD["peer.crt"].replace(b" CERTIFICATE", b" X509 CERTIFICATE")
        said = "peer.crt is not a certificate in PEM form: etcd needs BEGIN CERTIFICATE"
        assert problem({**GOOD, "peer.crt": other}) == said
        other = GOOD["peer-ca.crt"].replace(b" CERTIFICATE", b" X509 CERTIFICATE")
        assert problem({**GOOD, "peer-ca.crt": other}) == "", "etcd reads any label there"

    def test_one_of_several_authorities_is_enough(self):
        data = peer()
        assert problem({**data, "peer-ca.crt": pem(root()[0]) + data["peer-ca.crt"]}) == ""

    def test_an_authority_that_was_renewed_with_its_key_is_accepted_beside_the_old_one(self):
        """Only the first of the two was checked, and it had expired."""
        old, key = root(ends=NOW - 1)
        new, _ = root(key=key)
        data = peer(authority=(new, key))
        for bundle in (pem(old) + pem(new), pem(new) + pem(old)):
            assert problem({**data, "peer-ca.crt": bundle}) == ""

    def test_an_authority_that_was_renewed_with_its_key_was_taken_for_another(self):
        old, key = root(ends=NOW - 1)
        new, _ = root(key=key)
        other, _ = root()
        data = peer(authority=(new, key))

        found = examine(need_of("peer"), {**data, "peer-ca.crt": pem(new) + pem(other)})

        assert found.signers == (signers.name_of(old),)
        assert found.authorities == (signers.name_of(old), signers.name_of(other))

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"peer.crt": None}, "peer.crt is missing"),
            ({"peer.key": b""}, "peer.key is missing"),
            ({"peer-ca.crt": None}, "peer-ca.crt is missing"),
            ({"peer.crt": b"rubbish"}, "peer.crt is not a certificate in PEM form"),
            ({"peer.crt": b"\xff\x00"}, "peer.crt is not a certificate in PEM form"),
            ({"peer-ca.crt": b"rubbish"}, "peer-ca.crt is not a certificate in PEM form"),
            (
                {"peer.key": b"rubbish"},
                "peer.key is not a private key in PEM form without a password",
            ),
        ],
    )
    def test_a_missing_or_unreadable_file(self, change, said):
        data = {**peer(), **change}
        assert problem({key: value for key, value in data.items() if value is not None}) == said

    @pytest.mark.parametrize("file", ["peer.crt", "peer-ca.crt", "peer.key"])
    @pytest.mark.parametrize(
        "spoil",
        [
            lambda pem: pem.strip() + pem,  # as $(cat one)$(cat two) makes it
            lambda pem: b"\xef\xbb\xbf" + pem,
            lambda pem: pem.replace(b"\n", b"\n  "),
        ],
        ids=["glued", "byte order mark", "indented"],
    )
    def test_a_file_that_etcd_cannot_read_passed_the_check(self, spoil, file):
        """OpenSSL reads it. etcd reads its files for each handshake, so a running cluster fell
        apart."""
        said = problem({**GOOD, file: spoil(GOOD[file])})
        assert said.startswith(f"{file} is not a ")
        assert said.endswith(": etcd needs each BEGIN and END on a line of its own")
        assert problem({**GOOD, file: GOOD[file].replace(b"\n", b" \r\n").strip()}) == ""
        assert problem({**GOOD, file: b"Bag Attributes\n" + GOOD[file] + b"# end"}) == ""

    def test_a_key_beside_its_certificate_is_found(self):
        both = GOOD["peer.crt"] + GOOD["peer.key"]
        assert problem({**GOOD, "peer.crt": both, "peer.key": both}) == ""
        parameters = (
            b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
        )
        assert problem({**GOOD, "peer.key": parameters + GOOD["peer.key"]}) == ""

    def test_a_key_with_a_password(self):
        data = peer()
        key = serialization.load_pem_private_key(data["peer.key"], None)
        locked = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
        assert "without a password" in problem({**data, "peer.key": locked})

    def test_the_key_of_another_certificate(self):
        other = peer()["peer.key"]
        assert problem({**peer(), "peer.key": other}) == "peer.key is not the key of peer.crt"

    @pytest.mark.parametrize(
        ("key", "good"),
        [
            (ec.generate_private_key(ec.SECP521R1()), True),
            (ed25519.Ed25519PrivateKey.generate(), True),
            (rsa.generate_private_key(65537, 2048), True),
            (ec.generate_private_key(ec.SECP224R1()), False),
            (ec.generate_private_key(ec.SECP256K1()), False),
            (dsa.generate_private_key(2048), False),
        ],
        ids=["P-521", "Ed25519", "RSA", "P-224", "secp256k1", "DSA"],
    )
    def test_a_key_of_a_kind_that_etcd_cannot_use(self, key, good):
        """It was accepted, and etcd failed at its start or refused every handshake."""
        said = problem(peer(key=key))
        assert said == "" if good else said.startswith("peer.key is of a kind that etcd cannot use")

    @pytest.mark.parametrize(
        ("key", "good"),
        [
            (ec.generate_private_key(ec.SECP521R1()), False),
            (ed25519.Ed25519PrivateKey.generate(), False),
            (ec.generate_private_key(ec.SECP384R1()), True),
            (rsa.generate_private_key(65537, 2048), True),
        ],
        ids=["P-521", "Ed25519", "P-384", "RSA"],
    )
    def test_a_server_key_with_which_the_operator_never_connected_was_accepted(self, key, good):
        """etcd served with it, and every member seemed silent: gRPC's TLS does not offer them."""
        said = problem(server(key=key), "server")
        assert said == "" if good else said.startswith("server.key is of a kind with which the ope")
        assert problem(operator(key=key), "operator") == "", "as a client it presents any of them"

    def test_a_key_usage_with_which_the_operator_never_connected_was_accepted(self):
        """Kubernetes' own documentation asks openssl for keyEncipherment and dataEncipherment."""
        for role, key, good in (
            ("server", rsa.generate_private_key(65537, 2048), False),
            ("server", ec.generate_private_key(ec.SECP256R1()), False),
            ("operator", ec.generate_private_key(ec.SECP256R1()), False),
            ("operator", rsa.generate_private_key(65537, 2048), True),
            ("peer", rsa.generate_private_key(65537, 2048), True),
        ):
            make = {"server": server, "operator": operator, "peer": peer}[role]
            said = problem(make(key=key, usage=_usage("key_encipherment")), role)
            why = f"{wanted(role).files.certificate} lacks the key usage digitalSignature, without"
            assert said == "" if good else said.startswith(why)
            assert problem(make(key=key, usage=_usage("digital_signature")), role) == ""

    def test_an_authority_that_has_not_signed_it(self):
        stranger = pem(root()[0])
        assert problem({**peer(), "peer-ca.crt": stranger}) == (
            "peer-ca.crt has not signed peer.crt"
        )

    def test_a_signer_that_is_not_an_authority(self):
        assert "not the certificate of an authority" in problem(peer(is_authority=False))

    def test_time(self):
        assert problem(peer(ends=NOW - 1)) == "peer.crt expired on 2027-01-15T07:59:59Z"
        assert problem(peer(begins=NOW + 60)) == "peer.crt is not valid before 2027-01-15T08:01:00Z"
        old = root(ends=NOW - 1)
        assert problem(peer(authority=old)) == "peer-ca.crt expired on 2027-01-15T07:59:59Z"
        assert problem(peer(), now=NOW + 2 * DAY).startswith("peer.crt expired on ")

    def test_names(self):
        assert problem(peer(names=("c-0.c.ns.svc", "c-2.c.ns.svc"))) == (
            "peer.crt is not valid for the name c-1.c.ns.svc"
        )
        assert "c-0.c.ns.svc, c-1.c.ns.svc, c-2.c.ns.svc and 2 more" in problem(
            peer(names=("*.other.ns.svc",)), size=5
        )
        assert "has no subject alternative names" in problem(peer(names=()))
        assert "c-0.c.ns.svc.corp.example" in problem(
            peer(), pod={"ClusterDomain": ".corp.example"}
        )

    def test_a_wildcard_stands_for_one_label(self):
        assert "c-0.c.ns.svc" in problem(peer(names=("*.ns.svc",)))

    def test_a_wildcard_without_the_domain_is_not_enough_for_peers(self):
        """It was accepted, and etcd refused every connection between members."""
        said = problem(peer(names=("*.c.ns.svc", "c-client.ns.svc")))
        assert said.startswith("peer.crt has *.c.ns.svc and not *.c.ns.svc.cluster.local")
        for domain in ("cluster.local", "corp.example"):
            assert problem(peer(names=("*.c.ns.svc", f"*.c.ns.svc.{domain}"))) == ""
        assert problem(peer(names=("*.c.ns.svc", "*.cluster.local"))) == ""
        assert problem(peer(names=("*.c.ns.svc",)), size=1) == "", "nobody calls"
        spec = {"pod": {"ClusterDomain": ".corp.example"}}
        assert problem(peer(names=("*.c.ns.svc.corp.example",)), **spec) == ""

    def test_growing_needs_the_names_of_the_new_members(self):
        data = peer(names=tuple(f"c-{one}.c.ns.svc" for one in range(3)))
        assert problem(data, size=5) == (
            "peer.crt is not valid for the name c-3.c.ns.svc, c-4.c.ns.svc"
        )

    def test_usages(self):
        server_only = peer(usages=(ExtendedKeyUsageOID.SERVER_AUTH,))
        assert problem(server_only) == "peer.crt lacks the extended key usage clientAuth"
        client_only = peer(usages=(ExtendedKeyUsageOID.CLIENT_AUTH,))
        assert problem(client_only) == "peer.crt lacks the extended key usage serverAuth"

    def test_no_message_contains_a_key(self):
        """Whatever is wrong with it."""
        data = peer()
        secret = data["peer.key"].decode().splitlines()[1]
        cut = data["peer.key"][:60]
        for change in ({"peer.key": cut}, {"peer.crt": data["peer.key"]}, {"peer-ca.crt": cut}):
            examined = examine(wanted("peer"), {**data, **change})
            assert examined.problem
            assert secret[:12] not in repr(examined)

    @pytest.mark.parametrize("role", ["peer", "server", "operator"])
    def test_the_field_of_the_spec_is_known(self, role):
        fields = {
            "peer": "spec.TLS.static.member.peerSecret",
            "server": "spec.TLS.static.member.serverSecret",
            "operator": "spec.TLS.static.operatorSecret",
        }
        assert wanted(role).field == fields[role]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2000), st.integers(1, 255), st.sampled_from(["peer.crt", "peer-ca.crt"]))
def test_a_damaged_certificate_never_raises(place, flip, which):
    """Bytes in the DER are flipped, so that its PEM frame stays valid."""
    damaged = bytearray(certificate(GOOD, which).public_bytes(serialization.Encoding.DER))
    damaged[place % len(damaged)] ^= flip
    text = base64.encodebytes(bytes(damaged)).decode()
    frame = f"-----BEGIN CERTIFICATE-----\n{text}-----END CERTIFICATE-----\n".encode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about what the library will refuse in the future
        assert isinstance(problem({**GOOD, which: frame}), str)


def test_two_looks_at_the_same_bytes_agree():
    data = peer()
    need = wanted("peer")
    assert examine(need, data) == examine(need, data)
    assert replace(need, names=()) != need
