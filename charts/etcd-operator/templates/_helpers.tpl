{{- define "etcd-operator.name" -}}
{{- regexReplaceAll "[-.]+$" (default .Chart.Name .Values.nameOverride | trunc 63) "" }}
{{- end }}

{{- /* Also the name of a Service, which must not contain a dot or begin with a digit. */}}
{{- define "etcd-operator.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- $full := printf "%s-%s" .Release.Name $name }}
{{- if .Values.fullnameOverride }}
{{- $full = .Values.fullnameOverride }}
{{- else if contains $name .Release.Name }}
{{- $full = .Release.Name }}
{{- end }}
{{- $full = regexReplaceAll "^([0-9])" (replace "." "-" $full) "op-${1}" }}
{{- regexReplaceAll "-+$" (trunc 52 $full) "" }}
{{- end }}

{{- define "etcd-operator.selector" -}}
app.kubernetes.io/name: {{ include "etcd-operator.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- /* The same as one environment variable: network policies let in pods with these labels. */}}
{{- define "etcd-operator.podLabels" -}}
{{- $labels := include "etcd-operator.selector" . | fromYaml }}
{{- $pairs := list }}
{{- range $key, $value := $labels }}
{{- $pairs = append $pairs (printf "%s=%s" $key $value) }}
{{- end }}
{{- join "," $pairs }}
{{- end }}

{{- define "etcd-operator.labels" -}}
{{ include "etcd-operator.selector" . }}
app.kubernetes.io/component: operator
app.kubernetes.io/part-of: etcd-operator
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* Merges the chart's own labels or annotations with the user's. For a key that is in both, the chart's
value counts: a key that appears twice would make the object invalid. */}}
{{- define "etcd-operator.merged" -}}
{{- merge (dict) (first .) (default dict (last .)) | toYaml }}
{{- end }}

{{- define "etcd-operator.serviceAccount" -}}
{{- $made := include "etcd-operator.fullname" . }}
{{- default (ternary $made "default" .Values.serviceAccount.create) .Values.serviceAccount.name }}
{{- end }}

{{- define "etcd-operator.image" -}}
{{- $repository := required (include "etcd-operator.noImage" .) .Values.image.repository }}
{{- if .Values.image.digest }}
{{- printf "%s@%s" $repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{- define "etcd-operator.noImage" -}}
image.repository is not set, as no image is published yet. Build one from the project's
Dockerfile and push it to where your nodes can pull it from (README.md, "Install"),
then set it: --set image.repository=registry.example.com/etcd-operator
{{- end }}

{{- /* The namespaces that are served, separated by commas; * is all of them. */}}
{{- define "etcd-operator.namespaces" -}}
{{- default (list .Release.Namespace) .Values.watchNamespaces | join "," }}
{{- end }}

{{- /* The environment variables that the chart sets itself. */}}
{{- define "etcd-operator.env" -}}
- name: WATCH_NAMESPACES
  value: {{ include "etcd-operator.namespaces" . | quote }}
- name: POD_NAME
  valueFrom:
    fieldRef:
      fieldPath: metadata.name
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
- name: POD_UID
  valueFrom:
    fieldRef:
      fieldPath: metadata.uid
- name: OPERATOR_IMAGE
  value: {{ include "etcd-operator.image" . | quote }}
{{- if .Values.networkPolicies.create }}
- name: OPERATOR_POD_LABELS
  value: {{ include "etcd-operator.podLabels" . | quote }}
{{- end }}
- name: LEASE_NAME
  value: {{ include "etcd-operator.fullname" . | quote }}
- name: LOG_LEVEL
  value: {{ .Values.log.level }}
- name: LOG_FORMAT
  value: {{ .Values.log.format }}
- name: RESYNC_SECONDS
  value: {{ .Values.resyncSeconds | quote }}
- name: METRICS_PORT
  value: {{ .Values.metrics.port | quote }}
- name: HEALTH_PORT
  value: {{ .Values.health.port | quote }}
{{- end }}
