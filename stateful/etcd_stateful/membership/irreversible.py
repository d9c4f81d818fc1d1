"""Which steps are decided twice, because nothing can undo them.

A first look may be made from a stale watch cache. A final step is decided again from a fresh read,
just before it is carried out.
"""

from __future__ import annotations

from dataclasses import replace

from etcd_stateful.membership import steps
from etcd_stateful.membership.steps import Step

_FINAL = (
    steps.DeleteClaim,
    steps.DeletePod,
    steps.CreateJob,
    steps.CreateSecret,
    steps.ExpandClaim,
    steps.MemberAddLearner,
    steps.MemberUpdate,
    steps.MemberPromote,
    steps.MemberRemove,
    steps.MoveLeader,
    steps.Defragment,
    steps.RotateAuthority,
    steps.ChangeAuth,
)
"""`ChangeAuth` is here because a stale spec could grant access until the next pass corrects it."""


def is_final(step: Step) -> bool:
    """Whether nothing can undo the step, so that it has to be decided again from a fresh read."""
    match step:
        case (
            steps.ApplyChild(final=final)
            | steps.WriteBootstrap(final=final)
            | steps.TakeCertificate(final=final)
        ):
            return final
        case steps.PushTicket(ticket=ticket):
            return ticket.state == "existing"
        case _:
            return isinstance(step, _FINAL)


def comparable(step: Step) -> Step:
    """The step without what may differ between two observations. A changed label does not make it
    another pod or claim, and which follower is furthest ahead changes with each client's write."""
    match step:
        case steps.DeleteClaim() | steps.DeletePod() | steps.ExpandClaim():
            return replace(step, resource_version="")
        case steps.MoveLeader():
            return replace(step, member_id=0, reason="")
        case _:
            return step


def goes_by_objects(step: Step) -> bool:
    """Whether the step depends only on the spec and its objects, so that etcd need not be asked.

    Not so for a StatefulSet and a budget, which follow the member list.
    """
    return isinstance(step, steps.ApplyChild) and step.kind in {"Service", "NetworkPolicy"}
