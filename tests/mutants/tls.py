"""Bugs of TLS: links that change, certificates that come late, keys that leak."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

MUTANTS: Final = [
    Mutant(
        "operator/etcd_operator/cluster/requeue.py",
        "min(seen.next_sweep, _next_turn(seen.observation))",
        "seen.next_sweep",
        "a certificate that expires is told half a minute late",
    ),
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
        "membership/tls/links.py",
        "began = Links(_of_scheme(DEFAULT.peer, schemes), _of_scheme(DEFAULT.client, schemes))",
        "began = DEFAULT",
        "a cluster from before TLS that lost its records locks its clients out",
    ),
    Mutant(
        "backup/recorded_cluster.py",
        " if not (wish or link.is_encrypted)}\n",
        " if False}\n",
        "a plaintext cluster that is made again locks its clients out",
    ),
    Mutant(
        "manifests/tls.py",
        '    if cluster.links.client.mode not in ("Managed", "Issued"):\n',
        "    if False:\n",
        "etcdctl in a pod without certificates is told to use some",
    ),
    Mutant(
        "status/conditions.py",
        "    if level is Level.TLS:\n",
        "    if True:\n",
        "nobody is told that traffic is in plaintext",
    ),
    Mutant(
        "operator/etcd_operator/cluster/report.py",
        '    if stored_conditions.find(before, "Plaintext"):\n',
        "    if False:\n",
        "each write of a status tells of plaintext anew",
    ),
    Mutant(
        "membership/tls/links.py",
        "    if record is not None and record.cluster_uid == seen.cluster.uid:\n",
        "    if False:\n",
        "an edit or another default changes the links of a cluster that runs",
    ),
    Mutant(
        "membership/tls/links.py",
        "    if (live := rendered(seen)) is not None:\n",
        "    if (live := None) is not None:\n",
        "a lost Secret takes the links with it",
    ),
    Mutant(
        "membership/planner.py",
        "    _tls_back,\n",
        "    tls_switch.towards_plaintext,\n",
        "TLS is turned off by a template that is refused, and all else waits for that",
    ),
    Mutant(
        "membership/tls/certificates.py",
        'return seen.is_taken("Secret", need.secret) or bool(failed and failed.is_of(now))',
        "return bool(failed and failed.is_of(now))",
        "the certificate of applications is written for ever into a Secret of another",
    ),
    Mutant(
        "membership/planner.py",
        "    tls_switch.correct_record,\n",
        "",
        "a Secret of before has members restarted that nobody finds any more",
    ),
    Mutant(
        "membership/tls/tls_switch.py",
        " or roster.learner(seen):\n        return None\n    wanted = _schemes_wanted(seen)\n"
        "    behind = [seat for seat in roster.voters(seen) if",
        ":\n        return None\n    wanted = _schemes_wanted(seen)\n"
        "    behind = [seat for seat in roster.seats(seen) if",
        "F29: a learner whose peer URL is changed is a voter from then on",
    ),
    Mutant(
        "membership/tls/tls_switch.py",
        "any(pod.levels != run for pod in seen.pods)",
        "False",
        "the links go back by the StatefulSet's word alone",
    ),
    Mutant(
        "membership/tls/links.py",
        "    if not schemes or scheme in schemes:\n",
        "    if True:\n",
        "members whose data says https come back with http",
    ),
    Mutant(
        "membership/tls/links.py",
        "    if not said:\n",
        "    if True:\n",
        "an edit of the links is passed over in silence",
    ),
    Mutant(
        "membership/tls/certificates.py",
        "                if trusted.pods_with_tls(seen, need.link):\n",
        "                if False:\n",
        "a new authority cuts running members off from each other",
    ),
    Mutant(
        "membership/tls/certificates.py",
        "    if not trusted.may_sign(seen, above, found):\n",
        "    if False:\n",
        "an authority from an old copy signs what members do not trust",
    ),
    Mutant(
        "membership/tls/certificates.py",
        "    if known.now >= renewed_at(found.begins, found.ends):\n",
        "    if False:\n",
        "certificates end",
    ),
    Mutant(
        "membership/tls/certificates.py",
        "    if found.authority != authority.authority:\n",
        "    if False:\n",
        "a leaf of another authority stays",
    ),
    Mutant(
        "membership/tls/certificates.py",
        "        elif why := found.problem or (need.role",
        "        elif why := (need.role",
        "pods are restarted onto certificates that cannot be used",
    ),
    Mutant(
        "membership/planner.py",
        "        step = None if isinstance(question, _Starts) else question(seen)\n",
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
        "membership/tls/certificates.py",
        "            return not 0 < manifest[",
        "            return not 0 <= manifest[",
        "a recovery stops every pod before the certificates are mended",
    ),
    Mutant(
        "membership/tls/certificates.py",
        "    members = max([seen.cluster.size, seen.replicas, *(one + 1 for one in used)])\n",
        "    members = seen.cluster.size\n",
        "a member that is to go can no longer be dialled",
    ),
    Mutant(
        "certificates.py",
        '    return "", cluster.pod.cluster_domain or USUAL_DOMAIN\n',
        '    return "", ""\n',
        "F19: peers refuse each other: their certificates lack the names of reverse DNS",
    ),
    Mutant(
        "certificates.py",
        "        PEER_FILES,\n        _every_host(cluster),\n        serves=True,\n"
        "        calls=True,\n",
        "        PEER_FILES,\n        _every_host(cluster),\n        serves=True,\n",
        "F19: peers refuse each other: their certificates are good for serving alone",
    ),
    Mutant(
        "operator/etcd_operator/credentials/checking.py",
        "    if bare and not ends:\n",
        "    if False:\n",
        "F19: members are restarted onto a wildcard that reverse DNS never answers with",
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
        "manifests/start_settings.py",
        '        "peerScheme": cluster.links.levels.peer_scheme,\n',
        '        "peerScheme": "http",\n',
        "members are told another URL than is on record",
    ),
    Mutant(
        "jobs/recover.py",
        '        content[key] = content[key].replace("https://", "http://")\n',
        "        pass\n",
        "the survivor's etcd looks for certificates that the Job does not mount",
    ),
    Mutant(
        "membership/tls/tls_switch.py",
        ' for one in pods) and _is_found_by(seen, "https")\n',
        " for one in pods)\n",
        "members listen with TLS before anybody knows them by it",
    ),
    Mutant(
        "membership/tls/tls_switch.py",
        '        return _is_found_by(seen, "http")\n',
        "        return True\n",
        "members listen in plaintext again before anybody knows them by it",
    ),
    Mutant(
        "membership/tls/tls_switch.py",
        "    used = {seen.cluster.links.levels.peer_scheme, *(one.peer_scheme for one in pods)}\n",
        "    used = {seen.cluster.links.levels.peer_scheme}\n",
        "a URL is taken back that a pod still listens on",
    ),
    Mutant(
        "membership/tls/tls_switch.py",
        "    return _record_of_claims(seen, wanted) or _update(seen, behind[0], wanted)\n",
        "    return _update(seen, behind[0], wanted)\n",
        "with all other records lost, members come back under URLs that nobody has",
    ),
    Mutant(
        "membership/tls/tls_switch.py",
        "    if not _may_change(seen) or seen.etcd is None or roster.learner(seen):\n",
        "    if not _may_change(seen) or seen.etcd is None:\n",
        "a learner is given other URLs, and etcd takes it for a voter",
    ),
    Mutant(
        "membership/tls/tls_switch.py",
        "authentication.is_looked_at(seen) or (seen.auth is not None and seen.auth.enabled)",
        "False",
        "TLS is turned off under users, and the operator is locked out",
    ),
    Mutant(
        "membership/tls/tls_switch.py",
        "bool(complete or seen.etcd or seen.denied)",
        "complete",
        "TLS of clients goes from halfway although nobody knows whether etcd wants a name",
    ),
    Mutant(
        "membership/members/grow.py",
        "    other_urls = tuple(sorted(others))\n",
        "    other_urls = ()\n",
        "who joins half-way is not found once it restarts",
    ),
    Mutant(
        "start/configuration.py",
        "_own_urls(settings, taken.initial_cluster),\n",
        "_peer_url(settings),\n",
        "who joins half-way is refused by its own etcd",
    ),
    Mutant(
        "membership/members/changes.py",
        '    return seen.cluster.host(ordinal) if encrypted else ""\n',
        "    return seen.cluster.host(ordinal)\n",
        "members that serve no TLS are asked for changes with it",
    ),
    Mutant(
        "membership/tls/certificates.py",
        "            return final and not _turns_back(seen, record.links)\n",
        "            return final\n",
        "bad certificates keep a cluster from going back to plaintext",
    ),
    Mutant(
        "membership/tls/trusted.py",
        " links.levels_of(seen, pod).of(link) > Level.PLAINTEXT and (pod.etcd_started",
        " (pod.etcd_started",
        "no authority is ever made for a cluster that began in plaintext",
    ),
    Mutant(
        "api/tls.py",
        '    mode = f"{link.mode}{_BETWEEN}" if link.between else link.mode\n',
        "    mode = link.mode\n",
        "half-way is forgotten, and members restart into URLs that nobody has",
    ),
    Mutant(
        "operator/etcd_operator/cluster/endpoints.py",
        '        encrypted = identity is not None and "https" in served\n',
        "        encrypted = identity is not None\n",
        "pods that serve no TLS yet seem to be down",
    ),
    Mutant(
        "operator/etcd_operator/backup_controllers/target.py",
        ' and "https" in levels.client_schemes\n',
        "\n",
        "backups ask members with TLS that have none yet",
    ),
    Mutant(
        "operator/etcd_operator/cluster/apply.py",
        "{naming.PEER_SCHEME: None} | member_annotations(step.record)",
        "member_annotations(step.record)",
        "claims go on saying https once TLS is off",
    ),
    Mutant(
        "status/conditions.py",
        "    if level is Level.TLS:\n",
        "    if level is not Level.PLAINTEXT:\n",
        "traffic is said to be encrypted while some of it is not",
    ),
]
