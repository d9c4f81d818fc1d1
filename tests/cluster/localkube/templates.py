"""Fills values into the files in config/."""

from pathlib import Path
from string import Template

from localkube.paths import CONFIG


def fill(name: str, target: Path, **values: object) -> Path:
    text = Template((CONFIG / name).read_text()).substitute(values)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    return target
