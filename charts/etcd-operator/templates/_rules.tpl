{{- /*
What the operator may do in a namespace that it serves: the one list, for Roles and for the
ClusterRole alike. Verb by verb, without wildcards. `create` beside `patch` is for server-side apply,
which makes what is not there yet.
*/}}
{{- define "etcd-operator.rules" -}}
# The resources that are asked for. Only their status is ever written, the finalizer of a backup
# with deletionPolicy Delete, and an annotation of each that is begun; an EtcdRestore makes the EtcdCluster that is no longer there, and an
# EtcdBackupSchedule makes EtcdBackups and deletes those of its own that its retention lets go.
- apiGroups: [etcd.database.coreos.com]
  resources: [etcdclusters]
  verbs: [get, list, watch, create]
- apiGroups: [etcd.database.coreos.com]
  resources: [etcdrestores, etcdbackupschedules]
  verbs: [get, list, watch]
- apiGroups: [etcd.database.coreos.com]
  resources: [etcdbackups]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [etcd.database.coreos.com]
  resources: [etcdclusters/status, etcdbackups/status, etcdbackupschedules/status, etcdrestores/status]
  verbs: [patch]
# One StatefulSet for each cluster; garbage collection deletes it with its cluster.
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch]
# The headless Service of the members and the Service for clients.
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch]
# How many members a drain must leave.
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch]
# Who may reach the members.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch]
# The key of the start tickets and the bootstrap record of each cluster; its managed certificates. Those
# that a user provides are only read; where a cluster names one, the names of what changes are watched.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create, patch]
# What is asked of an issuer of cert-manager where spec.TLS.issuerRef names one; of what changes there, the
# names are watched. Where cert-manager is not installed nobody knows the group, and the rule does nothing.
# Issuers themselves are never read.
- apiGroups: [cert-manager.io]
  resources: [certificates]
  verbs: [get, list, watch, create, patch]
# Which pods run and wait. One is patched with a label that says which member serves in it, and where
# its data is in an emptyDir: the record of its member is then on the pod. Deleting one restarts it: its
# StatefulSet makes it again.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, patch, delete]
# Claims are made by the StatefulSet, but for the first of a cluster that is born from a backup: that
# is filled before there is any pod. The operator writes on them which member's data they hold and lets
# them ask for more storage; it deletes one only when its member is gone for good or a person has said so.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, create, patch, delete]
# The Job that runs a survivor's volume once when the quorum is lost and a person asks for a recovery,
# and the Jobs of backups and restores.
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, create, delete]
# What has happened, for `kubectl describe`. `get` is for counting one that comes again.
- apiGroups: [""]
  resources: [events]
  verbs: [get, create, patch]
{{- end }}

{{- /* In the release's own namespace alone: which copy of the operator acts. */}}
{{- define "etcd-operator.leaseRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, create, patch]
{{- end }}
