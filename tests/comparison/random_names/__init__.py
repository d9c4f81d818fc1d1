"""The other way to run etcd: bare pods with random names, as coreos's operator made them.

A stand-in for the comparison, never for use: it does what that operator did, and no more.
"""
