{{- /*
What the operator may do in a namespace that it serves: one list, for Roles and for the ClusterRole.
Verb by verb, without wildcards. `create` beside `patch` is for server-side apply, which creates objects
that do not exist yet.
*/}}
{{- define "etcd-operator.rules" -}}
# The custom resources. The operator writes only their status, the finalizer of a backup with deletionPolicy
# Delete, and an annotation of each backup that has begun. For an EtcdRestore it creates a deleted EtcdCluster
# again; for an EtcdBackupSchedule it creates EtcdBackups, and deletes those that retention does not keep.
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
# How many members a drain must leave running.
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch]
# Who may reach the members.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch]
# The key of the start tickets and the bootstrap record of each cluster; its managed certificates. Secrets that
# a user provides are only read; in namespaces where a cluster names one, the names of changed Secrets are watched.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create, patch]
# Certificates that are requested from an issuer of cert-manager if spec.TLS.issuerRef names one; only the names
# of changed ones are watched. If cert-manager is not installed, the rule has no effect. Issuers are never read.
- apiGroups: [cert-manager.io]
  resources: [certificates]
  verbs: [get, list, watch, create, patch]
# Which pods run and wait. A pod is patched with a label that names its member and, if its data is in an
# emptyDir, with the record of that member. Deleting a pod restarts it: its StatefulSet creates it again.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, patch, delete]
# Claims are created by the StatefulSet, except the first one of a cluster that starts from a backup, which is
# filled before there is any pod. The operator records on each claim which member's data it holds, and requests
# more storage; it deletes a claim only if its member is gone for good, or the user has asked for it.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, create, patch, delete]
# The Job of a recovery, which runs etcd once on the survivor's volume after the user has asked for it, and the
# Jobs of backups and restores.
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, create, delete]
# Events, for `kubectl describe`. `get` is for counting an Event that is repeated.
- apiGroups: [""]
  resources: [events]
  verbs: [get, create, patch]
{{- end }}

{{- /* Only in the release's own namespace: which copy of the operator acts. Leases of others are not touched;
of a Lease that is created, RBAC does not know the name. */}}
{{- define "etcd-operator.leaseRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "etcd-operator.fullname" . | quote }}]
  verbs: [get, patch]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
{{- end }}
