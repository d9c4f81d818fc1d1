"""Checks whether the certificate in a Secret is what a cluster's links need.

Pure: bytes and a time go in. Messages name the key of the Secret, and never quote a private key.
Only what would make a handshake fail is refused.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from etcd_operator.credentials import authorities as rotating
from etcd_operator.credentials.authorities import digest
from etcd_operator.credentials.pem import CERTIFICATE, CERTIFICATES, certificates, etcd_needs
from etcd_operator.credentials.private_keys import check_key
from etcd_operator.credentials.signers import (
    Unusable,
    check_bundle,
    check_constraints,
    check_critical,
    check_signature,
    check_signer,
    extension,
    name_of,
    signers_among,
    signers_of,
)
from etcd_operator.timestamps import rfc3339
from etcd_stateful.certificates import (
    GENERATION_FILE,
    PEER_FILES,
    PREDECESSOR_FILE,
    SERVER_FILES,
    SUCCESSOR_FILES,
    USUAL_DOMAIN,
    CertificateSpec,
    pinned_file,
    pinned_in,
    trust_of,
)
from etcd_stateful.observed.certificates import Stage

MANY_NAMES = 3
"""How many of the missing names a message lists."""

# Signatures are compared for each certificate of a chain with each authority, in the event loop,
# where that holds up every cluster.
MOST_INTERMEDIATES = 10
MOST_AUTHORITIES = 200


@dataclass(frozen=True, slots=True)
class Validity:
    """From when to when the certificate in one of the files is valid; seconds since 1970."""

    key: str
    begins: float
    ends: float


@dataclass(frozen=True, slots=True)
class Examined:
    """What can be said of a Secret's certificate without a clock."""

    problem: str = ""
    certificate: Validity = Validity("", 0.0, 0.0)
    above: tuple[Validity, ...] = ()
    """Of its signers, up to the authority."""
    digest: str = ""
    """Of the authority that has signed it."""

    leaf: str = ""
    subject: str = ""
    """Common name."""
    signers: tuple[str, ...] = ()
    authorities: tuple[str, ...] = ()
    trusts: tuple[str, ...] = ()
    pinned: str = ""
    kept: tuple[tuple[str, ...], ...] = ()
    stage: Stage = ""
    generation: int = 1
    """As in `observed.certificates.Certificate`."""
    successor: tuple[Validity, ...] = ()
    """Of the successor of an authority, if there is one."""

    @property
    def ends(self) -> float:
        """When it or the first of its signers expires."""
        return min(one.ends for one in (self.certificate, *self.above))


def examine(need: CertificateSpec, data: Mapping[str, bytes]) -> Examined:
    try:
        return _examine(need, data)
    except Unusable as error:
        return Examined(str(error))
    except Exception:  # noqa: BLE001 - malformed input can raise almost any exception
        return Examined(f"{need.files.certificate} or {need.files.authority} is malformed")


def with_authority_of(need: CertificateSpec, other: CertificateSpec) -> CertificateSpec:
    """The same need, but with the authorities in another Secret."""
    bundle = f"{other.files.authority} of Secret {other.secret}"
    return replace(need, files=need.files._replace(authority=bundle))


def problem_at(examined: Examined, now: float) -> str:
    """What is wrong with it at that time; empty if it is good."""
    return examined.problem or _untimely((examined.certificate, *examined.above), now)


def successors_problem_at(examined: Examined, now: float) -> str:
    """Why the successor of this authority could not sign at that time; empty if it could, or there
    is none."""
    return _untimely(examined.successor, now)


def _untimely(every: Sequence[Validity], now: float) -> str:
    for one in every:
        if now >= one.ends:
            return f"{one.key} expired on {rfc3339(one.ends)}"
        if now < one.begins:
            return f"{one.key} is not valid before {rfc3339(one.begins)}"
    return ""


def changes_at(examined: Examined, now: float) -> float:
    """The next moment at which `problem_at` may say something else."""
    bounds = [(one.begins, one.ends) for one in (examined.certificate, *examined.above)]
    return min((at for pair in bounds for at in pair if at > now), default=inf)


def _examine(need: CertificateSpec, data: Mapping[str, bytes]) -> Examined:
    for key in dict.fromkeys(need.files):
        if not data.get(key):
            raise Unusable(f"{key} is missing")
    leaf, *chain = _certificates(need.files.certificate, data, CERTIFICATE)
    check_signature(need.files.certificate, leaf)
    check_key(need, data, leaf)
    authorities = _certificates(need.files.authority, data)
    _check_number(need.files.certificate, "intermediates", chain, MOST_INTERMEDIATES)
    _check_number(need.files.authority, "authorities", authorities, MOST_AUTHORITIES)
    if need.files in (PEER_FILES, SERVER_FILES):
        check_bundle(need.files.authority, data[need.files.authority], authorities)
    above = [leaf] if need.role == "authority" else signers_of(need, leaf, chain, authorities)
    between = [f"an intermediate in {need.files.certificate}"] * (len(above) - 1)
    names = [*between, need.files.authority]
    for below, (name, one) in enumerate(zip(names, above, strict=True)):
        check_signer(name, one, below)
        check_constraints(name, one, leaf)
        check_critical(name, one)
        _check_usages(need, name, one)
    for name, one in zip(between, above, strict=False):
        check_signature(name, one)
    check_critical(need.files.certificate, leaf)
    _check_usages(need, need.files.certificate, leaf)
    _check_signs(need, leaf)
    _check_names(need, leaf)
    found = Examined(
        certificate=_validity(need.files.certificate, leaf),
        above=tuple(map(_validity, names, above)),
        digest=digest(above[-1]),
        leaf=digest(leaf),
        subject=_common_name(leaf),
    )
    if need.role == "authority":
        return _with_rotation(need, data, found)
    trusts = tuple(map(digest, authorities))
    return replace(
        found,
        signers=tuple(map(name_of, signers_among(authorities, [leaf, *chain]))),
        authorities=tuple(map(name_of, authorities)),
        trusts=trusts,
        pinned=_pinned(need, data, trusts),
        kept=tuple(_kept(need, data)),
    )


def _with_rotation(need: CertificateSpec, data: Mapping[str, bytes], found: Examined) -> Examined:
    """Adds what a rotation has put beside the authority; raises Unusable if that is incomplete."""
    stage = rotating.stage(data)
    if stage == "overlap":
        following = replace(need, files=SUCCESSOR_FILES)
        successor, *_ = _certificates(SUCCESSOR_FILES.certificate, data)
        check_key(following, data, successor)
        check_signer(SUCCESSOR_FILES.certificate, successor, 0)
        found = replace(found, successor=(_validity(SUCCESSOR_FILES.certificate, successor),))
    if PREDECESSOR_FILE in data:
        _certificates(PREDECESSOR_FILE, data)
    try:
        generation = rotating.generation(data)
    except ValueError as error:
        raise Unusable(f"{GENERATION_FILE} is not a number") from error
    trusts = tuple(map(digest, rotating.trusted(data)))
    return replace(found, trusts=trusts, stage=stage, generation=generation)


def _pinned(need: CertificateSpec, data: Mapping[str, bytes], trusts: Sequence[str]) -> str:
    trust, bundle = trust_of(trusts), need.files.authority
    return trust if data.get(pinned_file(bundle, trust)) == data[bundle] else ""


def _kept(need: CertificateSpec, data: Mapping[str, bytes]) -> Iterator[tuple[str, ...]]:
    """The authorities in each file that is named after them. A file that is damaged says nothing
    of what pods trust that have mounted it before."""
    for key in sorted(data):
        if trust := pinned_in(need.files.authority, key):
            with suppress(Unusable):
                authorities = tuple(map(digest, _certificates(key, data)))
                if trust_of(authorities) == trust:
                    yield authorities


def _common_name(leaf: x509.Certificate) -> str:
    names = leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[-1].value) if names else ""


def _certificates(
    key: str, data: Mapping[str, bytes], labels: frozenset[bytes] = CERTIFICATES
) -> list[x509.Certificate]:
    try:
        return certificates(data[key], labels)
    except KeyError as error:
        raise Unusable(f"{key} is missing") from error
    except ValueError as error:
        raise Unusable(f"{key} is not a certificate in PEM form{etcd_needs(data[key])}") from error


def _check_number(key: str, what: str, found: Sequence[object], most: int) -> None:
    if len(found) > most:
        raise Unusable(f"{key} holds {len(found)} {what}; at most {most} are accepted")


def _check_usages(need: CertificateSpec, name: str, certificate: x509.Certificate) -> None:
    """Checks the leaf or one of its signers: the signers' usages limit those of the leaf."""
    found = extension(certificate, x509.ExtendedKeyUsage)
    if found is None or ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in found:
        return
    for wanted, oid, words in (
        (need.serves, ExtendedKeyUsageOID.SERVER_AUTH, "serverAuth"),
        (need.calls, ExtendedKeyUsageOID.CLIENT_AUTH, "clientAuth"),
    ):
        if wanted and oid not in found:
            raise Unusable(f"{name} lacks the extended key usage {words}")


def _check_signs(need: CertificateSpec, leaf: x509.Certificate) -> None:
    """gRPC's TLS, and so the operator, neither connects to a server whose certificate may not sign
    nor presents one with an ECDSA key. Go's TLS does not look at this."""
    if need.role != "server" and not (
        need.role == "operator" and isinstance(leaf.public_key(), ec.EllipticCurvePublicKey)
    ):
        return
    usage = extension(leaf, x509.KeyUsage)
    if usage is not None and not usage.digital_signature:  # without one it is good for all
        raise Unusable(
            f"{need.files.certificate} lacks the key usage digitalSignature, without which the "
            "operator cannot connect"
        )


def _check_names(need: CertificateSpec, leaf: x509.Certificate) -> None:
    if not need.names and not need.addresses:
        return
    found = extension(leaf, x509.SubjectAlternativeName)
    if found is None:
        raise Unusable(
            f"{need.files.certificate} has no subject alternative names; it must be valid for "
            f"{_some(need.names)}"
        )
    names = {name.lower() for name in found.get_values_for_type(x509.DNSName)}
    addresses = set(found.get_values_for_type(x509.IPAddress))
    missing = [name for name in need.names if not _covers(names, name)]
    missing += [one for one in need.addresses if ipaddress.ip_address(one) not in addresses]
    if missing:
        raise Unusable(f"{need.files.certificate} is not valid for the name {_some(missing)}")
    if need.role == "peer" and len(need.names) > 1:
        _check_callers(need, names)


def _check_callers(need: CertificateSpec, names: set[str]) -> None:
    """A member looks up the name of its caller in reverse DNS, and accepts a wildcard by that name
    only. It ends with Kubernetes' own domain, which is not known here, so any domain will do."""
    ends = any(one.startswith("*.") and not one.endswith(".svc") for one in names)
    bare = [one for one in need.names if one.endswith(".svc") and one not in names]
    if bare and not ends:
        _, _, rest = bare[0].partition(".")
        raise Unusable(
            f"{need.files.certificate} has *.{rest} and not *.{rest}{USUAL_DOMAIN} (or this "
            "Kubernetes' own domain), by which members look up their callers"
        )


def _covers(names: set[str], name: str) -> bool:
    _, _, rest = name.partition(".")
    return name in names or f"*.{rest}" in names


def _some(names: Sequence[str]) -> str:
    more = len(names) - MANY_NAMES
    shown = ", ".join(names[:MANY_NAMES])
    return f"{shown} and {more} more" if more > 0 else shown


def _validity(key: str, certificate: x509.Certificate) -> Validity:
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return Validity(key, begins.timestamp(), ends.timestamp())
