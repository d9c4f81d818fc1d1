"""Bugs in rotations: certificates that are not trusted by everybody yet, or not any more."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

_ROTATION = "membership/tls/rotation.py"

MUTANTS: Final = [
    Mutant(
        _ROTATION,
        "all(pod.trust.of(link.name) == trust_of(link.authority.trusts) for pod in seen.pods)",
        "True",
        "certificates of the successor are shown to members that do not trust it",
    ),
    Mutant(
        _ROTATION,
        "        all(_is_as_said(one, link.authority) for one in link.leaves)\n",
        "        all(one is not None for one in link.leaves)\n",
        "the one of before goes while certificates of it are in use",
    ),
    Mutant(
        _ROTATION,
        "max(seen.cluster.rotation.overlap, shown)",
        "seen.cluster.rotation.overlap",
        "members that have not got their new certificate yet are shut out",
    ),
    Mutant(
        _ROTATION,
        "max(seen.cluster.rotation.overlap, shown)",
        "shown",
        "clients are shut out before they could read what they mount",
    ),
    Mutant(
        _ROTATION,
        "    return step if step and is_at_rest(seen) else None\n",
        "    return step\n",
        "a rotation goes on while members are away",
    ),
    Mutant(
        _ROTATION,
        "        if same and all(_has_followed(seen, link) for link in same):\n",
        "        if same and _has_followed(seen, same[0]):\n",
        "two rotations side by side restart every member three times",
    ),
    Mutant(
        _ROTATION,
        "    if asked > link.authority.generation:\n",
        "    if asked and asked != link.authority.generation:\n",
        "a number that was passed long ago replaces the authority again and again",
    ),
    Mutant(
        _ROTATION,
        '    return found.pinned if found else ""\n',
        '    return ""\n',
        "pods are not restarted for what they are to trust",
    ),
    Mutant(
        "membership/tls/certificates.py",
        "    if set(found.trusts) != set(authority.trusts):\n",
        "    if False:\n",
        "a successor is never made known",
    ),
    Mutant(
        "membership/tls/certificates.py",
        '    return frozenset(said - {""}) if need.is_mounted else frozenset()\n',
        "    return frozenset()\n",
        "the file is taken away that a pod mounts, and it cannot come back",
    ),
    Mutant(
        "manifests/tls.py",
        "    return pinned_file(file, trust) if trust and file == files.authority else file\n",
        "    return file\n",
        "a pod of a late kubelet trusts what was before, and nothing says so",
    ),
    Mutant(
        "operator/etcd_operator/credentials/authorities.py",
        "                PREDECESSOR_FILE: data[now.certificate],\n",
        "",
        "the one of before is dropped in the moment that the successor takes over",
    ),
]
