"""The bootstrap record as JSON in the Secret."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from etcd_stateful import identity
from etcd_stateful.api.tls import NO_TLS, links_as_json, load_links
from etcd_stateful.backup.reference import chosen_as_json, load_chosen
from etcd_stateful.records import accounts
from etcd_stateful.records import successor as successors
from etcd_stateful.records.accounts import NO_ACCOUNTS
from etcd_stateful.records.bootstrap import FIRST_EPOCH, Bootstrap, FirstMember
from etcd_stateful.records.errors import BadRecord, NewerRecord
from etcd_stateful.untrusted import loads, truth, whole

FORMAT: Final = 1
"""The format version of the record. It has to be raised with every key that is added, also in
nested objects: an older operator would ignore the key, and write the record without it."""


def dump_bootstrap(record: Bootstrap) -> str:
    """The record as JSON for the Secret; `load_bootstrap` reads it."""
    links = {} if record.links.are_plaintext else {"links": links_as_json(record.links)}
    return json.dumps(
        {
            **links,
            "format": FORMAT,
            "clusterUID": record.cluster_uid,
            "attempt": record.attempt,
            "token": record.token,
            "members": [
                [member.name, member.peer_url, identity.to_hex(member.member_id)]
                for member in record.members
            ],
            "clusterID": identity.to_hex(record.cluster_id),
            "latched": record.latched,
            "issued": [[identity.to_hex(member), run] for member, run in record.issued],
            "version": record.version,
            "oldest": record.oldest,
            "before": record.before,
            "size": record.size,
            "epoch": record.epoch,
            "survivor": record.survivor,
            "declined": record.declined,
        }
        | ({"restoring": True} if record.restoring else {})
        | ({"chosen": chosen_as_json(record.chosen)} if record.chosen else {})
        | _replacement_as_json(record)
        | (
            {"accounts": accounts.as_json(record.accounts)}
            if record.accounts != NO_ACCOUNTS
            else {}
        ),
        sort_keys=True,
    )


def _replacement_as_json(record: Bootstrap) -> dict[str, object]:
    """Keys that most clusters never need; they are left out while they have no value."""
    said: dict[str, object] = {
        "bump": record.bump,
        "successor": successors.as_json(record.successor) if record.successor else None,
        "retired": [identity.to_hex(one) for one in record.retired],
        "restoredBy": record.restored_by,
        "restoredFrom": record.restored_from,
        "untried": record.untried,
        "crossed": record.crossed,
        "begun": record.begun,
    }
    return {key: value for key, value in said.items() if value}


def load_bootstrap(text: str) -> Bootstrap:
    """The record from the Secret's JSON; raises BadRecord."""
    try:
        raw: dict[str, Any] = loads(text)
        _check_format(raw)
        return Bootstrap(
            cluster_uid=str(raw["clusterUID"]),
            attempt=whole(raw["attempt"]),
            token=str(raw["token"]),
            members=tuple(
                FirstMember(str(name), str(url), identity.from_hex(member))
                for name, url, member in raw["members"]
            ),
            cluster_id=identity.from_hex(raw["clusterID"]),
            latched=truth(raw["latched"]),
            issued=tuple((identity.from_hex(member), str(run)) for member, run in raw["issued"]),
            version=str(raw["version"]),
            oldest=str(raw.get("oldest", "")),
            before=str(raw.get("before", "")),
            crossed=truth(raw.get("crossed", False)),
            untried=truth(raw.get("untried", False)),
            size=whole(raw["size"]),
            epoch=_epoch(raw.get("epoch", FIRST_EPOCH)),
            begun=whole(raw.get("begun", 0)),
            survivor=str(raw.get("survivor", "")),
            declined=truth(raw.get("declined", False)),
            links=load_links(raw["links"]) if "links" in raw else NO_TLS,
            restoring=truth(raw.get("restoring", False)),
            chosen=load_chosen(raw["chosen"]) if "chosen" in raw else None,
            bump=whole(raw.get("bump", 0)),
            successor=successors.from_json(raw["successor"]) if "successor" in raw else None,
            retired=tuple(identity.from_hex(one) for one in raw.get("retired", ())),
            restored_by=str(raw.get("restoredBy", "")),
            restored_from=str(raw.get("restoredFrom", "")),
            accounts=accounts.from_json(raw["accounts"]) if "accounts" in raw else NO_ACCOUNTS,
        )
    except NewerRecord:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise BadRecord(f"the bootstrap record cannot be read: {error}") from error


def _check_format(raw: Mapping[str, Any]) -> None:
    """Refuses a newer format before anything else is read. The first records had no format."""
    written = whole(raw["format"], 1) if "format" in raw else 1
    if written > FORMAT:
        raise NewerRecord(
            f"a newer operator wrote the bootstrap record, in format {written}; this one reads "
            f"formats up to {FORMAT}"
        )


def _epoch(value: object) -> int:
    """A valid epoch. Anything else is refused, because the epoch decides which volumes may run."""
    if type(value) is not int or value < FIRST_EPOCH:
        raise TypeError(f"{value!r:.60} is not an epoch")
    return value
