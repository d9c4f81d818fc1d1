"""Changes of etcd's version, one step that etcd allows at a time (I9).

    a minor up, or a patch:  checks -> the record names the new version -> template -> restarts
    a minor down:            EnableDowngrade -> every member's data has the older format
                             -> the record, and on as above
    from 3.6 to 3.7:         first no log has entries of 3.5 any more (`_without_old_entries`)
    back from halfway, and
    without a quorum:        `rollback`

Pods are created with the version on record, so a spec that asks for an impossible change has no
effect. Until every member runs the new version, the record keeps the previous one too: it is the
only one that the cluster can go back to.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from etcd_stateful.manifests.statefulset import version_of
from etcd_stateful.membership import roster
from etcd_stateful.membership.beginning.bootstrap import running_version
from etcd_stateful.membership.members import changes
from etcd_stateful.membership.observation import Observation, recorded
from etcd_stateful.membership.steps import (
    CancelDowngrade,
    EnableDowngrade,
    Hold,
    Step,
    Wait,
    WriteBootstrap,
)
from etcd_stateful.observed.members import MemberStatus
from etcd_stateful.observed.pods import Pod
from etcd_stateful.versions import (
    Minor,
    Version,
    minor_in,
    minor_of,
    parse_version,
    reported_version,
)

_V3_ONLY: Final = Minor(3, 6)
"""The first minor that writes no entries of the v2 store into its log."""

_FIRST_WITHOUT_V2: Final = 7
"""The first minor of etcd 3 that cannot read them."""


def target(seen: Observation) -> Version:
    """The version that the spec asks for. If it names none, the cluster keeps the one it runs."""
    return seen.cluster.version if seen.cluster.version_declared else running_version(seen)


def is_due(seen: Observation) -> bool:
    """Whether the spec asks for another version, and the cluster can change to it."""
    wanted, now = target(seen), running_version(seen)
    return wanted != now and not (_jump(wanted, now) or _loses_data_going_down(seen, wanted, now))


def confirm_assumed(seen: Observation) -> Step | None:
    """Records that the assumed version works, once a quorum answers. From then on, another version
    has to pass the usual checks."""
    record = recorded(seen)
    if seen.etcd is None or not record.untried:
        return None
    words = f"a quorum answers, and runs etcd {running_version(seen)}"
    return WriteBootstrap.of(seen, replace(record, untried=False), words)


def replace_assumed(seen: Observation) -> Step | None:
    """Takes the version from the spec, if the one on record was only assumed and no member can run
    it. That is safe, because etcd itself refuses data of an unsuitable version."""
    return None if recorded(seen).survivor or not _none_can_run(seen) else _declared(seen)


def replace_assumed_in_job(seen: Observation) -> Step | None:
    """The same in a recovery, whose Job runs the version on record."""
    return _declared(seen) if seen.job is not None and seen.job.etcd_crashing else None


def hint_if_assumed(seen: Observation) -> str:
    """What to do if the version of a rebuilt record is wrong; empty if it is known."""
    record = recorded(seen)
    if not record.untried:
        return ""
    return (
        f"etcd {record.version} is only assumed, as no record says which version wrote the data: "
        "if members fail because of that, set spec.version to the version that they ran"
    )


def _declared(seen: Observation) -> Step | None:
    """Takes the version from the spec in place of one that was only assumed."""
    record, wanted, now = recorded(seen), target(seen), running_version(seen)
    if not record.untried or wanted == now:
        return None
    words = f"etcd {now} does not run on the data there is: {wanted} is tried, as the spec says"
    return WriteBootstrap.of(seen, replace(record, version=str(wanted)), words, final=True)


def _none_can_run(seen: Observation) -> bool:
    """Whether no member answers, and in every pod that may have data etcd crashes or its image
    cannot be pulled.

    A missing image does not count if the status says that members ran this minor: the assumption is
    right then, and the spec may only choose another patch.
    """
    if seen.etcd is not None or seen.statuses or any(pod.ready for pod in seen.pods):
        return False
    ran, now = seen.last_version, minor_of(running_version(seen))
    missing_counts = ran is None or minor_of(ran) != now or minor_of(target(seen)) == now
    held = [pod for pod in seen.pods if not pod.volume_is_empty]
    return bool(held) and all(
        pod.crashing or (pod.image_missing and missing_counts) for pod in held
    )


def correct_record(seen: Observation) -> Step | None:
    """Corrects the version on record, if all pods were created for another one and all members run
    that, although the record says that no change is under way, or one between other minors.

    The Secret was restored from a backup then. If the operator followed its record, it would change
    the version although the spec does not ask for it, and without any of the checks.
    """
    record, now = recorded(seen), running_version(seen)
    run, before = _run_by_all(seen), version_before(seen)
    if run is None or run == now or record.untried or not record.latched:
        return None
    if before and minor_of(run) in (minor_of(before), minor_of(now)):
        return None
    return record_version(
        seen, run, None, f"every member runs etcd {run}, and the record said {now}"
    )


def _run_by_all(seen: Observation) -> Version | None:
    """The one version that all pods were created for and all answering members run; None if there
    is none. Without a quorum, the StatefulSet must have it as well.

    This is also asked without a quorum, because a recovery's Job would run the version on record.
    """
    if seen.etcd is not None:
        made = {seat.pod.made_for for seat in roster.voters(seen) if seat.pod}
        agreed = made == {reported_version(status.version) for status in _statuses(seen)}
    else:
        made = {pod.made_for for pod in seen.pods}
        told = {reported_version(status.version) for status in seen.statuses.values()}
        live = seen.stateful_set
        agreed = live is not None and told <= made == {version_of(live)}
    return next(iter(made)) if agreed and len(made) == 1 else None


def prepare(seen: Observation) -> Step | None:
    """Enables a downgrade if members have data in a newer format than the version on record. Asked
    before members are added or restarted: none may start with an older version than the format.

    The format follows the cluster's version. If the last member of the older minor is lost on the
    way back from a half-done upgrade, the cluster has the newer version from then on, and etcd has
    to be told of the downgrade first.
    """
    now = running_version(seen)
    formats = (minor_in(status.storage_version) for status in _statuses(seen))
    if not any(one and one > minor_of(now) for one in formats):
        return None
    step = _ready_to_go_down(seen, now)
    # etcd goes down only once it knows the version of every member. One that is down may stay down
    # until it is removed for a smaller size, and is named by a later question.
    silent = any(not seat.answers for seat in roster.voters(seen))
    return None if silent and isinstance(step, Wait) else step


def step_before_joining(seen: Observation, pod: Pod) -> Step | None:
    """The step to take before the member in this pod can be added; None if etcd lets it join.

    etcd lets no member join during a downgrade: a joining member would have to run a minor below
    the cluster's version, which is lower itself by then (`allowedVersionRange` in etcd 3.5 to 3.7).
    Nor can a member join that runs a lower minor than all others. So the downgrade is put off until
    no member is missing.
    """
    now, said = running_version(seen), _statuses(seen)
    running = [version for one in said if (version := reported_version(one.version))]
    joins = pod.made_for or now
    if running and all(minor_of(version) > minor_of(joins) for version in running):
        if minor_of(joins) < minor_of(now):
            return Wait(f"pod {pod.name} to be recreated with etcd {now}", soon=True)
        stays = min(running)
        words = (
            f"the cluster stays with etcd {stays} for now: no member with etcd {now} can join it"
        )
        return record_version(seen, stays, None, words)
    if any(one.downgrade_target for one in said):
        words = "the downgrade is cancelled for now: etcd lets no member join during one"
        return changes.request(seen, lambda asked: CancelDowngrade(asked, words))
    return None


def finish(seen: Observation) -> Step | None:
    """Drops the previous version from the record, once every member runs the new one. Asked when
    every pod has the newest template. Going back is a downgrade from then on."""
    now = running_version(seen)
    said = {reported_version(status.version) for status in _statuses(seen)}
    if version_before(seen) is None or said - {now}:
        return None
    return record_version(seen, now, None, f"every member runs etcd {now}")


def advance(seen: Observation) -> Step | None:
    """The next step of a version change. Asked when every member serves and every pod has the
    newest template."""
    wanted, now = target(seen), running_version(seen)
    mixed = any(minor_in(status.version) != minor_of(now) for status in _statuses(seen))
    if wanted == now:
        return None if mixed else _not_going_down(seen, wanted)
    if seen.etcd is None or not is_due(seen):
        return None
    if mixed:
        return Wait(f"every member to run etcd {now}", soon=True)
    if wanted.minor < now.minor:
        return _ready_to_go_down(seen, wanted) or record_version(seen, wanted, now)
    first = _without_old_entries if wanted.minor > now.minor else _not_going_down
    return first(seen, wanted) or record_version(seen, wanted, now)


def impossible(seen: Observation) -> Step | None:
    """Holds if the spec asks for a change that etcd does not support. The cluster goes on with the
    version that it runs."""
    wanted, now = target(seen), running_version(seen)
    if not _jump(wanted, now):
        return _needs_volumes(wanted, now) if _loses_data_going_down(seen, wanted, now) else None
    way = now.minor + (1 if wanted.minor > now.minor else -1)
    return Hold(
        "VersionJump",
        f"the cluster runs etcd {now}, and etcd changes by one minor at a time: set spec.version "
        f"to a {now.major}.{way} first, and to {wanted} when that is done",
    )


def _needs_volumes(wanted: Version, now: Version) -> Hold:
    return Hold(
        "DowngradeNeedsVolumes",
        f"the cluster runs etcd {now}, and cannot be downgraded to {wanted}: its data is in "
        "emptyDir volumes, so each member would have to join again, and etcd lets no member join "
        f"during a downgrade. Set spec.version to {now}",
    )


def _ready_to_go_down(seen: Observation, wanted: Version, why: str = "") -> Step | None:
    """The step before pods may run this lower minor; None once every member's data has its format.

    Args:
        why: added to the reason, if no pod is to run it.
    """
    lower, said = minor_of(wanted), _statuses(seen)
    if step := _end_another(seen, lower):
        return step
    if any(minor_in(status.downgrade_target) != lower for status in said):
        words = f"etcd is asked to allow a downgrade to {lower}{why}"
        return changes.request(seen, lambda asked: EnableDowngrade(asked, str(lower), words))
    if any(minor_in(status.storage_version) != lower for status in said):
        words = f"every member to write its data in the format of etcd {lower}{why}"
        return Wait(words, soon=True)
    return None


def _end_another(seen: Observation, lower: Minor) -> Step | None:
    """Cancels a downgrade to another minor: etcd refuses a second one. It ends one that is over by
    itself, but looks only every `downgrade-check-time`."""
    others = {minor_in(status.downgrade_target) for status in _statuses(seen)} - {None, lower}
    if not others:
        return None
    words = f"the downgrade to {others.pop()} is cancelled, so that one to {lower} can begin"
    return changes.request(seen, lambda asked: CancelDowngrade(asked, words))


def is_ready_to_go_down(seen: Observation, wanted: Version) -> bool:
    """Whether every member's data has this lower minor's format, and keeps it."""
    return bool(_statuses(seen)) and _ready_to_go_down(seen, wanted) is None


def _without_old_entries(seen: Observation, wanted: Version) -> Step | None:
    """Before a change to 3.7, makes every member write a snapshot, unless no log can have entries
    of 3.5. Otherwise only cancels a downgrade that is still enabled.

    etcd 3.7 panics at an entry that 3.5 has written ("unmarshal should never fail"). It reads its
    log from the last snapshot on, which may be 10,000 entries ago (3.5.35, 3.6.16, 3.7.3). No API
    call makes etcd write a snapshot, but 3.6 does when the cluster's version goes down. So a
    downgrade is enabled, and cancelled once every member has followed.
    """
    record = recorded(seen)
    if wanted.minor != _FIRST_WITHOUT_V2 or minor_in(record.oldest) in (_V3_ONLY, minor_of(wanted)):
        return _not_going_down(seen, wanted) or _of_one_format(seen, running_version(seen))
    lower = Version(*_V3_ONLY, 0)
    before = Version(lower.major, lower.minor - 1, 0)
    if step := _ready_to_go_down(seen, before, _FOR_A_MOMENT):
        return step
    reason = "no log has entries of etcd 3.5 now"
    return WriteBootstrap.of(seen, replace(record, oldest=str(lower)), reason, final=True)


_FOR_A_MOMENT: Final = (
    ", for a moment on the way up: each member writes a snapshot then, after which its log has no "
    "entries of 3.5, which 3.7 cannot read"
)


def _of_one_format(seen: Observation, now: Version) -> Step | None:
    """Waits until all data has the format of this version. etcd changes the format only some
    seconds after a downgrade was cancelled."""
    said = {minor_in(status.storage_version) for status in _statuses(seen)} - {None}
    if said - {minor_of(now)}:
        return Wait(f"every member to write its data in the format of etcd {now}", soon=True)
    return None


def _not_going_down(seen: Observation, wanted: Version) -> Step | None:
    """Cancels an enabled downgrade that is not wanted any more."""
    down = {minor_in(status.downgrade_target) for status in _statuses(seen)} - {None}
    if not down - {minor_of(wanted)}:
        return None
    words = f"the downgrade is cancelled: the cluster is to run etcd {wanted}"
    return changes.request(seen, lambda asked: CancelDowngrade(asked, words))


def _statuses(seen: Observation) -> list[MemberStatus]:
    """The statuses of all voters that answer."""
    return [seat.status for seat in roster.voters(seen) if seat.answers and seat.status]


def _loses_data_going_down(seen: Observation, wanted: Version, now: Version) -> bool:
    return not seen.cluster.durable and minor_of(wanted) < minor_of(now)


def _jump(wanted: Version, now: Version) -> bool:
    return wanted.major != now.major or abs(wanted.minor - now.minor) > 1


def version_before(seen: Observation) -> Version | None:
    """The version before the change that is under way; None if there is none."""
    return parse_version(recorded(seen).before)


def record_version(
    seen: Observation,
    wanted: Version,
    before: Version | None,
    reason: str = "",
    *,
    crossed: bool = False,
) -> Step:
    record, now = recorded(seen), running_version(seen)
    record = replace(
        record,
        version=str(wanted),
        before=str(before or ""),
        crossed=crossed,
        oldest=min(record.oldest, str(wanted), key=_age) if record.oldest else "",
    )
    words = reason or f"the cluster goes from etcd {now} to {wanted}"
    return WriteBootstrap.of(seen, record, words, final=True)


def _age(version: str) -> Minor:
    return minor_in(version) or Minor(0, 0)
