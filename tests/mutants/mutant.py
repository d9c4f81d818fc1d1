"""What a seeded fault is.

Each is seeded by hand in one place, with the harm that it would do; those whose harm begins with F
and a number are failures that other operators had. `old` stands exactly once in the file. When the
code moves on, the runner says which of them no longer apply; mend them along with the code.
"""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    file: str
    """Below `stateful/etcd_stateful`; of the shell's with `operator/etcd_operator` before it."""

    old: str
    new: str
    why: str
