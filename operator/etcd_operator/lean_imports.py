"""Keeps what nothing here uses out of the operator's memory."""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec


def without_the_synchronous_client() -> None:
    """Enters the package `kubernetes` without running it; before anything of it is imported.

    `kubernetes/__init__.py` (37.0.2) imports its synchronous half, and with that `requests`,
    `oauthlib` and `websocket`: 7 MiB. What is imported from `kubernetes.aio` afterwards finds its
    package as ever.
    """
    if "kubernetes" not in sys.modules and (spec := find_spec("kubernetes")):
        sys.modules["kubernetes"] = module_from_spec(spec)
