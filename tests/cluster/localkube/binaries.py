"""Builds every program of the cluster and of its tests into the cache.

All are built from Go modules, except for one that exists for Node.js only, which comes from npm by
its lock file.
"""

import json
import os
import shutil
from pathlib import Path

from localkube.cache import cached, contents
from localkube.debian import install_packages
from localkube.paths import BUILD, GO, NPM
from localkube.shell import run
from localkube.versions import etcd_versions, kubernetes_version, module_version, pinned

DAEMONS = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubelet",
    "volume-provisioner",
)
RELEASED = ("kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubelet")
FLAGS = ("-trimpath", "-ldflags")
SMALL = "-s -w"
CERT_MANAGER = "github.com/cert-manager/cert-manager"
PROMTOOL = "github.com/prometheus/prometheus/cmd/promtool"


def kubernetes() -> Path:
    """The daemons (links to one binary) and kubectl."""

    def make(out: Path) -> None:
        packages = (".", "k8s.io/kubernetes/cmd/kubectl")
        flags = f"{SMALL} {_stamps(kubernetes_version())}"
        _go("build", *FLAGS, flags, "-o", f"{out}/", *packages, cwd=source)
        for name in DAEMONS:
            (out / name).symlink_to("kubernetes")

    source = GO / "kubernetes"
    return cached(f"kubernetes-{kubernetes_version()}", contents(source), make)


def coredns() -> Path:
    return _own("coredns")


def network_policies() -> Path:
    return _own("network-policies") / "network-policies"


def containerd() -> Path:
    names = ("containerd", "containerd-shim-runc-v2", "ctr")
    packages = [f"github.com/containerd/containerd/v2/cmd/{name}" for name in names]
    return _installed("containerd", *packages)


def runc() -> Path:
    return _installed("runc", "github.com/opencontainers/runc", tags="seccomp", cgo=True)


def helm() -> Path:
    return _installed("helm", "helm.sh/helm/v4/cmd/helm")


def released_kubernetes(version: str) -> Path:
    """The daemons of a release, such as v1.30.14. -mod=mod, because the module replaces others by
    folders that it does not contain."""

    def make(out: Path) -> None:
        module = f"k8s.io/kubernetes@{version}"
        had = json.loads(_go("mod", "download", "-json", module, cwd=out))
        own = json.loads(_go("mod", "edit", "-json", had["GoMod"], cwd=out))
        others = [path for one in own["Replace"] if "/sample-" not in (path := one["Old"]["Path"])]
        their = version.replace("v1.", "v0.", 1)
        _go("mod", "init", "released", cwd=out)
        named = [f"-require={one}@{their}" for one in others]
        named += [f"-replace={one}={one}@{their}" for one in others]
        _go("mod", "edit", f"-go={own['Go']}", f"-require={module}", *named, cwd=out)
        packages = [f"k8s.io/kubernetes/cmd/{name}" for name in RELEASED]
        flags = f"{SMALL} {_stamps(version)}"
        options = ("-mod=mod", "-tags=providerless", *FLAGS, flags)  # Without clients of clouds.
        _go("build", *options, "-o", f"{out}/", *packages, cwd=out)
        for leftover in ("go.mod", "go.sum"):
            (out / leftover).unlink()

    return cached(f"kubernetes-{version}", [version, *RELEASED], make)


def oldest_helm() -> Path:
    """Built with its Kubernetes version, which it uses without a cluster, as in its releases."""

    def make(out: Path) -> None:
        stamps = (f"-X helm.sh/helm/v3/pkg/{one}.k8sVersion" for one in ("chartutil", "lint/rules"))
        flags = " ".join(f"{one}Major=1 {one}Minor={minor}" for one in stamps)
        package = f"helm.sh/helm/v3/cmd/helm@{version}"
        _go("install", *FLAGS, f"{SMALL} {flags}", package, cwd=out, GOBIN=str(out))

    version, minor = pinned("HELM_OLDEST"), pinned("KUBERNETES_OLDEST").split(".")[1]
    return cached(f"helm-{version}", [version, minor], make)


def cert_manager() -> Path:
    """cert-manager's controllers, and its CRDs from the same module."""

    def make(out: Path) -> None:
        _go("build", *FLAGS, SMALL, "-o", f"{out}/", ".", cwd=source)
        module = _go("list", "-m", "-f", "{{.Dir}}", CERT_MANAGER, cwd=source).strip()
        (out / "crds").mkdir()
        for path in (Path(module) / "deploy" / "crds").glob("*.yaml"):
            shutil.copyfile(path, out / "crds" / path.name)

    source = GO / "cert-manager"
    version = module_version("cert-manager", CERT_MANAGER)
    return cached(f"cert-manager-{version}", contents(source), make)


def versitygw() -> Path:
    return _installed("versitygw", "github.com/versity/versitygw/cmd/versitygw")


def azurite() -> Path:
    """The Node.js packages in package-lock.json, verified by hash. Their scripts do not run."""

    def make(out: Path) -> None:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(source / name, out)
        if not (shutil.which("node") and shutil.which("npm")):
            install_packages(("nodejs", "npm"))
        words = ("ci", "--ignore-scripts", "--omit=dev", "--omit=optional")
        run("nice", "npm", *words, "--no-audit", "--no-fund", "--loglevel=error", cwd=out)

    source = NPM / "azurite"
    return cached("azurite", contents(source), make) / "node_modules" / ".bin"


def promtool() -> Path:
    """Prometheus' own judge of alerts. `go install` refuses it, because its module replaces others,
    so one of our modules requires it."""
    return _own("promtool", PROMTOOL) / "promtool"


def kind() -> Path:
    return _installed("kind", "sigs.k8s.io/kind")


def etcd(version: str) -> Path:
    """etcd, etcdctl and etcdutl. `go install` refuses them, so a temporary module requires them."""

    def make(out: Path) -> None:
        modules = [f"go.etcd.io/etcd/{name}/v3" for name in ("server", "etcdctl", "etcdutl")]
        _go("mod", "init", "etcd", cwd=out)
        _go("get", *(f"{module}@v{version}" for module in modules), cwd=out)
        _go("build", *FLAGS, SMALL, "-o", "etcd", modules[0], cwd=out)
        _go("build", *FLAGS, SMALL, "-o", f"{out}/", *modules[1:], cwd=out)
        for leftover in ("go.mod", "go.sum"):
            (out / leftover).unlink()

    return cached(f"etcd-v{version}", [version], make)


def etcd_before() -> Path:
    """etcd and etcdctl of a minor that is not supported, but from which users may move in."""
    return _installed("etcd_before", "go.etcd.io/etcd", "go.etcd.io/etcd/etcdctl")


def build_all() -> None:
    """Builds all programs of the cluster, before any of them starts."""
    for build in (kubernetes, containerd, runc, coredns, network_policies):
        build()


def link_tools() -> None:
    """Links the tools of users into build/bin."""
    newest = etcd(etcd_versions()[-1])
    tools = {"kubectl": kubernetes() / "kubectl", "helm": helm() / "helm"}
    for name in ("etcd", "etcdctl", "etcdutl"):
        tools[name] = newest / name
        tools |= {f"{name}-{version}": etcd(version) / name for version in etcd_versions()}
    _link(tools)


def link_test_tools() -> None:
    """Links what only tests need, and nobody who tries the operator should wait for."""
    tools = {
        "versitygw": versitygw() / "versitygw",
        "azurite-blob": azurite() / "azurite-blob",
        "cert-manager": cert_manager() / "cert-manager",
    }
    for name in ("etcd", "etcdctl"):
        tools[f"{name}-{pinned('ETCD_BEFORE_IS')}"] = etcd_before() / name
    _link(tools)
    replace_link(BUILD / "cert-manager-crds", cert_manager() / "crds")


def link_alert_tools() -> None:
    """Links what judges alerts, which is large and needed in `make verify` alone."""
    _link({"promtool": promtool(), "helm": helm() / "helm"})


def _link(tools: dict[str, Path]) -> None:
    for name, target in tools.items():
        replace_link(BUILD / "bin" / name, target)


def replace_link(link: Path, target: Path) -> None:
    """Replaces a link atomically, as other runs may be using it."""
    link.parent.mkdir(parents=True, exist_ok=True)
    unfinished = link.with_name(f".{link.name}.{os.getpid()}")
    unfinished.symlink_to(target)
    unfinished.replace(link)


def _stamps(version: str) -> str:
    """Linker flags that set Kubernetes' version."""
    major, minor = version.lstrip("v").split(".")[:2]
    stamps = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(f"-X k8s.io/component-base/version.{key}={stamps[key]}" for key in stamps)


def _own(name: str, package: str = ".") -> Path:
    """Builds one of our own modules, or what it requires, with the versions in its go.mod."""

    def make(out: Path) -> None:
        _go("build", *FLAGS, SMALL, "-o", f"{out}/", package, cwd=source)

    source = GO / name
    return cached(name, contents(source), make)


def _installed(name: str, *packages: str, tags: str = "", cgo: bool = False) -> Path:
    version = pinned(name.upper())

    def make(out: Path) -> None:
        wanted = [f"{package}@{version}" for package in packages]
        options = ("-tags", tags, *FLAGS, SMALL)
        _go("install", *options, *wanted, cwd=out, cgo=cgo, GOBIN=str(out))

    return cached(f"{name}-{version}", [version, *packages, tags], make)


def _go(*arguments: str, cwd: Path, cgo: bool = False, **env: str) -> str:
    environment = {**os.environ, "CGO_ENABLED": str(int(cgo)), "GOFLAGS": "-buildvcs=false", **env}
    return run("nice", "go", *arguments, cwd=cwd, env=environment)
