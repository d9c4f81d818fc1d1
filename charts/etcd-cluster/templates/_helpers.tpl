{{- define "etcd-cluster.name" -}}
{{- default .Release.Name .Values.nameOverride }}
{{- end }}
