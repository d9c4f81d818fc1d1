"""Parses the Dockerfile, so that Docker and our own build use one description."""

import json
import shlex
from dataclasses import dataclass, field
from string import Template
from typing import Any

from localkube.shell import ClusterError


@dataclass(frozen=True)
class Recipe:
    """The configuration of the image, and the target of each source."""

    config: dict[str, Any] = field(default_factory=dict)
    copies: dict[str, str] = field(default_factory=dict)


def read(text: str) -> Recipe:
    """The recipe in a Dockerfile, with the defaults of its arguments."""
    recipe, arguments = Recipe(), dict[str, str]()
    for line in text.splitlines():
        word, _, rest = line.strip().partition(" ")
        if not word or word.startswith("#") or word == "FROM":
            continue
        if word == "ARG":
            name, _, default = rest.strip().partition("=")
            arguments[name] = default
            continue
        _apply(recipe, word, rest.strip(), arguments)
    return recipe


def _apply(recipe: Recipe, word: str, rest: str, arguments: dict[str, str]) -> None:
    match word:
        case "COPY":
            source, destination = rest.split()
            recipe.copies[source] = destination.strip("/")
        case "ENV":
            recipe.config.setdefault("Env", []).extend(shlex.split(rest))
        case "LABEL":
            words = shlex.split(Template(rest).substitute(arguments))
            labels = (each.partition("=") for each in words)
            recipe.config.setdefault("Labels", {}).update({key: to for key, _, to in labels})
        case "USER":
            recipe.config["User"] = rest
        case "ENTRYPOINT" | "CMD":
            recipe.config[word.title()] = json.loads(rest)
        case _:
            raise ClusterError(f"Dockerfile: {word} is not known here")
