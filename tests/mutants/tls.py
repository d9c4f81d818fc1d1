"""Faults of TLS: links that change, certificates that come late, keys that get out."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

MUTANTS: Final = [
    Mutant(
        "api/tls.py",
        "DEFAULT: Final = Links(MANAGED, MANAGED)\n",
        "DEFAULT: Final = NO_TLS\n",
        "whoever does not ask for TLS has none",
    ),
    Mutant(
        "api/tls.py",
        "        return Links(self.peer or links.peer, self.client or links.client)\n",
        "        return Links(self.peer or PLAINTEXT, self.client or PLAINTEXT)\n",
        "a word on one link turns TLS of the other off",
    ),
    Mutant(
        "membership/links.py",
        "began = Links(_of_scheme(DEFAULT.peer, schemes), _of_scheme(DEFAULT.client, schemes))",
        "began = DEFAULT",
        "a cluster from before TLS that lost its records locks its clients out",
    ),
    Mutant(
        "backup/recorded.py",
        " if not (wish or link.is_encrypted)}\n",
        " if False}\n",
        "a plaintext cluster that is made again locks its clients out",
    ),
    Mutant(
        "manifests/tls.py",
        '    if cluster.links.client.mode != "Managed":\n',
        "    if False:\n",
        "etcdctl in a pod without certificates is told to use some",
    ),
    Mutant(
        "conditions.py",
        "        if not link.is_encrypted\n",
        "        if False\n",
        "nobody is told that traffic is in plaintext",
    ),
    Mutant(
        "operator/etcd_operator/report.py",
        '    return "" if "Plaintext" in was else now.get("Plaintext", "")\n',
        '    return now.get("Plaintext", "")\n',
        "each write of a status tells of plaintext anew",
    ),
    Mutant(
        "membership/links.py",
        "    if record is not None and record.cluster_uid == seen.cluster.uid:\n",
        "    if False:\n",
        "an edit or another default changes the links of a cluster that runs",
    ),
    Mutant(
        "membership/links.py",
        "    if rendered is not None:\n",
        "    if False:\n",
        "a lost Secret takes the links with it",
    ),
    Mutant(
        "membership/links.py",
        "    if not schemes or wished.scheme in schemes:\n",
        "    if True:\n",
        "members whose data says https come back with http",
    ),
    Mutant(
        "membership/links.py",
        "    if not said:\n",
        "    if True:\n",
        "an edit of the links is passed over in silence",
    ),
    Mutant(
        "membership/certificates.py",
        "                if _is_trusted(seen):\n",
        "                if False:\n",
        "a new authority cuts running members off from each other",
    ),
    Mutant(
        "membership/certificates.py",
        "    if known.now >= renewed_at(found.begins, found.ends):\n",
        "    if False:\n",
        "certificates end",
    ),
    Mutant(
        "membership/certificates.py",
        "    if found.authority != authority.authority:\n",
        "    if False:\n",
        "a leaf of another authority stays",
    ),
    Mutant(
        "membership/certificates.py",
        "        elif found.problem:\n",
        "        elif False:\n",
        "pods are restarted onto certificates that cannot be used",
    ),
    Mutant(
        "membership/planner.py",
        "        step = None if question in _STARTS else question(seen)\n",
        "        step = question(seen)\n",
        "tickets go out that no pod can use, and versions change with certificates that are bad",
    ),
    Mutant(
        "membership/planner.py",
        "        if step is not None and not certificates.starts_pods(seen, step):\n",
        "        if step is not None:\n",
        "pods are restarted that cannot come back with the user's certificates",
    ),
    Mutant(
        "membership/planner.py",
        "if step and not _is_held(seen, step))",
        "if step)",
        "a growth that waits for certificates keeps Services from being put back",
    ),
    Mutant(
        "membership/certificates.py",
        "            return not 0 < spec[",
        "            return not 0 <= spec[",
        "a recovery stops every pod before the certificates are mended",
    ),
    Mutant(
        "membership/certificates.py",
        "    members = max([seen.cluster.size, seen.replicas, *(one + 1 for one in used)])\n",
        "    members = seen.cluster.size\n",
        "a member that is to go can no longer be dialled",
    ),
    Mutant(
        "certificates.py",
        "    return begins + (ends - begins) * 2 / 3\n",
        "    return ends\n",
        "certificates are renewed when it is too late",
    ),
    Mutant(
        "certificates.py",
        "        for ordinal in range(naming.MAX_SIZE)\n",
        "        for ordinal in range(cluster.size)\n",
        "growth waits for a certificate",
    ),
    Mutant(
        "manifests/tls.py",
        '        "client-cert-auth": True,\n',
        '        "client-cert-auth": False,\n',
        "whoever comes is let in",
    ),
    Mutant(
        "manifests/statefulset.py",
        '        "peerScheme": cluster.links.peer.scheme,\n',
        '        "peerScheme": "http",\n',
        "members are told another URL than is on record",
    ),
    Mutant(
        "recover.py",
        '        content[key] = content[key].replace("https://", "http://")\n',
        "        pass\n",
        "the survivor's etcd looks for certificates that the Job does not mount",
    ),
]
