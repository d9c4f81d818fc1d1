"""Reads a custom resource's raw JSON and collects what is wrong with it, field by field.

The schema of the CRD refuses most mistakes already. This covers what a schema cannot express, and
objects that were stored under an older schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from etcd_stateful import naming

_OBJECT_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LONGEST_NAME: Final = 253

MOST_SHOWN: Final = 20
"""How many problems the message of a refusal lists."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a custom resource: the path of the field, what was found and what to do."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class RefusedObject(ValueError):
    """A custom resource whose spec is not accepted; `problems` names every field."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        shown = [str(problem) for problem in problems[:MOST_SHOWN]]
        if more := len(problems) - len(shown):
            shown.append(f"and {more} more")
        super().__init__("; ".join(shown))
        self.problems = problems


@dataclass(slots=True)
class Reader:
    """A view of the JSON object at `path`. A value of the wrong type is reported as a problem and
    reads as absent."""

    raw: Mapping[str, Any]
    path: str
    problems: list[Problem] = field(default_factory=list)

    def problem(self, key: str, message: str) -> None:
        self.problems.append(Problem(self._at(key), message))

    def _at(self, key: str) -> str:
        return ".".join(part for part in (self.path, key) if part)

    def text(self, key: str, default: str = "") -> str:
        value = self.raw.get(key)
        if value is None:
            return default
        if not isinstance(value, str):
            self.problem(key, f"must be text, found {_shown(value)}")
            return default
        return value

    def name(self, key: str, kind: str) -> str:
        """The name of an object in the same namespace.

        Args:
            kind: of the object, with its article, such as `a Secret`.
        """
        name = self.text(key)
        if name and not is_object_name(name):
            self.problem(key, f"must be the name of {kind} in this namespace, found {name[:60]!r}")
            return ""
        return name

    def choice(self, key: str, of: Sequence[str], default: str = "") -> str:
        """One of the allowed texts; the default if it is absent, or is another text."""
        value = self.text(key) or default
        if value and value not in of:
            self.problem(key, f"must be one of {', '.join(of)}, found {value[:60]!r}")
            return default
        return value

    def flag(self, key: str) -> bool:
        value = self.raw.get(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        self.problem(key, f"must be true or false, found {_shown(value)}")
        return False

    def number(self, key: str, default: int, low: int, high: int) -> int:
        value = self.raw.get(key)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            self.problem(key, f"must be a number from {low} to {high}, found {_shown(value)}")
            return default
        return value

    def object(self, key: str) -> Reader:
        """The object at `key`; an empty one if it is absent."""
        value = self.raw.get(key)
        if value is not None and not isinstance(value, Mapping):
            self.problem(key, f"must be an object, found {_shown(value)}")
            value = None
        return Reader(value or {}, self._at(key), self.problems)

    def has(self, key: str) -> bool:
        return self.raw.get(key) is not None

    def verbatim(self, key: str) -> dict[str, Any] | None:
        """An object of a Kubernetes type, passed on unread: the API server checks it."""
        return dict(self.object(key).raw) if self.has(key) else None

    def texts(self, key: str) -> dict[str, str]:
        """A map of text to text."""
        inner = self.object(key)
        return {name: inner.text(name) for name in inner.raw}

    def listed(self, key: str, of: str) -> tuple[str, ...]:
        """The texts of a list.

        Args:
            of: what the texts are, for messages.
        """
        value = self.raw.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self.problem(key, f"must be a list of {of}, found {repr(value)[:60]}")
            return ()
        return tuple(value)

    def items(self, key: str) -> Iterator[Reader]:
        """The objects of a list."""
        value = self.raw.get(key)
        if value is None:
            return
        if not isinstance(value, Sequence) or isinstance(value, str):
            self.problem(key, f"must be a list, found {_shown(value)}")
            return
        for index, item in enumerate(value):
            if isinstance(item, Mapping):
                yield Reader(item, self._at(f"{key}[{index}]"), self.problems)
            else:
                self.problem(f"{key}[{index}]", f"must be an object, found {_shown(item)}")


def spec_of(body: Mapping[str, Any]) -> Reader:
    """A reader of a custom resource's spec."""
    return Reader({"spec": body.get("spec")}, "").object("spec")


def check_labels(reader: Reader, labels: Iterable[str]) -> None:
    """A user's labels of pods must not be labels that this operator or the coreos operator sets."""
    for key in labels:
        if key == "app" or key.startswith(("etcd_", "app.kubernetes.io/", naming.GROUP)):
            words = "is a label that the operator sets; choose another"
            reader.problem(f"labels[{key[:60]}]", words)


def check_annotations(reader: Reader, annotations: Iterable[str], *others: str) -> None:
    """A user's annotations of pods must not be this operator's own, nor one of `others`."""
    for key in annotations:
        if key in others or key.startswith(naming.GROUP):
            words = "is an annotation that the operator sets; choose another"
            reader.problem(f"annotations[{key[:60]}]", words)


def is_object_name(text: str) -> bool:
    """Whether the text is a DNS subdomain (RFC 1123), the form of most kinds' names."""
    return len(text) <= _LONGEST_NAME and _OBJECT_NAME.fullmatch(text) is not None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
