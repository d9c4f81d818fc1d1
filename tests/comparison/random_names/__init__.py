"""The other approach: etcd in bare pods with random names, as the coreos operator ran it.

It is a stand-in for the comparison only. It does what that operator did, and no more.
"""
