"""Every name, label, annotation, port and path of a cluster's objects.

It has no heavy imports, because every pod start waits until `start` has loaded it.
"""

from __future__ import annotations

import hashlib

GROUP = "etcd.database.coreos.com"
VERSION = "v1beta2"
API_VERSION = f"{GROUP}/{VERSION}"
CLUSTER_KIND = "EtcdCluster"
BACKUP_KIND = "EtcdBackup"
RESTORE_KIND = "EtcdRestore"
SCHEDULE_KIND = "EtcdBackupSchedule"

CLIENT_PORT = 2379
PEER_PORT = 2380
START_PORT = 2378
METRICS_PORT = 2381

LONGEST_IN_JOB = 42
"""Characters of a backup's name in the name of its Job, which may have 63: `-backup-` and the run
take up to 21."""

MAX_SIZE = 7
"""The coreos operator's limit. etcd's FAQ advises against more than seven voters."""

START_CONTAINER = "start"
ETCD_CONTAINER = "etcd"
DATA_VOLUME = "data"
KEY_VOLUME = "start-key"

VOLUME_PATH = "/var/etcd"
DATA_DIRECTORY = f"{VOLUME_PATH}/data"
KEY_FOLDER = "/etc/etcd-start"
KEY_FILE = f"{KEY_FOLDER}/key"

PEER_TLS = "/etc/etcdtls/member/peer-tls"
SERVER_TLS = "/etc/etcdtls/member/server-tls"
"""Where members find their certificates: folders and file names of the coreos operator."""

CONFIG_PATH = f"{DATA_DIRECTORY}/member/wal/../../../etcd.yaml"
"""etcd's configuration file. Once there is a WAL, this path leads to no configuration that could
bootstrap.

Before there is a WAL, `wal` is a symbolic link, and the path leads to the configuration of the
ticket. etcd replaces the link with a directory when it creates its WAL; from then on the path leads
to a configuration that only works with an existing WAL. If `data`, `member` or `wal` is gone, the
path cannot be opened at all. So a container that restarts on an emptied volume cannot start etcd.
"""

# Annotations of claims: the record of which member the volume belongs to.
CLUSTER_UID = f"{GROUP}/cluster-uid"
CLAIM_UID = f"{GROUP}/claim-uid"
MEMBER_ID = f"{GROUP}/member-id"
"""The ID of the member, as etcd prints it: `8e9e05c52164694d`.

A label of pods has the same name. It is for people and for the kubelet (`membership.labels`); the
operator never decides anything by it."""

TRUSTS = f"{GROUP}/trusts"
"""Annotation of a pod: which authorities its etcd was started to trust, `peer-client-restarts`, as
`certificates.trust_of` names them; a user's authorities of peers by their own names. Once etcd's
container has restarted, it has read its files again, and the note counts no more. Written with the
label above, where no file that the pod mounts says it."""

CLUSTER_ID = f"{GROUP}/cluster-id"
EPOCH = f"{GROUP}/epoch"

STORAGE = f"{GROUP}/storage"
"""On claims: the last size that the operator requested. A person may have requested more since."""

PEER_SCHEME = f"{GROUP}/peer-scheme"
"""On claims: `https` if the member's peer URL uses it. etcd keeps that URL in its data, so it
outlives every other record of it."""

LINKS_ANNOTATION = f"{GROUP}/links"
"""On the StatefulSet: the TLS of its pods for peers and clients; absent if both are plaintext."""

BACKUP = f"{GROUP}/backup"
"""Annotation of a backup's Job and pods: the name of the EtcdBackup, too long for a label."""

RESTORE = f"{GROUP}/restore"
"""Like `BACKUP`, for an EtcdRestore."""

OPERATOR_IMAGE = f"{GROUP}/operator-image"
"""On a Job: the operator image that it was made with, even if admission has replaced it."""

SURVIVOR = f"{GROUP}/survivor"
"""On the Job of a recovery or a restore: the pod whose volume it works on."""

SCHEDULE = f"{GROUP}/schedule"
"""Label of an EtcdBackup: the EtcdBackupSchedule that made it."""

SCHEDULE_UID = f"{GROUP}/schedule-uid"
"""Label of an EtcdBackup: the UID of that schedule, to tell it from an earlier one of its name."""

SCHEDULED_TIME = f"{GROUP}/scheduled-time"
"""Annotation of an EtcdBackup: the time at which the schedule was due, RFC 3339."""

LET_GO = f"{GROUP}/let-go"
"""Annotation of an EtcdBackup that its schedule is about to delete, so that no new run begins."""

BEGUN_AS = f"{GROUP}/begun-as"
"""Annotation of an EtcdBackup without an interval: the UID that it had when its first Job was made.
Backup tools that recreate an object keep its annotations, but neither its UID nor its status."""

RESTORED_BY = f"{GROUP}/restored-by"
"""On an EtcdCluster: UID of the EtcdRestore that made it."""

RESTORED_FROM = f"{GROUP}/restored-from"
"""On such an EtcdCluster: name of the EtcdBackup, if the EtcdRestore named one."""

RESTORED_SHA256 = f"{GROUP}/restored-sha256"
"""On such an EtcdCluster: the SHA-256 of what that EtcdBackup had stored, a space, and where. The
restore takes no other file from there."""

WRITTEN = f"{GROUP}/written"
"""On a Secret with an issuer's certificate: when the operator copied it there, RFC 3339."""

VERSION_ANNOTATION = f"{GROUP}/etcd-version"
"""On the StatefulSet: the etcd version that its pods should run. Only a version change moves it."""

ASSUMED_ANNOTATION = f"{GROUP}/etcd-version-assumed"
"""On the StatefulSet: the same version, if no record told which one the members ran, and no quorum
has answered with it yet."""

BEGUN_ANNOTATION = f"{GROUP}/epoch-begun"
"""On the StatefulSet: an epoch above that of its pods, which a lost recovery has begun."""

TOUCHED = f"{GROUP}/touched"
"""On the StatefulSet: when the operator last made its controller sync it again, RFC 3339. On a pod:
that its kubelet was made to."""

SPEC_HASH = f"{GROUP}/spec-hash"
"""On pods: a hash of the parts of the spec that they were made from. An operator that renders the
same spec differently keeps the hash, so that an upgrade of the operator alone restarts no pod."""

ARGO_CD_OPTIONS = "argocd.argoproj.io/sync-options"
"""On claims: `KEPT`. Where Argo CD tracks objects by `LABEL_INSTANCE`, the default before 3.0, it
would delete the claims of a deleted cluster for an Application of that name."""

KEPT = "Prune=false,Delete=false"

LABEL_NAME = "app.kubernetes.io/name"
LABEL_INSTANCE = "app.kubernetes.io/instance"
LABEL_COMPONENT = "app.kubernetes.io/component"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
LABEL_PART_OF = "app.kubernetes.io/part-of"
MANAGER = "etcd-operator"


def pod(cluster: str, ordinal: int) -> str:
    """Name of the pod, which is also the etcd member's name."""
    return f"{cluster}-{ordinal}"


def claim(cluster: str, ordinal: int) -> str:
    """Name that the StatefulSet controller gives to the claim of this ordinal."""
    return claim_of(pod(cluster, ordinal))


def claim_of(pod_name: str) -> str:
    """The same, by the name of the pod."""
    return f"{DATA_VOLUME}-{pod_name}"


def ordinal_of(cluster: str, pod_name: str) -> int | None:
    """The ordinal in a pod's or member's name; None for a name that is not this cluster's."""
    prefix, _, digits = pod_name.rpartition("-")
    if prefix != cluster or not digits.isascii() or not digits.isdigit() or len(digits) > 9:
        return None
    return int(digits) if str(int(digits)) == digits else None


def headless_service(cluster: str) -> str:
    return cluster


def client_service(cluster: str) -> str:
    return f"{cluster}-client"


def disruption_budget(cluster: str) -> str:
    return cluster


def network_policy(cluster: str) -> str:
    return cluster


def recovery_job(cluster: str) -> str:
    """Name of the Job that makes a cluster of one from the survivor; at most 61 characters."""
    return f"{cluster}-recovery"


def restore_job(cluster: str) -> str:
    """Name of the Job that fills the first volume from a backup; at most 60 characters."""
    return f"{cluster}-restore"


def backup_job(backup: str, run: str) -> str:
    """Name of the Job of one run of an EtcdBackup; at most 63 characters.

    The pod's name and labels are derived from it. So a long name, or one with dots, is shortened
    and made unique by a digest.
    """
    short = backup.replace(".", "-")
    if short != backup or len(short) > LONGEST_IN_JOB:
        digest = hashlib.sha256(backup.encode()).hexdigest()[:8]
        short = f"{short[: LONGEST_IN_JOB - 9].rstrip('-')}-{digest}"
    return f"{short}-backup-{run}"


def scheduled_backup(schedule: str, moment: int) -> str:
    """Name of the EtcdBackup for one scheduled minute; at most 61 characters."""
    return f"{schedule}-{moment // 60}"


def start_secret(cluster: str) -> str:
    """Name of the Secret with the start tickets' key and the bootstrap record."""
    return f"{cluster}-start"


def peer_authority(cluster: str) -> str:
    """Name of the Secret with the authority for peer certificates."""
    return f"{cluster}-peer-ca"


def client_authority(cluster: str) -> str:
    """Name of the Secret with the authority for server and client certificates."""
    return f"{cluster}-client-ca"


def peer_certificate(cluster: str) -> str:
    return f"{cluster}-peer-tls"


def server_certificate(cluster: str) -> str:
    return f"{cluster}-server-tls"


def operator_certificate(cluster: str) -> str:
    return f"{cluster}-operator-tls"


def client_certificate(cluster: str) -> str:
    """Name of the Secret with the client certificate for applications."""
    return f"{cluster}-client-tls"


def issued(secret: str) -> str:
    """Name of the cert-manager Certificate, and of the Secret that cert-manager writes.

    Args:
        secret: our own Secret, into which the operator copies it.
    """
    return f"{secret.removesuffix('-tls')}-issued"


def host(cluster: str, namespace: str, ordinal: int, domain: str = "") -> str:
    """DNS name of a pod; `domain` is `spec.pod.ClusterDomain`, which starts with a dot."""
    return f"{pod(cluster, ordinal)}.{headless_service(cluster)}.{namespace}.svc{domain}"


def split_url(url: str) -> tuple[str, str]:
    """Scheme and `host:port` of a member's URL. A member that was added by hand may have a URL that
    etcd accepts and for which the standard library raises."""
    scheme, _, rest = url.partition("://")
    return scheme.lower(), rest.partition("/")[0]


def selector(cluster: str) -> dict[str, str]:
    """Labels that select a cluster's pods. A user's labels are never among them."""
    return {LABEL_NAME: "etcd"} | ours(cluster)


def ours(cluster: str) -> dict[str, str]:
    """Labels of all objects of a cluster, including the pods of its Jobs."""
    return {LABEL_INSTANCE: cluster, LABEL_MANAGED_BY: MANAGER}


def labels(cluster: str) -> dict[str, str]:
    """Labels on every object of a cluster, with the coreos operator's `app` and `etcd_cluster`."""
    return selector(cluster) | {
        LABEL_COMPONENT: "etcd",
        LABEL_PART_OF: cluster,
        "app": "etcd",
        "etcd_cluster": cluster,
    }
