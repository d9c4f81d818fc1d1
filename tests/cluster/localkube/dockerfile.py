"""What the Dockerfile says: one description for Docker and for our own builds."""

import json
import shlex
from dataclasses import dataclass, field
from typing import Any

from localkube.shell import ClusterError


@dataclass(frozen=True)
class Recipe:
    """The image's configuration, and where in it each source goes."""

    config: dict[str, Any] = field(default_factory=dict)
    copies: dict[str, str] = field(default_factory=dict)


def read(text: str) -> Recipe:
    recipe = Recipe()
    for line in text.splitlines():
        word, _, rest = line.strip().partition(" ")
        if not word or word.startswith("#") or word in ("ARG", "FROM"):
            continue
        _apply(recipe, word, rest.strip())
    return recipe


def _apply(recipe: Recipe, word: str, rest: str) -> None:
    match word:
        case "COPY":
            source, destination = rest.split()
            recipe.copies[source] = destination.strip("/")
        case "ENV":
            recipe.config.setdefault("Env", []).extend(shlex.split(rest))
        case "USER":
            recipe.config["User"] = rest
        case "ENTRYPOINT" | "CMD":
            recipe.config[word.title()] = json.loads(rest)
        case _:
            raise ClusterError(f"Dockerfile: {word} is not known here")
