"""A mutant: a bug that is seeded on purpose.

Each mutant replaces text in one place, and says what harm that would do. If the harm begins with F
and a number, it is a failure that other operators had. `old` must occur exactly once in the file.
If the code changes, the runner reports mutants that no longer apply; fix them along with the code.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """One text replacement in one file."""

    file: str
    """Path below `stateful/etcd_stateful`, or a path that begins with `operator/etcd_operator`."""

    old: str
    new: str
    why: str
    """The harm that it would do."""
