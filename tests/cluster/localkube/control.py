"""The control plane on its own machine: etcd, the API server, controllers, scheduler and DNS."""

import os
from pathlib import Path

from localkube import binaries, kubernetes, pki, processes
from localkube.addresses import chosen
from localkube.machines import Machine
from localkube.paths import CONFIG, KUBECONFIG, LOGS, STATE
from localkube.processes import Process
from localkube.shell import ClusterError, run, succeeds
from localkube.templates import fill
from localkube.versions import etcd_versions

CLIENT_SPEED = ("--kube-api-qps=500", "--kube-api-burst=1000")
READY = "/readyz"
PORTS = (53, 10257, 10259)  # CoreDNS, controller manager, scheduler
ETCD = "http://127.0.0.1:2379"


def machine(nodes: int) -> Machine:
    return Machine("control", chosen().control, nodes)


def up(nodes: int) -> list[str]:
    """Starts the control plane; returns the names of its processes."""
    control = machine(nodes)
    control.up()
    pki.authority()
    admin = pki.issue("admin", "admin", pki.ADMINS)
    pki.kubeconfig(KUBECONFIG, admin)
    first = [_etcd(control), _api_server(control)]
    for process in first:
        processes.ensure(process)
    names = [process.name for process in first]
    processes.wait("the API server is ready", lambda: answers(READY), names)
    rest = [_controllers(control), _scheduler(control), _volumes(control), _dns(control)]
    for process in rest:
        processes.ensure(process)
    kubectl("apply", "--server-side", "--filename", str(CONFIG / "storageclass.yaml"))
    return names + [process.name for process in rest]


def kubectl(*arguments: str) -> str:
    return run(binaries.kubernetes() / "kubectl", f"--kubeconfig={KUBECONFIG}", *arguments)


def answers(path: str) -> bool:
    """Whether a GET of this path succeeds at the API server."""
    program = binaries.kubernetes() / "kubectl"
    return succeeds(program, f"--kubeconfig={KUBECONFIG}", "get", "--raw", path)


def _etcd(control: Machine) -> Process:
    return control.process(
        "etcd",
        binaries.etcd(etcd_versions()[-1]) / "etcd",
        f"--data-dir={control.folder / 'etcd'}",
        f"--listen-client-urls={ETCD}",
        f"--advertise-client-urls={ETCD}",
        "--listen-peer-urls=http://127.0.0.1:2380",
        "--quota-backend-bytes=4294967296",
    )


def _api_server(control: Machine) -> Process:
    serving = pki.issue(
        "kube-apiserver",
        "kube-apiserver",
        addresses=(*pki.API_NAMES, chosen().api_service, control.address),
    )
    to_kubelet = pki.issue("kube-apiserver-kubelet-client", "kube-apiserver", pki.ADMINS)
    policy = fill("audit-policy.yaml", control.folder / "audit-policy.yaml")
    return control.process(
        "kube-apiserver",
        kubernetes.daemon("kube-apiserver"),
        f"--advertise-address={control.address}",
        "--allow-privileged",
        f"--audit-log-path={LOGS / 'audit.log'}",
        "--audit-log-maxsize=2000",
        "--audit-log-maxbackup=1",
        f"--audit-policy-file={policy}",
        "--authorization-mode=Node,RBAC",
        f"--client-ca-file={pki.CA.certificate}",
        "--enable-admission-plugins=NodeRestriction",
        f"--etcd-servers={ETCD}",
        f"--kubelet-certificate-authority={pki.CA.certificate}",
        f"--kubelet-client-certificate={to_kubelet.certificate}",
        f"--kubelet-client-key={to_kubelet.key}",
        "--kubelet-preferred-address-types=InternalIP",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={pki.SERVICE_ACCOUNTS.certificate}",
        f"--service-account-signing-key-file={pki.SERVICE_ACCOUNTS.key}",
        f"--service-cluster-ip-range={chosen().services}",
        f"--tls-cert-file={serving.certificate}",
        f"--tls-private-key-file={serving.key}",
        files=(policy,),
    )


def _controllers(control: Machine) -> Process:
    return control.process(
        "kube-controller-manager",
        kubernetes.daemon("kube-controller-manager"),
        f"--kubeconfig={_kubeconfig(control, 'system:kube-controller-manager')}",
        "--allocate-node-cidrs=false",
        f"--cluster-signing-cert-file={pki.CA.certificate}",
        f"--cluster-signing-key-file={pki.CA.key}",
        "--leader-elect=false",
        f"--root-ca-file={pki.CA.certificate}",
        f"--service-account-private-key-file={pki.SERVICE_ACCOUNTS.key}",
        "--use-service-account-credentials",
        *CLIENT_SPEED,
    )


def _scheduler(control: Machine) -> Process:
    config = fill(
        "scheduler.yaml",
        control.folder / "scheduler.yaml",
        kubeconfig=_kubeconfig(control, "system:kube-scheduler"),
    )
    return control.process(
        "kube-scheduler",
        kubernetes.daemon("kube-scheduler"),
        f"--config={config}",
        files=(config,),
    )


def _volumes(control: Machine) -> Process:
    return control.process(
        "volume-provisioner",
        binaries.kubernetes() / "volume-provisioner",
        f"--kubeconfig={_kubeconfig(control, 'volume-provisioner', pki.ADMINS)}",
        f"--root={STATE}",
    )


def _dns(control: Machine) -> Process:
    config = fill(
        "Corefile",
        control.folder / "Corefile",
        address=control.address,
        reverse_zone=chosen().reverse_zone,
        kubeconfig=_kubeconfig(control, "coredns", pki.ADMINS),
        **_dns_cache(os.environ.get("DNS_CACHE") or "0"),
    )
    return control.process(
        "coredns", binaries.coredns() / "coredns", "-conf", config, files=(config,)
    )


def _dns_cache(seconds: str) -> dict[str, str]:
    """For how long a name leads where it led, or nowhere, when it was last looked up."""
    if not seconds.isdigit():
        raise ClusterError(f"DNS_CACHE={seconds}: must be a number of seconds")
    if int(seconds) == 0:
        return {"ttl": "5", "cache": ""}
    return {"ttl": seconds, "cache": f"cache {seconds}"}


def _kubeconfig(control: Machine, user: str, group: str = "") -> Path:
    name = user.removeprefix("system:")
    return pki.kubeconfig(control.folder / f"{name}.kubeconfig", pki.issue(name, user, group))
