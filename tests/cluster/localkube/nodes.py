"""A node: containerd, kubelet, kube-proxy and a policy engine on one machine."""

import json
from pathlib import Path

from localkube import binaries, cgroups, kubernetes, pki, policies, processes
from localkube.addresses import chosen
from localkube.images import Image, pause
from localkube.machines import Machine
from localkube.processes import Process
from localkube.shell import succeeds
from localkube.templates import fill

PORTS = (10250, 10256)  # kubelet, kube-proxy


class Node:
    def __init__(self, index: int, nodes: int) -> None:
        self.index = index
        self.name = f"node-{index}"
        self.cgroup = cgroups.path(self.name)
        self.machine = Machine(self.name, chosen().node(index), nodes, index)

    def up_containers(self) -> None:
        """Starts containerd, to import images before the kubelet looks for them."""
        if self.machine.up():
            cgroups.remove(self.cgroup)  # Left over from pods that ended in a crash.
        cgroups.make(self.cgroup)
        containerd = self._containerd()
        processes.ensure(containerd)
        processes.wait("containerd answers", self._answers, [containerd.name])

    def up_kubelet(self) -> list[str]:
        rest = [self._kubelet(), self._proxy(), policies.engine(self.machine)]
        for process in rest:
            processes.ensure(process)
        policies.hand_over_packets(self.machine)
        return [f"containerd-{self.name}", *(process.name for process in rest)]

    def import_images(self, images: list[Image]) -> None:
        """Imports the images that the node does not have yet."""
        there = self._ctr("images", "list", "--quiet").split()
        for image in images:
            if not set(image.names) <= set(there):
                self._ctr("images", "import", "--local", image.archive)

    def down(self) -> None:
        self.machine.down()
        cgroups.remove(self.cgroup)

    def _answers(self) -> bool:
        return succeeds(*self.machine.enter(binaries.containerd() / "ctr", "version"))

    def _ctr(self, *arguments: str | Path) -> str:
        return self.machine.run(binaries.containerd() / "ctr", "--namespace=k8s.io", *arguments)

    def _containerd(self) -> Process:
        folder = self.machine.folder
        cni = fill(
            "cni.conflist",
            folder / "cni" / "pods.conflist",
            subnet=chosen().pod_subnet(self.index),
            everywhere=chosen().everywhere,
        )
        config = fill(
            "containerd.toml",
            folder / "containerd.toml",
            cni=cni.parent,
            pause=pause().names[0],
            runc=binaries.runc() / "runc",
        )
        program = binaries.containerd() / "containerd"
        search = f"PATH={program.parent}:/usr/sbin:/usr/bin:/sbin:/bin"
        name = f"containerd-{self.name}"
        command = ("env", search, program, "--config", config)
        return self.machine.process(name, *command, files=(config, cni))

    def _kubelet(self) -> Process:
        folder = self.machine.folder
        address = self.machine.address
        user = f"system:node:{self.name}"
        pair = pki.issue(self.name, user, "system:nodes", (self.name, address))
        resolv_conf = folder / "resolv.conf"
        resolv_conf.write_text("")
        config = fill(
            "kubelet.yaml",
            folder / "kubelet.yaml",
            ca=pki.CA.certificate,
            certificate=pair.certificate,
            key=pair.key,
            cgroup=json.dumps(self.cgroup),
            dns=chosen().control,
            resolv_conf=resolv_conf,
        )
        return self.machine.process(
            f"kubelet-{self.name}",
            kubernetes.daemon("kubelet"),
            f"--config={config}",
            f"--hostname-override={self.name}",
            f"--kubeconfig={pki.kubeconfig(folder / 'kubelet.kubeconfig', pair)}",
            f"--node-ip={address}",
            files=(config,),
        )

    def _proxy(self) -> Process:
        pair = pki.issue("kube-proxy", "system:kube-proxy")
        kubeconfig = pki.kubeconfig(self.machine.folder / "kube-proxy.kubeconfig", pair)
        return self.machine.process(
            f"kube-proxy-{self.name}",
            kubernetes.daemon("kube-proxy"),
            f"--kubeconfig={kubeconfig}",
            f"--cluster-cidr={chosen().pods}",
            "--conntrack-max-per-core=0",
            f"--hostname-override={self.name}",
            "--proxy-mode=iptables",
        )
