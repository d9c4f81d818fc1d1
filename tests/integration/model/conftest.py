"""The model is the package `model`; pods without Kubernetes are those of the tests of `start`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "start"))
sys.path.append(str(Path(__file__).parents[2]))
