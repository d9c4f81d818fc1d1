"""Bugs in restarts, changes of the version, a lost quorum, and the second, fresh decision."""

from __future__ import annotations

from typing import Final

from mutants.mutant import Mutant

_APPLY = "operator/etcd_operator/cluster/apply.py"
_AWAITED = "membership/awaited.py"
_CHILDREN = "membership/children.py"
_GOING_BACK = "membership/rolling/rollback.py"
_IRREVERSIBLE = "membership/irreversible.py"
_OBSERVE = "operator/etcd_operator/cluster/observe.py"
_PLANNER = "membership/planner.py"
_QUORUM = "membership/epochs/quorum.py"
_RECONCILE = "operator/etcd_operator/cluster/reconcile.py"
_REMEMBERED = "membership/beginning/remembered.py"
_ROLL = "membership/rolling/roll.py"
_UPGRADE = "membership/rolling/upgrade.py"
_VERSION_FIRST = "membership/rolling/version_first.py"

MUTANTS: Final = [
    Mutant(
        "operator/etcd_operator/run.py",
        "        if self._begun.is_set():\n",
        "        if True:\n",
        "a copy that waits for the Lease grows until it is killed",
    ),
    Mutant(
        "operator/etcd_operator/run.py",
        "        for resource, key in everything(self.store):\n",
        "        for resource, key in ():\n",
        "what happened while nobody led is never looked at",
    ),
    Mutant(
        "operator/etcd_operator/queue/workqueue.py",
        "            await asyncio.sleep(0)\n",
        "",
        "a long line keeps the loop from renewing the Lease",
    ),
    # Restarts.
    Mutant(
        _ROLL,
        " or bool(told and told <= now)\n",
        "\n",
        "a version that was taken back never reaches the member that it broke",
    ),
    Mutant(
        _ROLL,
        "bool(told and told <= now)\n",
        "bool(told)\n",
        "an older etcd is started on data that it cannot read (I9)",
    ),
    Mutant(
        _ROLL,
        "    if fails or absent or _another_is_away(seen, seat) or (",
        "    if (",
        "a template that fails in one pod is tried on a member",
    ),
    Mutant(
        _ROLL,
        "    if any(claim and claim.deleting for claim in below):\n        return None\n",
        "",
        "a member's pod is deleted, and not created again for as long as a claim below it is kept",
    ),
    Mutant(
        _ROLL,
        "if not (one.serves and one.takes_traffic)]",
        "if not one.serves]",
        "an edit never reaches a member whose probe fails while it answers",
    ),
    Mutant(
        _ROLL,
        "return edited or is_of_past_epoch(seen, pod)",
        "return True",
        "an upgrade of the operator restarts every fleet",
    ),
    Mutant(
        _ROLL,
        "if pod is None or pod.ready or seat.status is not None:",
        "if pod is None or pod.ready:",
        "without a quorum the last good member is restarted onto a broken template",
    ),
    Mutant(
        _ROLL,
        " or _lacks_start(seen, pod)):",
        "):",
        "a pod waits for the image of an operator that was replaced long ago",
    ),
    Mutant(
        _ROLL,
        "return pod.start_missing and pod.name in seen.outdated and",
        "return pod.start_missing and",
        "a pod whose image nobody has is made again without end",
    ),
    Mutant(
        _ROLL,
        "pod.name in seen.outdated and pod.record is None",
        "pod.name in seen.outdated",
        "an emptyDir with data goes as its node has lost an image",
    ),
    Mutant(
        _ROLL,
        "if _may_go(seat, pod) and (keeps or _is_dispensable(seen, seat, pod)):",
        "if _may_go(seat, pod):",
        "an emptyDir with the only copy goes with its pod",
    ),
    Mutant(
        _ROLL,
        "        if may_run and is_latched(seen) and _another_is_away(seen, seat):\n",
        "        if False:\n",
        "an operator that is cut off restarts all members at once (I8)",
    ),
    Mutant(
        _ROLL,
        "    if pod.deleting:\n        return not pod.overdue\n",
        "    if pod.deleting:\n        return True\n",
        "a node that is off keeps the cure from all others",
    ),
    Mutant(
        _ROLL,
        "    return not is_up and not pod.is_stuck and pod.age < CRASH_SECONDS\n",
        "    return not is_up and not pod.is_stuck\n",
        "a pod that waits in start unheard keeps the cure from all others",
    ),
    Mutant(
        _ROLL,
        "    if not few and not roster.is_quorum(others, voters):\n",
        "    if False:\n",
        "a restart costs the quorum (I1)",
    ),
    Mutant(
        _ROLL,
        "    if not few and not roster.is_quorum(others, voters):\n",
        "    if not few and not roster.is_quorum(others, others):\n",
        "the quorum is counted without the member that is restarted (I1)",
    ),
    Mutant(
        _ROLL,
        "    if not seat.durable and few:\n",
        "    if False:\n",
        "a restart costs all data of one or two members with an emptyDir",
    ),
    Mutant(
        _ROLL,
        "SPARING: Final = 3\n",
        "SPARING: Final = 2\n",
        "of two members one is restarted as if the other could do alone",
    ),
    Mutant(
        _ROLL,
        "if seat.leads and (step := changes.hand_over(",
        "if False and (step := changes.hand_over(",
        "the leader is restarted without handing over (I8)",
    ),
    Mutant(
        _ROLL,
        "return pod.crashing and not pod.damage and",
        "return pod.crashing and",
        "a pod on damaged data is made again every minute",
    ),
    Mutant(
        _ROLL,
        " and pod.age > _patience(seen)\n",
        "\n",
        "a pod that fails is deleted again and again, without pause",
    ),
    Mutant(
        _ROLL,
        "if not seen.cluster.durable or (is_latched(seen) and seen.etcd is None):",
        "if is_latched(seen) and seen.etcd is None:",
        "a crash costs a member in an emptyDir its data",
    ),
    Mutant(
        _ROLL,
        "return not pod.deleting and not (seat.claim and seat.claim.deleting)",
        "return not pod.deleting",
        "a pod is made again on a claim that is on its way out",
    ),
    Mutant(
        _ROLL,
        "return seen.is_settled_revision and not any(",
        "return not any(",
        "a restart counts as over before its controller has seen the edit",
    ),
    Mutant(
        _PLANNER,
        "    roll.give_way,\n",
        "",
        "a survivor waits for good for the node that a new member's pod has taken",
    ),
    Mutant(
        _ROLL,
        "    return pod.age >= member.pod.age - ALIKE_SECONDS\n",
        "    return True\n",
        "where something else takes the room, pods without data are deleted for ever",
    ),
    Mutant(
        _ROLL,
        "        waits = absent and not wording.name_taken(seen, seat.ordinal)\n",
        "        waits = False\n",
        "a new member's pod keeps the place of a member's in a quota for good",
    ),
    Mutant(
        _PLANNER,
        "    roll.recreate_crashing,\n",
        "",
        "a volume that was emptied under a container is never looked at",
    ),
    Mutant(
        _PLANNER,
        "    awaited.unserving_pod,\n    blocked.first_quorum,\n",
        "    blocked.first_quorum,\n    _Starts(roll.next_pod),\n    awaited.unserving_pod,\n",
        "the next pod is restarted before the last one serves",
    ),
    Mutant(
        _AWAITED,
        "away = [seat for seat in roster.voters(seen) if not seat.serves]",
        "away = list[roster.Seat]()",
        "a pod that is Ready counts for a member that answers",
    ),
    # Changes of the version.
    Mutant(
        _UPGRADE,
        "wanted != now and not (_jump(wanted, now) or _loses_data_going_down(seen, wanted, now))",
        "wanted != now and not _loses_data_going_down(seen, wanted, now)",
        "two minors at once, which etcd cannot read (I9)",
    ),
    Mutant(
        _UPGRADE,
        "return _ready_to_go_down(seen, wanted) or record_version(seen, wanted, now)",
        "return write(seen, wanted, now)",
        "down a minor without telling etcd (I9)",
    ),
    Mutant(
        _UPGRADE,
        "    if any(minor_in(status.storage_version) != lower for status in said):\n",
        "    if False:\n",
        "down a minor while the data has the newer format (I9)",
    ),
    Mutant(
        _UPGRADE,
        "    if mixed:\n        return Wait(",
        "    if False:\n        return Wait(",
        "the next minor before every member runs this one (I9)",
    ),
    Mutant(
        _GOING_BACK,
        "    if before is None or minor_of(wanted) != minor_of(before):\n        return False\n",
        "    if before is None:\n        return False\n",
        "half-way through one change of the minor, on to the next (I9)",
    ),
    Mutant(
        _GOING_BACK,
        "return seen.etcd is None if wanted > now else _never_ran(seen, now)",
        "return seen.etcd is None if wanted > now else True",
        "back a minor after the last member has left it (I9)",
    ),
    Mutant(
        _GOING_BACK,
        "return seen.etcd is None if wanted > now else _never_ran(seen, now)",
        "return seen.etcd is None if wanted > now else False",
        "a version that cannot be had is never left again where it stopped the cluster",
    ),
    Mutant(
        _GOING_BACK,
        "return seen.etcd is None if wanted > now else _never_ran(seen, now)",
        "return False if wanted > now else _never_ran(seen, now)",
        "a downgrade that fails is never left again without a quorum",
    ),
    Mutant(
        _GOING_BACK,
        "return before is not None or seen.etcd is None or _fails(seen)",
        "return before is not None",
        "without a quorum an edit to another patch is passed over in silence",
    ),
    Mutant(
        _GOING_BACK,
        "    if _any_runs(seen, wanted):\n        return True\n",
        "",
        "a new minor that crashes is never left again",
    ),
    Mutant(
        _GOING_BACK,
        "    if record.crossed or _any_runs(seen, now):\n",
        "    if _any_runs(seen, now):\n",
        "pods that lack the image now pass for such that never had it (I9)",
    ),
    Mutant(
        _GOING_BACK,
        "        return seen.job is None or not _has_run(seen.job)\n",
        "        return True\n",
        "a recovery goes on with an etcd that its own Job has made the data too new for (I9)",
    ),
    Mutant(
        _GOING_BACK,
        "        return not _never_ran(seen, now)  #",
        "        return False  #",
        "a recovery goes back by the silence of pods that were stopped (I9)",
    ),
    Mutant(
        _GOING_BACK,
        "    return seen.etcd is None or not is_ready_to_go_down(seen, now)\n",
        "    return False\n",
        "a pod that came up with the newer minor meanwhile is restarted with the older (I9)",
    ),
    Mutant(
        _GOING_BACK,
        "    return status.member_id == record.member_id and seat.ordinal < seen.replicas\n",
        "    return True\n",
        "without a list the word of whoever answers counts for a member's (I9)",
    ),
    Mutant(
        _PLANNER,
        "    _Edits(rollback.roll_back),\n    rollback.record_newer_format,\n",
        "    rollback.record_newer_format,\n",
        "no version is ever left again half-way",
    ),
    Mutant(
        _UPGRADE,
        "    if version_before(seen) is None or said - {now}:\n",
        "    if version_before(seen) is None:\n",
        "the way back is forgotten before the first pod is restarted",
    ),
    Mutant(
        _UPGRADE,
        "return None if mixed else _not_going_down(seen, wanted)",
        "return None",
        "a downgrade that was called off stays on",
    ),
    Mutant(
        _UPGRADE,
        "return None if mixed else _not_going_down(seen, wanted)",
        "return _not_going_down(seen, wanted)",
        "a downgrade is called off while pods have yet to come back up, and etcd refuses them",
    ),
    Mutant(
        _GOING_BACK,
        "bool(newer) and all(pod.image_missing and not pod.etcd_started for pod in newer)",
        "True",
        "pods that have yet to start again pass for an image that was never tried (I9)",
    ),
    Mutant(
        _GOING_BACK,
        "bool(newer) and all(pod.image_missing and not pod.etcd_started for pod in newer)",
        "any(pod.image_missing for pod in newer)",
        "one missing image passes for proof that no pod ever ran it (I9)",
    ),
    Mutant(
        _GOING_BACK,
        "if _is_voter(seen, seat) and seat.pod is not None and not seat.pod.deleting\n",
        "if _is_voter(seen, seat)\n",
        "back a minor by the word of a pod that stops (I9)",
    ),
    Mutant(
        _REMEMBERED,
        "        before=_version_before(seen, version),\n",
        "",
        "with the Secret the way back from a broken image is lost",
    ),
    Mutant(
        _REMEMBERED,
        "untried=known is None",
        "untried=False",
        "data that was adopted with another version than its own stays down for good",
    ),
    Mutant(
        _REMEMBERED,
        "untried=known is None",
        "untried=True",
        "an edit is taken without any gate although the StatefulSet tells the version (I9)",
    ),
    Mutant(
        _REMEMBERED,
        "version = known or seen.last_version or",
        "version = (known if seen.stateful_set else None) or",
        "with Secret and StatefulSet lost the operator's default is an upgrade (I9)",
    ),
    Mutant(
        _REMEMBERED,
        "version = known or seen.last_version or",
        "version = known or",
        "with every pod gone too, the operator's default is an upgrade (I9)",
    ),
    Mutant(
        _UPGRADE,
        "    return bool(held) and all(\n",
        "    return any(\n",
        "one missing image is enough to leave a version that the others may yet run (I9)",
    ),
    Mutant(
        _UPGRADE,
        "(pod.image_missing and missing_counts)",
        "pod.image_missing",
        "the want of an image takes data over minors without any gate (I9)",
    ),
    Mutant(
        _UPGRADE,
        "    if not record.untried or wanted == now:\n",
        "    if wanted == now:\n",
        "an edit jumps over the gates where all members fail for a moment (I9)",
    ),
    Mutant(
        _UPGRADE,
        "    if seen.etcd is not None or seen.statuses or any(pod.ready for pod in seen.pods):\n",
        "    if seen.etcd is not None or seen.statuses:\n",
        "an operator that is cut off tries another version on members that serve (I9)",
    ),
    Mutant(
        _CHILDREN,
        "return bool(fewer or version_of(live) != version_of(manifest))",
        "return fewer",
        "a template goes to a version that an old view of the record asks for (I9)",
    ),
    Mutant(
        _APPLY,
        '        if (live is not None) != ("resourceVersion" in manifest["metadata"]):\n',
        '        if live is not None and "resourceVersion" not in manifest["metadata"]:\n',
        "a StatefulSet that is gone is made anew with the replicas of an old view (I5)",
    ),
    Mutant(
        _UPGRADE,
        "seen.cluster.version if seen.cluster.version_declared else running_version(seen)",
        "seen.cluster.version",
        "an upgrade of the operator upgrades every etcd",
    ),
    Mutant(
        _UPGRADE,
        "    return WriteBootstrap.of(seen, record, words, final=True)\n",
        "    return WriteBootstrap.of(seen, record, words)\n",
        "the version moves on the word of an old view (I9)",
    ),
    Mutant(
        _UPGRADE,
        "if wanted.minor != _FIRST_WITHOUT_V2 or minor_in(record.oldest) in",
        "if True or minor_in(record.oldest) in",
        "3.7 is given a log with entries of 3.5, and panics",
    ),
    Mutant(
        _PLANNER,
        "    _Edits(upgrade.prepare),\n    shrink.remove_highest,\n",
        "    shrink.remove_highest,\n",
        "back from half-way after the last member of the older minor is lost (I9)",
    ),
    Mutant(
        "membership/children.py",
        "        if version_first.keeps_template(seen):\n",
        "        if False:\n",
        "an option that only the new version knows is given to the old, as the size comes first",
    ),
    Mutant(
        _ROLL,
        "edited = pod.spec_hash != version_first.template_hash(seen)",
        "edited = pod.spec_hash != version_first.at_running_version(seen).template_hash",
        "pods of another operator are restarted for an edit that waits for its version",
    ),
    Mutant(
        "membership/beginning/tickets.py",
        "    return pod.spec_hash == version_first.template_hash(seen)\n",
        "    return pod.spec_hash == version_first.at_running_version(seen).template_hash\n",
        "a first member waits for the edit, and the edit for the member",
    ),
    Mutant(
        _VERSION_FIRST,
        "    if spec == wanted or besides != besides_wanted:\n",
        "    if spec == wanted:\n",
        "what an authority's rotation asks of pods waits for a version",
    ),
    Mutant(
        _VERSION_FIRST,
        "    return of_epoch and not (",
        "    return not (",
        "what a recovery asks of pods waits for a version",
    ),
    Mutant(
        _VERSION_FIRST,
        "(_names_another_version(seen, live) or _may_be_a_cure(seen))",
        "_names_another_version(seen, live)",
        "an edit does not reach the pods that it is to cure, as the version waits for them",
    ),
    Mutant(
        _VERSION_FIRST,
        "(_names_another_version(seen, live) or _may_be_a_cure(seen))",
        "_may_be_a_cure(seen)",
        "growth takes an image that somebody has put there past every gate (I9)",
    ),
    Mutant(
        _VERSION_FIRST,
        "(seat for seat in roster.seats(seen) if seat.ordinal < seen.cluster.size)\n",
        "roster.seats(seen)\n",
        "one that is to go, and fails, has all others restarted twice",
    ),
    Mutant(
        _VERSION_FIRST,
        "    if pod is None or not pod.trouble or pod.tried_again:\n",
        "    if pod is None or not pod.trouble:\n",
        "what is decided comes and goes with each crash of etcd",
    ),
    Mutant(
        _VERSION_FIRST,
        "if seat.is_voter or seen.etcd is None)\n",
        "if True)\n",
        "growth that has no node gives an option of the new version to the old",
    ),
    Mutant(
        _VERSION_FIRST,
        '    return silent and seen.true_for.get("Degraded", 0.0) > SILENCE_SECONDS\n',
        "    return silent\n",
        "an election has all members restarted twice, first with the old version",
    ),
    Mutant(
        _VERSION_FIRST,
        "or pod.age > PATIENCE_SECONDS",
        "or True",
        "a pod that waits for its node for a moment has all members restarted twice",
    ),
    Mutant(
        _UPGRADE,
        "= target(seen), running_version(seen)\n    return wanted != now and",
        "= seen.cluster.version, running_version(seen)\n    return wanted != now and",
        "a default version that has moved keeps every edit from the pods",
    ),
    Mutant(
        _PLANNER,
        "    if waits or put_off",
        "    if put_off",
        "TLS that is turned off takes along an option for the version to come",
    ),
    Mutant(
        _PLANNER,
        "        if _is_edited(seen, step) and _of_version(seen) is not None:\n",
        "        if False:\n",
        "what an authority's rotation asks of pods takes along an option for the version to come",
    ),
    Mutant(
        _PLANNER,
        "    return None if isinstance(step, Wait) else step\n",
        "    return step\n",
        "what a version waits for hides all that is to be done meanwhile",
    ),
    Mutant(
        _PLANNER,
        "    _children,\n    _Starts(stalled.touch),\n    _Edits(_version_first),\n",
        "    _Starts(stalled.touch),\n    _Edits(_version_first),\n    _children,\n",
        "a downgrade that etcd refuses keeps Services from being put back",
    ),
    Mutant(
        _VERSION_FIRST,
        "    if spec == wanted or besides != besides_wanted:\n",
        "    if besides != besides_wanted:\n",
        "a template that someone has altered stays so for as long as a downgrade waits",
    ),
    Mutant(
        _UPGRADE,
        "said = {reported_version(status.version) for",
        "said = {parse_version(status.version) for",
        "a change to a private build never comes to its end",
    ),
    Mutant(
        _PLANNER,
        "    upgrade.correct_record,\n",
        "",
        "a Secret of before takes the cluster down a minor, without a word of the spec (I9)",
    ),
    Mutant(
        _UPGRADE,
        "told <= made == {version_of(live)}",
        "told <= made",
        "without a quorum pods alone tell the version, also where somebody has put it right",
    ),
    Mutant(
        _UPGRADE,
        "or record.before or record.untried or",
        "or record.untried or",
        "a change of the version is taken back before the first pod is restarted",
    ),
    Mutant(
        _QUORUM,
        "began <= {one.record.member_id for one in every if one.record}",
        "True",
        "a member whose claim is as new is taken for one that never was",
    ),
    Mutant(
        _PLANNER,
        "    upgrade.impossible,\n",
        "",
        "a jump of two minors is passed over in silence",
    ),
    # A lost quorum.
    Mutant(
        _QUORUM,
        "    size = replicas.wanted(seen)\n",
        "    size = seen.cluster.size\n",
        "an edited size decides what a quorum was",
    ),
    Mutant(
        _QUORUM,
        'return seat.found in ("no-data", "damaged")',
        'return seat.found in ("no-data", "damaged", "unreadable", "foreign-data")',
        "volumes that may come back are called lost, and a human to the rescue",
    ),
    Mutant(
        _QUORUM,
        'return seat.found in ("no-data", "damaged")',
        'return seat.found == "damaged"',
        "empty volumes are waited for as if they were members",
    ),
    Mutant(
        _PLANNER,
        "    if seen.etcd:\n        return None\n    step = (",
        "    if True:\n        return None\n    step = (",
        "without a quorum the membership is decided by what nobody knows",
    ),
    # The second look at what nothing undoes.
    Mutant(
        _IRREVERSIBLE,
        "    steps.DeleteClaim,\n    steps.DeletePod,",
        "    steps.DeletePod,",
        "a claim is deleted on the word of an old view (I6)",
    ),
    Mutant(
        _IRREVERSIBLE,
        "    steps.DeletePod,\n",
        "",
        "a pod is deleted on the word of an old view (I1)",
    ),
    Mutant(
        _IRREVERSIBLE,
        "    steps.MemberRemove,\n",
        "",
        "a member is removed on the word of an old view (I1)",
    ),
    Mutant(
        _IRREVERSIBLE,
        "            steps.ApplyChild(final=final)\n            | steps.Write",
        "            steps.Write",
        "replicas are lowered on the word of an old view (I5)",
    ),
    Mutant(
        _CHILDREN,
        'fewer = manifest["spec"]["replicas"] < live["spec"]["replicas"]',
        "fewer = False",
        "nobody knows that replicas are lowered: below a member that was added since (I5)",
    ),
    Mutant(
        _RECONCILE,
        "        if is_final(step):\n",
        "        if False:\n",
        "nothing is ever looked at twice",
    ),
    Mutant(
        _RECONCILE,
        "if comparable(again) != comparable(step) or isinstance(again, Wait | Hold | Settled):",
        "if isinstance(again, Wait | Hold | Settled):",
        "what the second look finds is done without a second look at that",
    ),
    Mutant(
        _RECONCILE,
        "if fresh is None or fresh.cluster.uid != current.cluster.uid:",
        "if fresh is None:",
        "the next cluster of the name inherits a step",
    ),
    Mutant(
        _RECONCILE,
        "        return current, again\n",
        "        return current, step\n",
        "a pod or claim that was only touched is never deleted",
    ),
    Mutant(
        _OBSERVE,
        "self._sweeps[key] = Sweep(known=last.known)",
        "self._sweeps[key] = last",
        "the second look believes what members said at the first",
    ),
    Mutant(
        _OBSERVE,
        "        await self._read_again(cluster)\n",
        "",
        "the second look reads what the watches have brought so far",
    ),
    Mutant(
        _OBSERVE,
        "            self._finder.read_all(PODS, where, cluster.name),\n",
        "",
        "the second look sees pods of before",
    ),
    Mutant(
        _IRREVERSIBLE,
        'return isinstance(step, steps.ApplyChild) and step.kind in {"Service", "NetworkPolicy"}',
        "return isinstance(step, steps.ApplyChild)",
        "replicas and budgets go by what members said before (I5)",
    ),
    Mutant(
        "operator/etcd_operator/kube/finder.py",
        "JUST_SECONDS: Final = 0.05\n",
        "JUST_SECONDS: Final = 5.0\n",
        "whoever took a name in the last seconds loses what he made (I10)",
    ),
    Mutant(
        _UPGRADE,
        "if any(one.downgrade_target for one in said):",
        "if False:",
        "a member is added amid a downgrade, cannot join, and is dropped over and over",
    ),
    Mutant(
        _UPGRADE,
        "if running and all(minor_of(version) > minor_of(joins) for version in running):",
        "if False:",
        "a member of a minor below all others is added, and cannot join",
    ),
    Mutant(
        _UPGRADE,
        "return not seen.cluster.durable and minor_of(wanted) < minor_of(now)",
        "return False",
        "a downgrade drops one emptyDir after the other, and none of them joins again",
    ),
    Mutant(
        _ROLL,
        "if seen.stateful_set is None or seen.is_settled_revision:",
        "if True:",
        "all is said to be as declared, with every restart still to come",
    ),
]
