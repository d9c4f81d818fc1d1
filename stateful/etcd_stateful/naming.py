"""Every name, label, annotation, port and path that a cluster's objects carry.

Kept free of heavy imports: the init container `start` loads this module on every pod start.
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
"""Of 63: the rest is `-backup-` and the run, of at most 13 characters."""

MAX_SIZE = 7
"""coreos's limit; etcd's FAQ discourages more than seven voters."""

START_CONTAINER = "start"
ETCD_CONTAINER = "etcd"
DATA_VOLUME = "data"
KEY_VOLUME = "start-key"

VOLUME_PATH = "/var/etcd"
DATA_DIRECTORY = f"{VOLUME_PATH}/data"
KEY_FILE = "/etc/etcd-start/key"

PEER_TLS = "/etc/etcdtls/member/peer-tls"
SERVER_TLS = "/etc/etcdtls/member/server-tls"
"""Where members find their certificates: coreos's folders, with coreos's names of the files."""

CONFIG_PATH = f"{DATA_DIRECTORY}/member/wal/../../../etcd.yaml"
"""Leads to no configuration that could bootstrap once there has been a log.

Until there is one, `wal` is a link that makes the path lead to the ticket's configuration; etcd
itself puts a folder in its place with its first log, and from then on the path leads to one that
can only go on with a log. With `data`, `member` or `wal` gone it cannot be opened at all. So a
container that is restarted on an emptied volume cannot start etcd.
"""

# Annotations of claims: the record of which member the volume belongs to.
CLUSTER_UID = f"{GROUP}/cluster-uid"
CLAIM_UID = f"{GROUP}/claim-uid"
MEMBER_ID = f"{GROUP}/member-id"
"""The label of a pod as well: the member that serves in it, as etcd itself names it,
`8e9e05c52164694d`. That one is for people and for the kubelet (`membership.labels`); nothing is
ever decided by it."""

TRUSTS = f"{GROUP}/trusts"
"""Annotation of a pod: which authorities its etcd was started to trust, `peer-client`, as
`certificates.trust_of` names them. Written with the label above, where no file that the pod mounts
says it."""

CLUSTER_ID = f"{GROUP}/cluster-id"
EPOCH = f"{GROUP}/epoch"

STORAGE = f"{GROUP}/storage"
"""On claims: the size that the operator has last had it ask for. A person may ask for more."""

PEER_SCHEME = f"{GROUP}/peer-scheme"
"""On claims: `https` where the member's peer URL has it. The URL is in the data, and outlives every
other record of it."""

LINKS_ANNOTATION = f"{GROUP}/links"
"""On the StatefulSet: how its pods talk to each other and to clients, unless it is in plaintext."""

BACKUP = f"{GROUP}/backup"
"""On a backup's Job and pods: the EtcdBackup, whose name may be longer than a label."""

RESTORE = f"{GROUP}/restore"
"""As `BACKUP`, of an EtcdRestore."""

OPERATOR_IMAGE = f"{GROUP}/operator-image"
"""On a Job: the operator's image that it was made with, whatever admission made of it."""

SCHEDULE = f"{GROUP}/schedule"
"""Label of an EtcdBackup: the EtcdBackupSchedule that made it."""

SCHEDULE_UID = f"{GROUP}/schedule-uid"
"""Label of an EtcdBackup: that schedule's UID. One made again under the name has another."""

SCHEDULED_TIME = f"{GROUP}/scheduled-time"
"""Annotation of an EtcdBackup: the moment of the schedule that it is of, RFC 3339."""

LET_GO = f"{GROUP}/let-go"
"""Annotation of an EtcdBackup that its schedule is about to delete: it is not begun again."""

BEGUN_AS = f"{GROUP}/begun-as"
"""Annotation of a single EtcdBackup: the UID that it had when its first Job was made. Tools that
bring an object back bring its annotations back, and neither its UID nor its status."""

RESTORED_BY = f"{GROUP}/restored-by"
"""On an EtcdCluster: UID of the EtcdRestore that made it."""

WRITTEN = f"{GROUP}/written"
"""On a Secret with what an issuer has made: when the operator wrote it there, RFC 3339."""

VERSION_ANNOTATION = f"{GROUP}/etcd-version"
"""On the StatefulSet: the version its pods are meant to run, until a version change moves it."""

TOUCHED = f"{GROUP}/touched"
"""On the StatefulSet: when its controller was last made to look again, RFC 3339."""

SPEC_HASH = f"{GROUP}/spec-hash"
"""On the pods: what of the spec they were made from. Another operator that renders it differently
makes another template with the same one, and no pod is restarted for that alone."""

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
    """Name that the StatefulSet controller gives to the ordinal's claim."""
    return f"{DATA_VOLUME}-{pod(cluster, ordinal)}"


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
    """Name of the Job that makes a cluster of one out of a survivor; at most 61 characters."""
    return f"{cluster}-recovery"


def restore_job(cluster: str) -> str:
    """Name of the Job that fills the first volume from a backup; at most 60 characters."""
    return f"{cluster}-restore"


def backup_job(backup: str, run: str) -> str:
    """Name of the Job of one run of an EtcdBackup; at most 63 characters.

    The pod's name and labels are made of it, so what is long or has dots is cut and told apart by a
    digest.
    """
    short = backup.replace(".", "-")
    if short != backup or len(short) > LONGEST_IN_JOB:
        digest = hashlib.sha256(backup.encode()).hexdigest()[:8]
        short = f"{short[: LONGEST_IN_JOB - 9].rstrip('-')}-{digest}"
    return f"{short}-backup-{run}"


def scheduled_backup(schedule: str, moment: int) -> str:
    """Name of the EtcdBackup of one moment, a whole minute; at most 61 characters."""
    return f"{schedule}-{moment // 60}"


def start_secret(cluster: str) -> str:
    """Name of the Secret with the key of the start tickets and the bootstrap record."""
    return f"{cluster}-start"


def peer_authority(cluster: str) -> str:
    """Name of the Secret with the authority that signs members' certificates for each other."""
    return f"{cluster}-peer-ca"


def client_authority(cluster: str) -> str:
    """Name of the Secret with the authority that signs what clients and members show each other."""
    return f"{cluster}-client-ca"


def peer_certificate(cluster: str) -> str:
    return f"{cluster}-peer-tls"


def server_certificate(cluster: str) -> str:
    return f"{cluster}-server-tls"


def operator_certificate(cluster: str) -> str:
    return f"{cluster}-operator-tls"


def client_certificate(cluster: str) -> str:
    """Name of the Secret for applications."""
    return f"{cluster}-client-tls"


def issued(secret: str) -> str:
    """Name of the Certificate, and of the Secret that cert-manager writes it into, whose content
    comes into this Secret of ours."""
    return f"{secret.removesuffix('-tls')}-issued"


def host(cluster: str, namespace: str, ordinal: int, domain: str = "") -> str:
    """DNS name of a pod; `domain` is coreos's ClusterDomain, which starts with a dot."""
    return f"{pod(cluster, ordinal)}.{headless_service(cluster)}.{namespace}.svc{domain}"


def split_url(url: str) -> tuple[str, str]:
    """Scheme and `host:port` of a member's URL. People may add members by URLs that etcd takes, and
    for which the standard library raises."""
    scheme, _, rest = url.partition("://")
    return scheme.lower(), rest.partition("/")[0]


def selector(cluster: str) -> dict[str, str]:
    """Labels that select a cluster's pods; never a user's labels."""
    return {LABEL_NAME: "etcd"} | ours(cluster)


def ours(cluster: str) -> dict[str, str]:
    """Labels of all that is a cluster's, the pods of its Jobs too."""
    return {LABEL_INSTANCE: cluster, LABEL_MANAGED_BY: MANAGER}


def labels(cluster: str) -> dict[str, str]:
    """Labels on every object of a cluster, coreos's `app` and `etcd_cluster` among them."""
    return selector(cluster) | {
        LABEL_COMPONENT: "etcd",
        LABEL_PART_OF: cluster,
        "app": "etcd",
        "etcd_cluster": cluster,
    }
