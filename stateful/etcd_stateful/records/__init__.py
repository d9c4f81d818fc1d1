"""What the operator writes down before it lets anything start, and reads back after a crash.

Two records make every start traceable. The *bootstrap record* lives in the Secret that holds the
key of the tickets: how the cluster was meant to begin, which run of `start` had each member's one
ticket and, once it has formed, its latched cluster ID. The *member record* lives on each claim:
which member the volume belongs to. A claim can be deleted and made anew, so that it has no record
does not mean that its member never had a ticket; the bootstrap record knows. Neither is in the
custom resource's status, which others may wipe.
"""
