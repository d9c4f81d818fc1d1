"""The operator's image, in layers: a Debian base, the locked dependencies, and our own code.

It is assembled from the Dockerfile's instructions without a builder, in a second or two. A builder
without a daemon took ten times as long for the same layers, and left mounts and folders behind.
"""

import os
import shutil
import sys
from pathlib import Path

from localkube import debian, dockerfile
from localkube.cache import cached, contents, key
from localkube.images import Image
from localkube.oci import write_archive, write_layer
from localkube.paths import BUILD, REPOSITORY
from localkube.shell import ClusterError, run, step
from localkube.versions import pinned

NAME = "localhost/etcd-operator"
DEPENDENCIES = "build/image/dependencies"
CODE = "build/image/code"
ARCHIVES = BUILD / "image" / "archives"
LOCK = REPOSITORY / "requirements" / "operator.lock"
DOCKERFILE = REPOSITORY / "Dockerfile"
PACKAGES = (REPOSITORY / "operator" / "etcd_operator", REPOSITORY / "stateful" / "etcd_stateful")
BASE_PYTHON = "3.11"
BASE_ENV = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
INSTALL = (
    *("-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:"),
    f"--python-version={BASE_PYTHON}",
    # Files that pip compiles contain the times of their sources, which the layer does not keep.
    "--no-compile",
)
COMPILE = ("-m", "compileall", "-q", "-j1", "--invalidation-mode=unchecked-hash")
"""In one process, because the constants in a compiled file depend on files compiled earlier."""

UNUSED = (
    "var/cache",
    "var/lib/apt",
    "var/log",
    "usr/share/doc",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/man",
)


def assemble() -> Image:
    """Builds the image only if its parts have changed; the tag is a hash of them."""
    recipe = dockerfile.read(DOCKERFILE.read_text())
    places = {source: recipe.copies.pop(source) for source in (DEPENDENCIES, CODE)}
    if recipe.copies:
        raise ClusterError(f"Dockerfile: nobody makes {', '.join(recipe.copies)}")
    base, packages = _base(), dependencies(places[DEPENDENCIES])
    recipe.config["Env"] = BASE_ENV + recipe.config.get("Env", [])
    parts = [base.name, packages.name, repr(recipe), places[CODE], *_prepare_code()]
    tag = key(parts)
    image = Image((f"{NAME}:{tag}",), ARCHIVES / f"{tag}.tar")
    if not image.archive.exists():
        with step(f"assemble {image.names[0]}"):
            shutil.rmtree(ARCHIVES, ignore_errors=True)
            ARCHIVES.mkdir(parents=True)
            code = ARCHIVES / "code.layer"
            write_layer(code, {places[CODE]: REPOSITORY / CODE})
            layers = [base / "layer.tar", packages / "layer.tar", code]
            write_archive(unfinished := ARCHIVES / "new", image.names, layers, recipe.config)
            unfinished.rename(image.archive)
    return image


def prepare_context() -> None:
    """Collects what the Dockerfile copies, for a builder that uses the Dockerfile itself."""
    shutil.rmtree(REPOSITORY / DEPENDENCIES, ignore_errors=True)
    shutil.copytree(dependencies("app") / "files", REPOSITORY / DEPENDENCIES)
    _prepare_code()
    # A builder keeps the modes. With a umask such as 077 the image's user could not read anything.
    for folder in (REPOSITORY / DEPENDENCIES, REPOSITORY / CODE):
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


def build_with_buildah() -> None:
    """Builds the Dockerfile with buildah, in a mount namespace, because it leaves mounts behind."""
    debian.install_packages(("buildah", "debootstrap"))
    prepare_context()
    own = BUILD / "image" / "buildah"
    own.mkdir(parents=True, exist_ok=True)
    base = own / "base.tar"
    write_archive(base, [f"{NAME}-base"], [_base() / "layer.tar"], {"Env": BASE_ENV})
    storage = (f"--root={own / 'root'}", f"--runroot={own / 'run'}")
    options = ("--isolation=chroot", f"--cni-config-dir={own}", f"--file={DOCKERFILE}")
    argument = f"--build-arg=BASE=oci-archive:{base}"
    with step("build the Dockerfile with buildah"):
        run("unshare", "--mount", "buildah", *storage, "bud", *options, argument, REPOSITORY)
    shutil.rmtree(own)


def _prepare_code() -> list[str | bytes]:
    """Compiles our packages; returns their sources as parts of the key, as compiled files vary."""
    code = REPOSITORY / CODE
    shutil.rmtree(code, ignore_errors=True)
    for package in PACKAGES:
        shutil.copytree(package, code / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    sources = contents(code)
    _compile(code)
    return sources


def dependencies(place: str) -> Path:
    parts = [LOCK.read_bytes(), _python(), place, *INSTALL, *COMPILE]
    return cached("operator-dependencies", parts, lambda out: make_dependencies(out, place))


def make_dependencies(out: Path, place: str) -> None:
    """Installs the locked packages reproducibly."""
    files = out / "files"
    run(_python(), *INSTALL, f"--target={files}", f"--requirement={LOCK}")
    _compile(files)
    write_layer(out / "layer.tar", {place: files})


def _base() -> Path:
    """Debian's Python and little else. File times stay, as compiled modules depend on them."""
    release = pinned("DEBIAN")

    def make(out: Path) -> None:
        root = out / "root"
        packages = "--include=ca-certificates,python3"
        run("unshare", "--mount", "debootstrap", "--variant=minbase", packages, release, root)
        for folder in UNUSED:
            shutil.rmtree(root / folder, ignore_errors=True)
        write_layer(out / "layer.tar", {each.name: each for each in root.iterdir()}, as_is=True)
        shutil.rmtree(root)

    return cached("operator-base", [release, *UNUSED], make)


def _compile(folder: Path) -> None:
    """Compiles ahead of time, because `start` must be fast. The compiled files are never checked
    against their sources, as the image is read-only."""
    unseeded = {**os.environ, "PYTHONHASHSEED": "0"}  # It decides the order of constant sets.
    run(_python(), *COMPILE, "-s", folder, folder, env=unseeded)


def _python() -> str:
    """The Python that compiles, the same for make and for tests. Each patch release compiles some
    lines differently, and files of another minor would not be used."""
    return shutil.which(f"python{BASE_PYTHON}") or sys.executable
