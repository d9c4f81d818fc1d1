"""Parsing of `spec.auth`: what is accepted, and what is refused with which message."""

from __future__ import annotations

import pytest
from worlds import body

from etcd_stateful.api.auth import Permission, SecretKey, prefix_end
from etcd_stateful.api.cluster import RefusedCluster, parse_cluster

ROOT = {"name": "etcd-root"}


def auth(**given):
    return parse_cluster(body(3, auth={"rootSecret": ROOT, **given})).auth


def role(*permissions, name="r"):
    return {"name": name, "permissions": list(permissions)}


def user(**given):
    return {"name": "u", "secret": {"name": "s"}, **given}


def problems(**given):
    with pytest.raises(RefusedCluster) as caught:
        auth(**given)
    return str(caught.value)


def test_there_is_none_unless_it_is_declared():
    assert parse_cluster(body(3)).auth is None


def test_root_is_a_user_like_others_with_its_own_role():
    [root] = auth().users
    assert (root.name, root.roles) == ("root", {"root"})
    assert root.secret == SecretKey("etcd-root", "password", "spec.auth.rootSecret")


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ({"key": "a"}, (b"a", b"")),
        ({"key": "a", "rangeEnd": "c"}, (b"a", b"c")),
        ({"prefix": "/web/"}, (b"/web/", b"/web0")),
        ({"prefix": ""}, (b"\0", b"\0")),
        ({"prefix": "ü"}, (b"\xc3\xbc", b"\xc3\xbd")),
    ],
)
def test_keys_become_etcds_ranges(said, meant):
    [found] = auth(roles=[role({"access": "Read", **said})]).roles
    assert found.permissions == {Permission("Read", *meant)}


def test_a_prefix_of_the_highest_bytes_has_no_end():
    assert prefix_end(b"\xff\xff") == b"\0"
    assert prefix_end(b"a\xff") == b"b"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"rootSecret": None}, "spec.auth.rootSecret: is missing"),
        ({"rootSecret": {"name": "../x"}}, "spec.auth.rootSecret.name: must be the name"),
        (
            {"rootSecret": {"name": "a", "key": "../x"}},
            "spec.auth.rootSecret.key: must be a valid key",
        ),
        ({"users": [user(name="root")]}, "must not be root"),
        ({"roles": [role(name="root")]}, "must not be root"),
        ({"users": [user(name="a:b")]}, "spec.auth.users[0].name: must have at most"),
        ({"users": [user(), user()]}, "spec.auth.users[1].name: u is declared twice"),
        ({"users": [user(secret=None)]}, "spec.auth.users[0].secret: is missing"),
        ({"users": [user(roles=["no"])]}, "'no' is not declared in auth.roles"),
        ({"users": [user(roles="no")]}, "must be a list of names"),
        ({"users": [user(name=f"u{n}") for n in range(65)]}, "at most 64"),
        ({"roles": [role({"access": "All", "key": "a"})]}, "must be one of Read, Write, ReadWrite"),
        ({"roles": [role({"access": "Read"})]}, "set either key"),
        ({"roles": [role({"access": "Read", "key": "a", "prefix": "b"})]}, "set either key"),
        ({"roles": [role({"access": "Read", "key": ""})]}, "is empty"),
        ({"roles": [role({"access": "Read", "key": "b", "rangeEnd": "a"})]}, "must come after"),
        (
            {"roles": [role({"access": "Read", "prefix": "b", "rangeEnd": "c"})]},
            "cannot be combined with prefix",
        ),
        (
            {"roles": [role({"access": "Read", "key": "a"}, {"access": "Write", "key": "a"})]},
            "spec.auth.roles[0].permissions: two begin at key 'a'",
        ),
    ],
)
def test_a_mistake_is_refused_with_its_field(given, words):
    assert words in problems(**given)


@pytest.mark.parametrize(
    "other",
    [{"key": "/a", "rangeEnd": "/c"}, {"prefix": "/a"}],
)
def test_a_role_lost_access_for_a_moment_when_one_of_two_permissions_of_a_key_changed(other):
    """etcd 3.5 to 3.7: a grant that changes the second was added beside the old one, and revoking
    the old one took both."""
    one = role({"access": "Read", "key": "/a"})
    second = role({"access": "Read", **other}, name="second")

    together = role(*one["permissions"], *second["permissions"])
    assert "roles[0].permissions: two begin at key '/a'" in problems(roles=[together])
    assert len(auth(roles=[one, second]).roles) == 2


def test_a_user_may_have_the_role_root():
    assert auth(users=[user(roles=["root"])]).users[1].roles == {"root"}
