{{- define "etcd-cluster.name" -}}
{{- default .Release.Name .Values.nameOverride }}
{{- end }}

{{- define "etcd-cluster.labels" -}}
app.kubernetes.io/name: etcd
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}
