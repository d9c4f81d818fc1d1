"""Keeps what nothing here uses out of the operator's memory."""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec

_ENTERED = ("kubernetes", "kubernetes.aio", "kubernetes.aio.config", "kubernetes.aio.utils")
"""Packages that import all that is in them by themselves (37.0.2): the synchronous half with
`requests`, `oauthlib` and `websocket`; the generated client with `pydantic`; the dynamic one."""

_ABSENT = "kubernetes.client"
"""kopf takes its models into account where it finds them; there are none here."""


def skip_unused_packages() -> None:
    """Puts the packages into `sys.modules` without running them.

    To be called before any of them is imported. Their modules can still be imported one by one.
    """
    for name in _ENTERED:
        if name not in sys.modules and (spec := find_spec(name)):
            sys.modules[name] = module_from_spec(spec)
    sys.modules.setdefault(_ABSENT, None)  # type: ignore[arg-type]
