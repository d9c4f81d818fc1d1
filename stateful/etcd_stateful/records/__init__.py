"""What the operator writes down before it lets anything start, and reads back after a crash.

The *bootstrap record* is in the Secret with the ticket key. It says how the cluster was meant to
begin, which run of `start` got each member's one ticket and, once the cluster has formed, its
latched cluster ID. The *member record* is on each claim and says which member the volume belongs
to. A claim can be deleted and recreated, so a claim without a record does not mean that its member
never had a ticket; the bootstrap record knows. Neither record is in the custom resource's status,
which others may wipe.
"""
