"""Faults seeded by hand, each in one place of the core, each with the harm it would do.

`old` stands exactly once in the file. When the code moves on, the runner says which of these no
longer apply; mend them along with the code.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Mutant(NamedTuple):
    file: str
    """Below `stateful/etcd_stateful`."""

    old: str
    new: str
    why: str


_BOOTSTRAP = "membership/bootstrap.py"
_BLOCKED = "membership/blocked.py"
_LEFTOVERS = "membership/leftovers.py"
_PLANNER = "membership/planner.py"
_RECORDS = "membership/records.py"

MUTANTS: Final = [
    # How a cluster begins.
    Mutant(
        _BOOTSTRAP,
        "    if bootstrap.latched or seen.etcd is not None:\n        return None",
        "    if seen.etcd is not None:\n        return None",
        "another attempt after the latch: a formed cluster is begun anew (I4, I11)",
    ),
    Mutant(
        _BOOTSTRAP,
        "    if bootstrap.latched or seen.etcd is not None:\n        return None",
        "    if bootstrap.latched:\n        return None",
        "another attempt while etcd answers",
    ),
    Mutant(
        _BOOTSTRAP,
        "if not all(pod and waits_empty(pod) for pod in pods):",
        "if not any(pod and waits_empty(pod) for pod in pods):",
        "another attempt beside a member with data (I11)",
    ),
    Mutant(
        _BOOTSTRAP,
        "if not any(pod and has_spent_ticket(seen, pod) for pod in pods):",
        "if False:",
        "attempts without end while a claim is being deleted",
    ),
    Mutant(
        _BOOTSTRAP,
        "size = max(len(pods), seen.cluster.size)",
        "size = seen.cluster.size",
        "an edited size leaves pods that can never start",
    ),
    Mutant(
        _BOOTSTRAP,
        "return bool(run and waits_empty(pod) and pod.answer and pod.answer.challenge != run)",
        "return bool(run and waits_empty(pod))",
        "a run that may still have its ticket counts as one that has spent it",
    ),
    Mutant(
        _BOOTSTRAP,
        "if recorded(seen).challenge(first.member_id) is not None or not _startable",
        "if not _startable",
        "a second ticket for a member that had one (I3)",
    ),
    Mutant(
        _BOOTSTRAP,
        "if first is None or bootstrap.challenge(first.member_id) != challenge:",
        "if first is None:",
        "a ticket goes to a run that the ledger does not name (I3)",
    ),
    Mutant(
        _BOOTSTRAP,
        "if first is None or not waits_empty(pod) or pod.answer is None:",
        "if first is None or pod.answer is None:",
        "a ledger entry for a volume that is not empty",
    ),
    Mutant(
        _BOOTSTRAP,
        'pod.answer and pod.answer.finding.found == "no-data"\n',
        "pod.answer\n",
        "a volume that could not be read counts as empty",
    ),
    Mutant(
        _BOOTSTRAP,
        "        pod.in_start and not pod.deleting and pod.answer and pod.answer.finding",
        "        pod.in_start and pod.answer and pod.answer.finding",
        "a pod that is being deleted counts as waiting",
    ),
    Mutant(
        _BOOTSTRAP,
        'state: ClusterState = "existing" if bootstrap.latched else "new"',
        'state: ClusterState = "new"',
        "`new` after the latch (I4)",
    ),
    Mutant(
        _BOOTSTRAP,
        "initial = _initial_now(seen) if bootstrap.latched else bootstrap.initial_cluster",
        "initial = _initial_now(seen)",
        "first tickets without what was recorded",
    ),
    Mutant(
        _BOOTSTRAP,
        "return not is_latched(seen) or _is_listed(seen, first)",
        "return True",
        "a late first member joins without being on the list (I4)",
    ),
    Mutant(
        _BOOTSTRAP,
        "if claim is None or claim.deleting or claim.damage:",
        "if claim is None or claim.damage:",
        "a ticket for a volume that is about to go",
    ),
    Mutant(
        _BOOTSTRAP,
        "    if _member_record(seen, pod) != record:\n        return",
        "    if _member_record(seen, pod) is None:\n        return",
        "a ticket beside a claim that is recorded as another member",
    ),
    Mutant(
        _BOOTSTRAP,
        "    if _member_record(seen, pod) != record:\n        return",
        "    if False:\n        return",
        "tickets go out before the claim is recorded",
    ),
    Mutant(
        _BOOTSTRAP,
        "        claim_uid=_claim_uid(seen, pod),",
        "        claim_uid=pod.uid,",
        "a claim's record names the pod: every claim looks restored",
    ),
    Mutant(
        _BOOTSTRAP,
        "if not waiting or (not is_latched(seen) and _gathering(seen)):",
        "if not waiting:",
        "first tickets do not wait for the slowest pod: names are denied and cached",
    ),
    Mutant(
        _BOOTSTRAP,
        "if any(pod and pod.age > GATHERING_SECONDS for pod in expected):",
        "if False:",
        "one pod that never comes keeps all others from starting",
    ),
    Mutant(
        _BOOTSTRAP,
        "return any(pod is None or (pod.answer is None and not pod.trouble) for pod in expected)",
        "return any(pod is None or pod.answer is None for pod in expected)",
        "a pod with a known trouble is waited for",
    ),
    Mutant(
        _BOOTSTRAP,
        "    if any(pod.etcd_started for pod in seen.pods):\n        return False",
        "",
        "late pods gather again although others run",
    ),
    Mutant(
        _BOOTSTRAP,
        "if others := _answering(seen) - {record.cluster_id}:",
        "if others := set[int]():",
        "a second cluster goes unnoticed and is latched (I7)",
    ),
    Mutant(
        _BOOTSTRAP,
        "said = {status.cluster_id for status in seen.statuses.values()}",
        "said = set[int]()",
        "one member in another cluster goes unnoticed",
    ),
    Mutant(
        _BOOTSTRAP,
        "    if seen.etcd is None or record.latched:\n        return None",
        "    if record.latched:\n        return None",
        "latched without an answer of a quorum (I4)",
    ),
    Mutant(
        _BOOTSTRAP,
        "    if known:\n        size",
        "    if False:\n        size",
        "a lost Secret of a formed cluster begins an empty one (I11)",
    ),
    Mutant(
        _BOOTSTRAP,
        "return (held & last or held) | _answering(seen) or last",
        "return (held & last or held) | _answering(seen)",
        "what the status remembers is not looked at (I11)",
    ),
    Mutant(
        _BOOTSTRAP,
        "return (held & last or held) | _answering(seen) or last",
        "return held | _answering(seen) or last",
        "a claim of an attempt that never formed keeps a lost Secret from being made again",
    ),
    Mutant(
        _BOOTSTRAP,
        "    held |= {pod.record.cluster_id for pod in seen.pods if pod.record}\n",
        "",
        "with an emptyDir a lost Secret begins an empty cluster (I11)",
    ),
    Mutant(
        _BOOTSTRAP,
        "if running := next((pod.name for pod in seen.pods if pod.etcd_started), None):",
        'if running := "":',
        "an empty cluster is begun beside a running etcd (I11)",
    ),
    Mutant(
        _BOOTSTRAP,
        "    if len(known) > 1:\n",
        "    if len(known) > 9:\n",
        "claims of two etcd clusters are taken for one (I7)",
    ),
    Mutant(
        _BOOTSTRAP,
        "    if record.cluster_uid != seen.cluster.uid:\n",
        "    if False:\n",
        "a Secret that was copied from another cluster is used (I7)",
    ),
    Mutant(
        _BOOTSTRAP,
        "return recorded or live or seen.cluster.version",
        "return seen.cluster.version",
        "an edited version goes into the template without a gate (I9)",
    ),
    Mutant(
        _BOOTSTRAP,
        "return recorded or live or seen.cluster.version",
        "return live or seen.cluster.version",
        "a StatefulSet made anew runs another version (I9)",
    ),
    Mutant(
        _BOOTSTRAP,
        "asked = 0 if known else seen.replicas",
        "asked = 0",
        "replicas are lowered while nobody can tell who is a member (I5)",
    ),
    Mutant(
        _BOOTSTRAP,
        "return max([asked, begun, *owned, *listed]) or seen.cluster.size",
        "return seen.cluster.size",
        "an edited size takes members' pods away (I5)",
    ),
    Mutant(
        _BOOTSTRAP,
        "return max([asked, begun, *owned, *listed]) or seen.cluster.size",
        "return max([asked, begun, *listed]) or seen.cluster.size",
        "a claim with a member loses its pod (I5)",
    ),
    Mutant(
        _BOOTSTRAP,
        "return max([asked, begun, *owned, *listed]) or seen.cluster.size",
        "return max([asked, begun, *owned]) or seen.cluster.size",
        "a listed member loses its pod (I5)",
    ),
    Mutant(
        _BOOTSTRAP,
        "        and ordinal < naming.MAX_SIZE\n",
        "",
        "a member that calls itself c-999999999 makes as many pods",
    ),
    Mutant(
        _BOOTSTRAP,
        "seen.etcd if seen.etcd and record and seen.etcd.cluster_id == record.cluster_id else",
        "seen.etcd if seen.etcd else",
        "the member list of another cluster lowers replicas (I5)",
    ),
    Mutant(
        _BOOTSTRAP,
        "begun = max(len(record.members), record.size) if record else 0",
        "begun = len(record.members) if record else 0",
        "after a lost Secret nobody knows how many members there were (I5)",
    ),
    Mutant(
        _BOOTSTRAP,
        "        and finding.cluster_uid == seen.cluster.retained_claims.adopt\n",
        "",
        "another cluster's data is served without a human's word (I10)",
    ),
    Mutant(
        _BOOTSTRAP,
        "        and finding.cluster_id == recorded(seen).cluster_id\n",
        "",
        "a log of another etcd cluster is adopted (I7)",
    ),
    Mutant(
        _BOOTSTRAP,
        "        and finding.member == pod.name\n",
        "",
        "another member's volume is adopted",
    ),
    Mutant(
        _BOOTSTRAP,
        "        and held.member_id == finding.member_id\n",
        "",
        "a log that disagrees with its claim is adopted",
    ),
    # Pods that can get no ticket.
    Mutant(
        _BLOCKED,
        "if bootstrap.latched or not left or size - len(spent) > size // 2:",
        "if True:",
        "a cluster that can never form waits without a word",
    ),
    Mutant(
        _BLOCKED,
        "if bootstrap.latched or not left or size - len(spent) > size // 2:",
        "if bootstrap.latched or not left:",
        "one lost volume stops a cluster that forms without it",
    ),
    Mutant(
        _BLOCKED,
        "waits = pod.in_start and not pod.deleting and pod.ordinal < seen.replicas",
        "waits = pod.in_start and not pod.deleting",
        "a pod that is taken away anyway is called a lost member",
    ),
    Mutant(
        _BLOCKED,
        "if not seen.cluster.durable or (claim and not claim.deleting):",
        "if not seen.cluster.durable or claim:",
        "a pod on a claim that is being deleted waits without a word",
    ),
    Mutant(
        _BLOCKED,
        "    if unused and seen.etcd is None:\n",
        "    if False:\n",
        "a moment without a leader is reported as a lost quorum",
    ),
    # What a deleted cluster left behind.
    Mutant(
        _LEFTOVERS,
        "if discard and claim.record and claim.record.cluster_uid == discard:",
        "if claim.record and claim.record.cluster_uid == discard:",
        "a claim with a blank UID is deleted without a human's word (I6)",
    ),
    Mutant(
        _LEFTOVERS,
        "if discard and claim.record and claim.record.cluster_uid == discard:",
        "if discard and claim.record:",
        "discarding one cluster's claims deletes another's too (I6)",
    ),
    Mutant(
        _LEFTOVERS,
        "return bool(adopt) and uids == {adopt}",
        "return uids == {adopt}",
        "a claim with a blank UID is adopted without a human's word",
    ),
    Mutant(
        _LEFTOVERS,
        "return bool(adopt) and uids == {adopt}",
        "return adopt in uids",
        "adopting one of two old clusters takes the other along",
    ),
    Mutant(
        _LEFTOVERS,
        "if claim.record and claim.record.cluster_uid != seen.cluster.uid",
        "if False",
        "old data is served, or begun beside, by accident",
    ),
    Mutant(
        _LEFTOVERS,
        "seen.secret is not None and (seen.stateful_set is not None or is_latched(seen)):",
        "seen.secret is not None:",
        "claims that show up before the StatefulSet is there are overlooked",
    ),
    Mutant(
        _LEFTOVERS,
        "(seen.stateful_set is not None or is_latched(seen))",
        "seen.stateful_set is not None",
        "an old claim keeps a formed cluster's StatefulSet from being made again",
    ),
    Mutant(
        _LEFTOVERS,
        "if not uid or seen.secret is not None or any(claim.record for claim in seen.claims):",
        "if True:",
        "who means to adopt gets an empty cluster (I11)",
    ),
    Mutant(
        _LEFTOVERS,
        "if claim.record and claim.record.claim_uid != claim.uid:",
        "if False:",
        "a restored or cloned claim is served",
    ),
    Mutant(
        _LEFTOVERS,
        "    if claim.deleting:\n        return Wait",
        "    if False:\n        return Wait",
        "a claim that is being deleted is deleted over and over",
    ),
    Mutant(
        _LEFTOVERS,
        "if broken := next((claim for claim in seen.claims if claim.damage), None):",
        "if broken := None:",
        "a cluster is begun over claims whose record cannot be read",
    ),
    # The order of questions, and the children.
    Mutant(
        _PLANNER,
        "    _paused,\n    _names_taken,\n",
        "    _names_taken,\n",
        "paused clusters are written to",
    ),
    Mutant(
        _PLANNER,
        "    _deleting,\n    _paused,\n",
        "    _paused,\n",
        "children are made again while the cluster is being deleted",
    ),
    Mutant(
        _PLANNER,
        "    _paused,\n    _names_taken,\n",
        "    _paused,\n",
        "another owner's object is not noticed (I10)",
    ),
    Mutant(
        _PLANNER,
        "    leftovers.before_anything,\n",
        "",
        "the claims of a deleted cluster are not noticed",
    ),
    Mutant(
        _PLANNER,
        "    leftovers.damaged,\n",
        "",
        "claims that were tampered with are not noticed",
    ),
    Mutant(
        _PLANNER,
        "    bootstrap.latch,\n    bootstrap.tickets,\n",
        "    bootstrap.tickets,\n    bootstrap.latch,\n",
        "tickets before the latch: `new` although a quorum answers (I4)",
    ),
    Mutant(
        _PLANNER,
        "    blocked.cannot_form,\n",
        "",
        "a cluster that can never form waits without a word",
    ),
    Mutant(
        _PLANNER,
        "    blocked.unformed,\n",
        "",
        "settled before anyone has answered",
    ),
    Mutant(
        _PLANNER,
        "if bootstrap.is_latched(seen) and not _client_name_taken(seen):",
        "if not _client_name_taken(seen):",
        "clients are let in before the latch",
    ),
    Mutant(
        _PLANNER,
        "if bootstrap.is_latched(seen) and not _client_name_taken(seen):",
        "if bootstrap.is_latched(seen):",
        "another cluster's Service is taken over (I10)",
    ),
    Mutant(
        _PLANNER,
        '    if live["metadata"].get("deletionTimestamp"):\n',
        "    if False:\n",
        "a child that is being deleted is written to",
    ),
    Mutant(
        _PLANNER,
        '        manifest["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]\n',
        "",
        "an old view lowers replicas (I5)",
    ),
    Mutant(
        _PLANNER,
        "    return Wait(_in_words(seen, ordinal, pod))",
        "    return None",
        "settled with a pod that does not serve",
    ),
    Mutant(
        _PLANNER,
        "if (pod := seen.pod(ordinal)) is None or not pod.ready or pod.deleting",
        "if (pod := seen.pod(ordinal)) is None or not pod.ready",
        "settled with a pod on its way out",
    ),
    Mutant(
        _PLANNER,
        "replace(seen.cluster, version=bootstrap.running_version(seen))",
        "seen.cluster",
        "an edited version goes into the template without a gate (I9)",
    ),
    # The records.
    Mutant(
        _RECORDS,
        "    if clash := [member for member in tickets if record.challenge(member) is not None]:",
        "    if clash := list[int]():",
        "the ledger takes a second run for one member (I3)",
    ),
    Mutant(
        _RECORDS,
        "return replace(record, issued=tuple(sorted((*record.issued, *tickets.items()))))",
        "return replace(record, issued=tuple(sorted(tickets.items())))",
        "the ledger forgets earlier tickets (I3)",
    ),
    Mutant(
        _RECORDS,
        'token = f"{cluster_uid}-{attempt}"',
        'token = f"{cluster_uid}"',
        "every attempt has the same member IDs (I3)",
    ),
    Mutant(
        _RECORDS,
        "    if not isinstance(value, bool):\n",
        "    if False:\n",
        "a latch that was edited reads as something else than it says",
    ),
    Mutant(
        _RECORDS,
        "    if not annotations[key]:\n",
        "    if False:\n",
        "a blank UID in a record equals one that nobody has set (I6)",
    ),
    Mutant(
        _RECORDS,
        "if not {naming.CLAIM_UID, naming.MEMBER_ID, naming.CLUSTER_ID} & annotations.keys():",
        "if naming.MEMBER_ID not in annotations:",
        "a record whose member was edited away reads as none",
    ),
    Mutant(
        "membership/identity.py",
        'return _hash("".join(sorted(peer_urls)).encode() + token.encode())',
        'return _hash("".join(peer_urls).encode() + token.encode())',
        "a member with two URLs is foretold wrongly",
    ),
    Mutant(
        "membership/identity.py",
        'member.to_bytes(8, "big") for member in sorted(member_ids)',
        'member.to_bytes(8, "big") for member in member_ids',
        "the cluster's ID is foretold wrongly: split brain for ever",
    ),
    # `start` and its tickets.
    Mutant(
        "start.py",
        "    if offered.challenge != challenge:\n",
        "    if False:\n",
        "a ticket of another run is taken (I3)",
    ),
    Mutant(
        "start.py",
        'return Again() if offered == taken else Refusal("this run has taken another ticket")',
        "return Again()",
        "a second, other ticket is acknowledged",
    ),
    Mutant(
        "start.py",
        "    if offered.cluster_uid != settings.cluster_uid:\n",
        "    if False:\n",
        "another cluster's ticket is taken",
    ),
    Mutant(
        "start.py",
        "    if offered.epoch != settings.epoch:\n",
        "    if False:\n",
        "a ticket from before a restore is taken",
    ),
    Mutant(
        "start.py",
        "    if offered.member != settings.member:\n",
        "    if False:\n",
        "another pod's ticket is taken",
    ),
    Mutant(
        "start.py",
        "    if facts.heads:\n        return f",
        "    if False:\n        return f",
        "`new` onto a volume with data",
    ),
    Mutant(
        "start.py",
        "    if named.cluster_uid != settings.cluster_uid:\n",
        "    if False:\n",
        "a deleted cluster's data just runs",
    ),
    Mutant(
        "start.py",
        "    if named.epoch != settings.epoch:\n",
        "    if False:\n",
        "data from before a restore just runs",
    ),
    Mutant(
        "start.py",
        "    if named.member != settings.member:\n",
        "    if False:\n",
        "another member's volume just runs",
    ),
    Mutant(
        "start.py",
        "    if (named.member_id, named.cluster_id) != (log.member_id, log.cluster_id):\n",
        "    if False:\n",
        "a log that was swapped beneath its marker just runs",
    ),
    Mutant(
        "start.py",
        "    if (log.member_id, log.cluster_id) != (offered.member_id, offered.cluster_id):\n",
        "    if False:\n",
        "a log of another member is adopted",
    ),
    Mutant(
        "start.py",
        "    if facts.problem:\n        return _unreadable(facts.problem)\n",
        "",
        "a volume that could not be looked at counts as empty (I3)",
    ),
    Mutant(
        "ticket.py",
        "    if not hmac.compare_digest(mac, _mac(key, domain, body)):\n",
        "    if False:\n",
        "anyone may sign tickets",
    ),
    Mutant(
        "ticket.py",
        'text = f"etcd-start/v1/{domain}\\0{plain}"',
        'text = f"etcd-start/v1/\\0{plain}"',
        "an answer can stand in for a ticket",
    ),
    Mutant(
        "ticket.py",
        "    if len(key) < 32:\n",
        "    if False:\n",
        "an empty key signs",
    ),
    # The edges: parsing, drift, conditions.
    Mutant(
        "api/cluster.py",
        "    if tls.raw:\n",
        "    if False:\n",
        "plaintext in the place of TLS",
    ),
    Mutant(
        "api/cluster.py",
        'paused, tls = spec.flag("paused"), spec.object("TLS")\n',
        'paused, tls = spec.raw.get("paused") is True, Reader(spec.raw.get("TLS") or {}, "")\n',
        "a wrong `paused` or `TLS` is not seen",
    ),
    Mutant(
        "api/cluster.py",
        "if domain and not _DOMAIN.fullmatch(domain):",
        "if domain and not _DOMAIN.match(domain):",
        "a URL with more in it than a domain",
    ),
    Mutant(
        "api/cluster.py",
        "if uid and not _UID.fullmatch(uid):",
        "if False:",
        "any text names a deleted cluster",
    ),
    Mutant(
        "api/options.py",
        "    if level not in LOG_LEVELS:\n",
        "    if False:\n",
        "Kubernetes expands $(NAME) within the settings of `start`",
    ),
    Mutant(
        "api/options.py",
        "elif name not in _READERS or _is_unknown_to(version, name):",
        "elif name not in _READERS:",
        "an option that this etcd ignores is accepted without a word",
    ),
    Mutant(
        "api/options.py",
        "    if nanoseconds > LONGEST_DURATION:\n",
        "    if False:\n",
        "a duration that etcd cannot read: it does not start",
    ),
    Mutant(
        "manifests/drift.py",
        'if live == wanted or (live is None and wanted in ("", None)):',
        "if live == wanted or (live is None and not wanted):",
        "a `false` that someone took away goes unnoticed",
    ),
    Mutant(
        "manifests/drift.py",
        "if key in _WHOLE and _has_more(live.get(key), value):",
        "if False:",
        "a Service that selects nobody goes unnoticed",
    ),
    Mutant(
        "manifests/drift.py",
        " and len(set(values)) == len(items)",
        "",
        "two tolerations of one key differ for ever",
    ),
    Mutant(
        "manifests/drift.py",
        "    if key is None:\n        return _in_order(live, wanted, path)",
        "    if key is None:\n        return None if list(live) == list(wanted) else path",
        "what the API server adds within a list is written over for ever",
    ),
    Mutant(
        "manifests/drift.py",
        "return None if quantity and same_quantity(live, wanted) else path",
        "return path",
        "a respelled quantity is written over for ever",
    ),
    Mutant(
        "manifests/statefulset.py",
        '            "optional": True,\n',
        "",
        "pods with data wait for a Secret",
    ),
    Mutant(
        "manifests/statefulset.py",
        '"livenessProbe": _probe("/livez", period=10, failures=6)',
        '"livenessProbe": _probe("/readyz", period=10, failures=6)',
        "a lost quorum restarts every member",
    ),
    Mutant(
        "manifests/statefulset.py",
        '                "whenScaled": "Retain",\n',
        '                "whenScaled": "Delete",\n',
        "scaling by hand deletes data",
    ),
    Mutant(
        "naming.py",
        " or len(digits) > 9",
        "",
        "a member's name of thousands of digits stops the operator",
    ),
    Mutant(
        "conditions.py",
        '    if not is_latched(seen):\n        return Condition("Available"',
        '    if False:\n        return Condition("Available"',
        "available before the cluster has formed",
    ),
    Mutant(
        "conditions.py",
        "ready = sum(pod.ready and not pod.deleting for pod in seen.pods)",
        "ready = sum(pod.ready for pod in seen.pods)",
        "available by a pod on its way out",
    ),
    Mutant(
        "conditions.py",
        'before.get("lastTransitionTime", now) if same_status else now',
        "now",
        "a status write with every pass (I12)",
    ),
    Mutant(
        "conditions.py",
        "    for ordinal in range(replicas(seen)):\n",
        "    for ordinal in range(seen.replicas):\n",
        "a StatefulSet that is gone hides that nobody serves",
    ),
    Mutant(
        "membership/observation.py",
        "newest and pod.revision not in",
        "pod.revision not in",
        "pods are called old before anyone knows what is new",
    ),
    Mutant(
        "status.py",
        'if stored.get("phase") == "Running" and not _is_recorded(outcome.observation):',
        "if False:",
        "a running cluster is told as one that is being created",
    ),
    Mutant(
        "status.py",
        "lowest = min(versions)",
        "lowest = max(versions)",
        "an upgrade is told as done with its first member",
    ),
]
