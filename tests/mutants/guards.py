"""Bugs in what protects a cluster from others: budgets, network policies."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

_ACCESS = "api/access.py"
_BUDGET = "membership/members/budget.py"
_CHILDREN = "membership/children.py"
_DISRUPTIONS = "status/disruptions.py"
_DISRUPTION_BUDGET = "manifests/disruption_budget.py"
_DRIFT = "manifests/drift.py"
_NETWORK_POLICY = "manifests/network_policy.py"
_PLANNER = "membership/planner.py"
_PUT_OFF = "membership/put_off.py"

MUTANTS: Final = [
    # What may go on without which object.
    Mutant(
        _PUT_OFF,
        "            return _is_dispensable(seen, step)",
        "            return False",
        "a refused network policy keeps lost members from being replaced",
    ),
    Mutant(
        _PUT_OFF,
        "    return same and min(1, wanted) <= seen.replicas <= wanted",
        "    return same and 0 <= seen.replicas <= wanted",
        "a StatefulSet that was scaled to none is passed over",
    ),
    Mutant(
        _CHILDREN,
        '        manifest["spec"]["volumeClaimTemplates"] = live.get("volumeClaimTemplates", [])\n',
        "",
        "each write of the StatefulSet is refused once the size of the volumes was edited",
    ),
    Mutant(
        _PUT_OFF,
        "for tell in (epoch_in, levels_in, trust_in))",
        "for tell in (levels_in, trust_in))",
        "pods of another epoch are made and counted on",
    ),
    Mutant(
        "membership/members/learner.py",
        "may_vote = budget.protects(seen, len(seen.members)) and not",
        "may_vote = not",
        "a voter more, and a budget that lets go of two of four (I1)",
    ),
    Mutant(
        "membership/tls/issued.py",
        '            if seen.is_taken("Secret", as_issued(leaf.need).secret):\n',
        "            if False:\n",
        "cert-manager writes over another's Secret",
    ),
    Mutant(
        "api/affinity.py",
        "wanted.items(_PREFERRED)",
        "()",
        "members are placed by pods of a namespace that their owner may not even list",
    ),
    Mutant(
        _BUDGET,
        "return roster.quorum(len(seen.members))",
        "return roster.quorum(len(roster.voters(seen)))",
        "F26: the budget is raised after the promotion: in between a drain takes the quorum (I1)",
    ),
    Mutant(
        _BUDGET,
        "return roster.quorum(len(seen.members))",
        "return roster.quorum(seen.cluster.size)",
        "F26: the budget is lowered while the members that are to go still vote (I1)",
    ),
    Mutant(
        _BUDGET,
        " and seen.etcd.cluster_id == recorded(seen).cluster_id",
        "",
        "a stranger's list lowers the budget",
    ),
    Mutant(
        _BUDGET,
        "return live or roster.quorum(max(replicas.wanted(seen), recorded(seen).ordinals))",
        "return roster.quorum(seen.cluster.size)",
        "without a quorum an edit of the size lowers the budget",
    ),
    Mutant(
        _BUDGET,
        'return before is None or wanted["spec"]["minAvailable"] < before',
        "return False",
        "the budget is lowered on the word of an old view",
    ),
    Mutant(
        _DISRUPTION_BUDGET,
        '"unhealthyPodEvictionPolicy": "IfHealthyBudget"',
        '"unhealthyPodEvictionPolicy": "AlwaysAllow"',
        "F35: a drain in the moment of an election takes every member",
    ),
    Mutant(
        _DISRUPTION_BUDGET,
        '"selector": {"matchLabels": naming.selector(cluster.name)}',
        '"selector": {"matchLabels": {naming.LABEL_INSTANCE: cluster.name}}',
        "the pod of a recovery counts as a member",
    ),
    Mutant(
        _DISRUPTIONS,
        "    if not seen.cluster.durable:\n",
        "    if False:\n",
        "people are told to delete the only data there is",
    ),
    Mutant(
        _DISRUPTIONS,
        " or not is_latched(seen):\n",
        ":\n",
        "drains are said to wait for a budget that is not there",
    ),
    Mutant(
        _DISRUPTIONS,
        '        return outcome.kept("DrainsBlocked")\n',
        "        return None\n",
        "a cluster of two without a quorum seems to let its pods go",
    ),
    Mutant(
        _BUDGET,
        "return min_available(seen) >= len(roster.voters(seen))",
        "return roster.quorum(seen.cluster.size) == seen.cluster.size",
        "drains of the only member seem to go on once more members are asked for",
    ),
    Mutant(
        _BUDGET,
        "return min_available(seen) >= len(roster.voters(seen))",
        "return len(roster.voters(seen)) < 3",
        "drains of three seem to go on beside a learner",
    ),
    Mutant(
        _CHILDREN,
        " or excluded(live, manifest)",
        "",
        "somebody's second handler of a probe stays, and no pod can be made",
    ),
    Mutant(
        _CHILDREN,
        "        yield seen.disruption_budget, budget.manifest(seen)\n",
        "",
        "F35: nothing keeps drains from taking the quorum",
    ),
    Mutant(
        _CHILDREN,
        "kind in _OPTIONAL or ",
        "",
        "somebody's budget of that name stops a whole cluster",
    ),
    Mutant(
        _NETWORK_POLICY,
        "    if peers is not None and not peers:\n        return None\n",
        "",
        "an empty list of peers lets everybody in",
    ),
    Mutant(
        _NETWORK_POLICY,
        "_rule(naming.PEER_PORT, [members]),",
        "_rule(naming.PEER_PORT, [own]),",
        "Jobs reach the peers' port",
    ),
    Mutant(
        _NETWORK_POLICY,
        "_rule(naming.START_PORT, [it]),",
        "_rule(naming.START_PORT, [it, own]),",
        "a member reaches another's start",
    ),
    Mutant(
        _NETWORK_POLICY,
        "[own, it, *clients]",
        "[own, *clients]",
        "the operator is shut out by the spec's clients",
    ),
    Mutant(
        _NETWORK_POLICY,
        '({"podSelector": {}},)',
        '({"namespaceSelector": {}},)',
        "every pod is a client of a cluster whose spec names none",
    ),
    Mutant(
        _NETWORK_POLICY,
        "    it = _pods(operator.labels) | {\n",
        "    it = {\n",
        "every pod of the operator's namespace counts as the operator",
    ),
    Mutant(
        _NETWORK_POLICY,
        "{_NAMESPACE_NAME: operator.namespace}",
        "{}",
        "pods of any namespace with the operator's labels count as the operator",
    ),
    Mutant(
        _NETWORK_POLICY,
        "naming.ours(cluster.name)",
        "{naming.LABEL_MANAGED_BY: naming.MANAGER}",
        "other clusters' pods are let in",
    ),
    Mutant(
        _ACCESS,
        "    if not peer:\n",
        "    if False:\n",
        "a peer that selects nothing keeps the policy from being made",
    ),
    Mutant(
        _ACCESS,
        "return {key: value for key, value in found.items() if value}",
        "return found",
        "a policy is written again and again: the API server keeps no empty lists",
    ),
    Mutant(
        _DRIFT,
        'frozenset({"ingress", "podSelector"})',
        'frozenset({"podSelector"})',
        "one more port or peer in a live policy goes unseen",
    ),
    Mutant(
        _DRIFT,
        'frozenset({"ingress", "podSelector"})',
        'frozenset({"ingress"})',
        "a live policy that leaves pods out goes unseen",
    ),
]
