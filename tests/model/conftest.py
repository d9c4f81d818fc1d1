"""Puts `tests` on the path: the model is the package `model` for its tests and its scripts."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
