"""Installs the Debian packages that the cluster needs and that are missing."""

import os
import shutil

from localkube.shell import ClusterError, run, step, succeeds

NODE_PACKAGES = (
    "ca-certificates",
    "conntrack",
    "containernetworking-plugins",
    "debootstrap",
    "gcc",
    "iproute2",
    "iptables",
    "libc6-dev",
    "libseccomp-dev",
    "openssl",
    "pkg-config",
    "tini",
    "util-linux",
)


def install_packages(packages: tuple[str, ...] = NODE_PACKAGES) -> None:
    missing = [package for package in packages if not _installed(package)]
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise ClusterError(f"install these first, as Debian names them: {' '.join(missing)}")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with step(f"install {' '.join(missing)}"):
        run("apt-get", "update", env=env)
        run("apt-get", "install", "--yes", "--no-install-recommends", *missing, env=env)


def _installed(package: str) -> bool:
    return succeeds(
        "sh", "-c", f"dpkg-query -Wf '${{db:Status-Status}}' {package} | grep -qx installed"
    )
