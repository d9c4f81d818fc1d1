"""Keeps modules that the operator does not use out of its memory."""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec

_ENTERED = ("kubernetes", "kubernetes.aio", "kubernetes.aio.config", "kubernetes.aio.utils")
"""Packages whose `__init__` imports everything in them (37.0.2): the synchronous client with
`requests`, `oauthlib` and `websocket`; the generated client with `pydantic`; the dynamic client."""

_ABSENT = "kubernetes.client"
"""kopf supports this package's models if it can import them. The operator does not use them."""


def skip_unused_packages() -> None:
    """Puts the packages into `sys.modules` without running them.

    Call this before any of them is imported. Their submodules can still be imported one by one.
    """
    for name in _ENTERED:
        if name not in sys.modules and (spec := find_spec(name)):
            sys.modules[name] = module_from_spec(spec)
    sys.modules.setdefault(_ABSENT, None)  # type: ignore[arg-type]
