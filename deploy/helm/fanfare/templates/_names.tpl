{{- /* Objects have the names of daemons. The name of a Service has 63 characters at most, and begins with a letter. */}}
{{- define "fanfare.name" -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" .root.Release.Name) }}{{ fail "the name of the release: begin it with a letter, and use a-z, 0-9 and - only, as in the name of a Service" }}{{ end }}
{{- printf "%s-%s" .root.Release.Name .name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "fanfare.release" -}}
app.kubernetes.io/name: fanfare
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
{{- end }}

{{- define "fanfare.selector" -}}
{{ include "fanfare.release" . }}
app.kubernetes.io/component: {{ .name }}
{{- end }}

{{- define "fanfare.labels" -}}
{{ include "fanfare.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{- define "fanfare.metadata" -}}
metadata:
  name: {{ include "fanfare.name" . | quote }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "fanfare.labels" . | nindent 4 }}
{{- end }}

{{- define "fanfare.account" -}}
{{ .own.serviceAccountName | default (include "fanfare.name" (dict "root" .root "name" (include "fanfare.section" .))) }}
{{- end }}

{{- /* The name of the values of a daemon. Both machines of a pair have the values of up. */}}
{{- define "fanfare.section" -}}
{{ .section | default .name }}
{{- end }}

{{- /* The account of a daemon, unless it exists already. .annotations has further annotations of the account. */}}
{{- define "fanfare.serviceAccount" -}}
{{- if and .own.serviceAccountName .own.roleArn }}
{{- fail (printf "%s.roleArn: the chart does not change %s.serviceAccountName: annotate that account, and remove roleArn" .name .name) }}
{{- end }}
{{- $annotations := merge (dict) (.annotations | default dict) }}
{{- with .own.roleArn }}{{ $_ := set $annotations "eks.amazonaws.com/role-arn" . }}{{ end }}
{{- if not .own.serviceAccountName }}
---
apiVersion: v1
kind: ServiceAccount
{{ include "fanfare.metadata" . }}
  {{- with $annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
# The daemons do not call Kubernetes. The tokens of IRSA and Pod Identity are volumes of their own.
automountServiceAccountToken: false
{{- end }}
{{- end }}
