"""Which steps are chosen twice, and which go by the objects alone.

The first look at a cluster may be old. What nothing undoes is chosen once more, from what is read
just before it is carried out.
"""

from __future__ import annotations

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
"""`ChangeAuth` too: whom an outdated spec lets in is in, until the next pass puts that right."""


def is_final(step: Step) -> bool:
    """Whether nothing undoes it: then it is chosen once more, from what is read just before."""
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


def goes_by_objects(step: Step) -> bool:
    """Whether it follows from the spec and what is there of it, whatever the members would say.

    A StatefulSet's replicas and a budget follow the list of members.
    """
    return isinstance(step, steps.ApplyChild) and step.kind in {"Service", "NetworkPolicy"}
