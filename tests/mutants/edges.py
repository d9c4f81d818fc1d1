"""Faults at the edges: `start` and its tickets, parsing, manifests, drift, status."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

MUTANTS: Final = [
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
        'paused, links = spec.flag("paused"), read_tls(spec.object("TLS"))\n',
        'paused, links = spec.raw.get("paused") is True, read_tls(spec.object("TLS"))\n',
        "a wrong `paused` is not seen",
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
        'if live is None and wanted in ("", None):',
        "if live is None and not wanted:",
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
        '    if not outcome.has_formed:\n        return Condition("Available"',
        '    if False:\n        return Condition("Available"',
        "available before the cluster has formed",
    ),
    Mutant(
        "conditions.py",
        "if outcome.refused and not outcome.has_formed:",
        "if outcome.refused:",
        "an edit that is refused takes a cluster that serves for gone",
    ),
    Mutant(
        "conditions.py",
        "    if seen.etcd is None:\n        before",
        "    if False:\n        before",
        "a pause makes an alarm unsaid",
    ),
    Mutant(
        "outcome.py",
        "paused = seen.cluster.paused or",
        "paused = False and",
        "a pause half-way makes the change unsaid",
    ),
    Mutant(
        "conditions.py",
        "if not any(pod.ready and not pod.deleting for pod in seen.pods):",
        "if not any(pod.ready for pod in seen.pods):",
        "available by a pod on its way out",
    ),
    Mutant(
        "conditions.py",
        'before.get("lastTransitionTime", now) if same_status else now',
        "now",
        "a status write with every pass (I12)",
    ),
    Mutant(
        "serving.py",
        "range(seen.replicas or replicas.wanted(seen))",
        "range(seen.replicas)",
        "a StatefulSet that is gone hides that nobody serves",
    ),
    Mutant(
        "membership/observation.py",
        "newest and pod.revision not in",
        "pod.revision not in",
        "pods are called old before anyone knows what is new",
    ),
    Mutant(
        "outcome.py",
        'return self.stored.get("phase") == "Running"',
        "return False",
        "a running cluster is told as one that is being created",
    ),
    Mutant(
        "status.py",
        "lowest = min(versions)",
        "lowest = max(versions)",
        "an upgrade is told as done with its first member",
    ),
    Mutant(
        "operator/etcd_operator/start/journal.py",
        'text.encode(errors="backslashreplace")',
        "text.encode()",
        "a file whose name is no text ends `start`, over and over",
    ),
    Mutant(
        "operator/etcd_operator/start/volume.py",
        '.encode(errors="backslashreplace").decode()',
        "",
        "half a character in a file's name goes into answers and a status",
    ),
    Mutant(
        "membership/roster.py",
        '        host = naming.split_url(url)[1].partition(":")[0]\n',
        '        host = __import__("urllib.parse").parse.urlsplit(url).hostname or ""\n',
        "a member that was added by an odd URL ends each pass over its cluster",
    ),
    Mutant(
        "operator/etcd_operator/labelling.py",
        " & {pod.uid for pod in pods}",
        "",
        "each pod that was refused a label is remembered for ever",
    ),
    Mutant(
        "membership/planner.py",
        "    _Starts(stalled.wake),\n",
        "",
        "a pod waits for a quarter of an hour for a controller that backed off",
    ),
    Mutant(
        "membership/stalled.py",
        " and not _claim_ends(seen, ordinal)",
        "",
        "a controller is woken for a claim that is still being deleted, and backs off further",
    ),
    Mutant(
        "membership/stalled.py",
        " or not seen.is_settled_revision",
        "",
        "a controller that is at work on an edit is touched at each step of it",
    ),
    Mutant(
        "operator/etcd_operator/stalls.py",
        "min(stall.wait * PACE, LAST_SECONDS)",
        "stall.wait",
        "a StatefulSet whose pods a quota refuses is written four times a second",
    ),
    Mutant(
        "operator/etcd_operator/stalls.py",
        " or stall.missing != names",
        "",
        "a pod that is lost after another waits for half a minute for its controller",
    ),
    Mutant(
        "operator/etcd_operator/apply.py",
        "micro(self._wall_clock())",
        'micro(self._wall_clock())[:4] + "Z"',
        "a touch that changes nothing wakes nobody",
    ),
    Mutant(
        "operator/etcd_operator/apply.py",
        '{"metadata": {"uid": step.uid, "annotations": note}}',
        '{"metadata": {"annotations": note}}',
        "a StatefulSet is touched that nobody has looked at",
    ),
    Mutant(
        "operator/etcd_operator/patience.py",
        "min(late, max(seen.next_touch, FIRST_POLL)) if seen.next_touch else late",
        "late",
        "a controller that backed off is woken seconds late",
    ),
    Mutant(
        "operator/etcd_operator/patience.py",
        " if seen.next_touch else late",
        "",
        "a touch that has to wait for another step is looked for twenty times a second",
    ),
]
