"""Bugs in how a cluster begins: its record, its first tickets, the latch."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

_ATTEMPTS = "membership/beginning/attempts.py"
_BOOTSTRAP = "membership/beginning/bootstrap.py"
_PLANNER = "membership/planner.py"
_REMEMBERED = "membership/beginning/remembered.py"
_REPLICAS = "membership/members/replicas.py"
_TICKETS = "membership/beginning/tickets.py"

MUTANTS: Final = [
    # How a cluster begins.
    Mutant(
        _ATTEMPTS,
        "    if (source := seen.cluster.restore) is not None:\n",
        "    if (source := seen.cluster.restore) is not None and False:\n",
        "a backup that is named before anything is made is taken no notice of (I11)",
    ),
    Mutant(
        _PLANNER,
        "    attempts.late_backup,\n",
        "",
        "a backup that is named once tickets are out ends in an empty cluster (I11)",
    ),
    Mutant(
        "membership/beginning/bootstrap_source.py",
        "    attempt = recorded(seen).attempt + 1\n",
        "    attempt = recorded(seen).attempt\n",
        "a restore shares its token with an attempt that was given up (I4)",
    ),
    Mutant(
        _ATTEMPTS,
        "    if bootstrap.latched or seen.etcd is not None:\n        return None",
        "    if bootstrap.latched:\n        return None",
        "another attempt while etcd answers",
    ),
    Mutant(
        _ATTEMPTS,
        "if not all(pod and pod.volume_is_empty for pod in pods):",
        "if not any(pod and pod.volume_is_empty for pod in pods):",
        "another attempt beside a member with data (I11)",
    ),
    Mutant(
        _ATTEMPTS,
        "    if not spent and (bootstrap.issued or not _differs(seen, following)):\n",
        "    if False:\n",
        "attempts without end while a claim is being deleted",
    ),
    Mutant(
        _ATTEMPTS,
        "if not _may_start_over(record) or record.issued or _has_left_traces(seen):",
        "if not _may_start_over(record) or _has_left_traces(seen):",
        "an edit begins anew beside tickets that may be under way (I4)",
    ),
    Mutant(
        _ATTEMPTS,
        "if not _may_start_over(record) or record.issued or _has_left_traces(seen):",
        "if not _may_start_over(record) or record.issued:",
        "an edit begins anew beside the data of an attempt before (I11)",
    ),
    Mutant(
        _ATTEMPTS,
        "    on_claims = any(claim.record or claim.damage for claim in seen.claims)\n",
        "    on_claims = False\n",
        "an edit begins anew beside a claim that is recorded as a member's (I11)",
    ),
    Mutant(
        _ATTEMPTS,
        "following = _next_attempt(seen, max(seen.replicas, seen.cluster.size))",
        "following = _next_attempt(seen, seen.cluster.size)",
        "an edited size leaves pods without a member until it has formed",
    ),
    Mutant(
        "membership/observation.py",
        'min(int(spec.get("replicas") or 0), naming.MAX_SIZE)',
        'int(spec.get("replicas") or 0)',
        "a StatefulSet that was scaled by hand begins with more members than there can be",
    ),
    Mutant(
        _ATTEMPTS,
        " or any(_may_have_data(pod) for pod in seen.pods):",
        ":",
        "a pod with data is made again for ever, for the want of an image",
    ),
    Mutant(
        _ATTEMPTS,
        "(following.version, following.links, len(following.members)) != now",
        "(following.version, following.links) != now[:2]",
        "an edited size is not taken before anything is made",
    ),
    Mutant(
        _TICKETS,
        "    return pod.spec_hash == version_first.template_hash(seen)\n",
        "    return True\n",
        "a first ticket for a pod of another version than is on record (I9)",
    ),
    Mutant(
        _ATTEMPTS,
        "size = max(len(pods), seen.cluster.size)",
        "size = seen.cluster.size",
        "an edited size leaves pods that can never start",
    ),
    Mutant(
        _ATTEMPTS,
        "return roster.is_ledger_older(seen) if run is None else pod.answer.challenge != run",
        "return run is not None",
        "a run that may still have its ticket counts as one that has spent it",
    ),
    Mutant(
        _TICKETS,
        "if recorded(seen).challenge(member_id) is not None or _had_lost_ticket(seen, pod):",
        "if _had_lost_ticket(seen, pod):",
        "a second ticket for a member that had one (I3)",
    ),
    Mutant(
        _TICKETS,
        "if not member_id or bootstrap.challenge(member_id) != challenge or not _recordable",
        "if not member_id or not _recordable",
        "a ticket goes to a run that the ledger does not name (I3)",
    ),
    Mutant(
        _TICKETS,
        "if not member_id or not pod.volume_is_empty or pod.answer is None or",
        "if not member_id or pod.answer is None or",
        "a ledger entry for a volume that is not empty",
    ),
    Mutant(
        "observed/pods.py",
        'return self.finding is not None and self.finding.found == "no-data"',
        "return self.finding is not None",
        "a volume that could not be read counts as empty",
    ),
    Mutant(
        "observed/pods.py",
        "        if self.deleting or not self.in_start or self.answer is None:",
        "        if not self.in_start or self.answer is None:",
        "a pod that is being deleted counts as waiting",
    ),
    Mutant(
        _TICKETS,
        "initial = _listed_cluster(seen) if bootstrap.latched else bootstrap.initial_cluster",
        "initial = _listed_cluster(seen)",
        "first tickets without what was recorded",
    ),
    Mutant(
        _TICKETS,
        "member = roster.member_at(seen, pod.ordinal)\n    return member.member_id",
        "member = roster.member_at(seen, pod.ordinal) or recorded(seen).member(pod.name)\n"
        "    return member.member_id",
        "a late first member joins without being on the list (I4)",
    ),
    Mutant(
        _TICKETS,
        "return claim is not None and not claim.deleting and not claim.damage",
        "return claim is not None and not claim.damage",
        "a ticket for a volume that is about to go",
    ),
    Mutant(
        _TICKETS,
        "    if holder.record != record:\n        return",
        "    if holder.record is None:\n        return",
        "a ticket beside a claim that is recorded as another member",
    ),
    Mutant(
        _TICKETS,
        "    if holder.record != record:\n        return",
        "    if False:\n        return",
        "tickets go out before the claim is recorded",
    ),
    Mutant(
        _TICKETS,
        "record = member_record(bootstrap, member_id, holder.uid)",
        "record = member_record(bootstrap, member_id, pod.uid)",
        "a claim's record names the pod: every claim looks restored",
    ),
    Mutant(
        _TICKETS,
        "if not waiting or (not is_latched(seen) and _awaits_first_pods(seen)):",
        "if not waiting:",
        "first tickets do not wait for the slowest pod: names are denied and cached",
    ),
    Mutant(
        _TICKETS,
        "if any(pod and pod.age > GATHERING_SECONDS for pod in expected):",
        "if False:",
        "one pod that never comes keeps all others from starting",
    ),
    Mutant(
        _TICKETS,
        "return any(pod is None or (pod.answer is None and not pod.is_stuck) for pod in expected)",
        "return any(pod is None or pod.answer is None for pod in expected)",
        "a pod with a known trouble is waited for",
    ),
    Mutant(
        _TICKETS,
        "    if any(record.challenge(first.member_id) is not None for first in record.members):\n"
        "        return False\n",
        "",
        "who has taken its ticket, and answers no more, is waited for",
    ),
    Mutant(
        _REMEMBERED,
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
        _REMEMBERED,
        "return known | (begun if outdated else set()) | answering(seen) or last",
        "return known | (begun if outdated else set()) | answering(seen)",
        "what the status remembers is not looked at (I11)",
    ),
    Mutant(
        _REMEMBERED,
        "known, begun = held & last or held, not_ended(seen)",
        "known, begun = held, not_ended(seen)",
        "a claim of an attempt that never formed keeps a lost Secret from being made again",
    ),
    Mutant(
        _REMEMBERED,
        '    yield from ((f"pod {one.name}", one.record.cluster_id) for one in seen.pods '
        "if one.record)\n",
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
        "    if seen.secret.newer:\n",
        "    if False:\n",
        "people are told to delete what a newer operator wrote",
    ),
    Mutant(
        _BOOTSTRAP,
        "return noted or live or seen.cluster.version",
        "return seen.cluster.version",
        "an edited version goes into the template without a gate (I9)",
    ),
    Mutant(
        _BOOTSTRAP,
        "return noted or live or seen.cluster.version",
        "return live or seen.cluster.version",
        "a StatefulSet made anew runs another version (I9)",
    ),
    Mutant(
        _REPLICAS,
        "return max([seen.replicas, begun, *_owned(seen, record)]) or seen.cluster.size",
        "return max([begun, *_owned(seen, record)]) or seen.cluster.size",
        "replicas are lowered while nobody can tell who is a member (I5)",
    ),
    Mutant(
        _REPLICAS,
        "size = max(used, seen",
        "size = max(0, seen",
        "an edited size takes members' pods away (I5)",
    ),
    Mutant(
        _REPLICAS,
        "return max([seen.replicas, begun, *_owned(seen, record)]) or seen.cluster.size",
        "return max([seen.replicas, begun]) or seen.cluster.size",
        "a claim with a member loses its pod (I5)",
    ),
    Mutant(
        _REPLICAS,
        "(one + 1 for one in roster.listed_ordinals(seen))",
        "(one for one in roster.listed_ordinals(seen))",
        "a listed member loses its pod (I5)",
    ),
    Mutant(
        "membership/roster.py",
        "ordinal is not None and ordinal < naming.MAX_SIZE and",
        "ordinal is not None and",
        "a member that calls itself c-999999999 makes as many pods",
    ),
    Mutant(
        _REPLICAS,
        "seen.etcd and seen.etcd.cluster_id == record.cluster_id):",
        "seen.etcd):",
        "the member list of another cluster lowers replicas (I5)",
    ),
    Mutant(
        "records/bootstrap.py",
        "return self.size or len(self.members)",
        "return len(self.members)",
        "after a lost Secret nobody knows how many members there were (I5)",
    ),
    Mutant(
        _REPLICAS,
        "max([seen.replicas, begun, *_stopped(seen, record)])",
        "max([begun, *_stopped(seen, record)])",
        "what was scaled up by hand is scaled down while nobody can tell who is a member (I5)",
    ),
    Mutant(
        _REPLICAS,
        "    if record and record.latched and seen.stateful_set is not None:\n",
        "    if False:\n",
        "a list that is silent for a moment brings a removed member's pod back",
    ),
    Mutant(
        _REPLICAS,
        " or survivor.halted(seen):\n        return None",
        ":\n        return None",
        "while pods are stopped for a restore, how many there were is written anew",
    ),
    Mutant(
        _TICKETS,
        "        and finding.cluster_uid == seen.cluster.retained_claims.adopt\n",
        "",
        "another cluster's data is served without a human's word (I10)",
    ),
    Mutant(
        _TICKETS,
        "        and finding.cluster_uid\n",
        "",
        "data of a cluster without a UID is served without a human's word (I10)",
    ),
    Mutant(
        _TICKETS,
        '        finding.found == "foreign-data"\n        and finding',
        "        finding",
        "damaged data is adopted",
    ),
    Mutant(
        _TICKETS,
        "        and finding.cluster_id == recorded(seen).cluster_id\n",
        "",
        "a log of another etcd cluster is adopted (I7)",
    ),
    Mutant(
        _TICKETS,
        "        and finding.member == pod.name\n",
        "",
        "another member's volume is adopted",
    ),
    Mutant(
        _TICKETS,
        "        and held.member_id == finding.member_id\n",
        "",
        "a log that disagrees with its claim is adopted",
    ),
    Mutant(
        "identity.py",
        'return _hash("".join(sorted(peer_urls)).encode() + token.encode())',
        'return _hash("".join(peer_urls).encode() + token.encode())',
        "a member with two URLs is foretold wrongly",
    ),
    Mutant(
        "identity.py",
        'member.to_bytes(8, "big") for member in sorted(member_ids)',
        'member.to_bytes(8, "big") for member in member_ids',
        "the cluster's ID is foretold wrongly: split brain for ever",
    ),
]
