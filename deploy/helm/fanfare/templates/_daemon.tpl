{{- define "fanfare.selector" -}}
app.kubernetes.io/name: fanfare
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .name }}
{{- end }}

{{- define "fanfare.labels" -}}
{{ include "fanfare.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{- define "fanfare.metadata" -}}
metadata:
  name: {{ .root.Release.Name }}-{{ .name }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "fanfare.labels" . | nindent 4 }}
{{- end }}

{{- /* Strings of labels and annotations, which YAML may have read as something else. */}}
{{- define "fanfare.strings" -}}
{{- range $name, $value := . }}
{{ $name | quote }}: {{ ternary $value (toJson $value) (kindIs "string" $value) | quote }}
{{- end }}
{{- end }}

{{- /*
The text that a daemon gets for .value, the setting .name. YAML 1.1 reads a bare off as false, 1000000 as a float,
1.10 as 1.1, 0123 as 83 and no as false. Only the chart knows that: the daemons see texts. So what the setting cannot
mean is refused here, before anything starts. A whole number of --set (int64) is exact, so it may be a text as well.
The faults do not quote values: one may be a secret.
*/}}
{{- define "fanfare.value" -}}
{{- $switches := list "FANFARE_PPROF" "FANFARE_CONSOLE" "FANFARE_LIKES_BY_USER" "FANFARE_CANARY" "FANFARE_AUDIT" "GOGC" "GOMEMLIMIT" }}
{{- $lists := list "FANFARE_JWT_AUDIENCE" "FANFARE_CORS_ORIGINS" "FANFARE_CORS_HEADERS" }}
{{- $texts := list "image.tag" "AWS_REGION" "FANFARE_ENGINE" "FANFARE_DATA_DIR" "FANFARE_TABLE" "FANFARE_QUEUE_PREFIX" "FANFARE_EVENTS_QUEUE"
  "FANFARE_HTTP_ADDR" "FANFARE_ADMIN_ADDR" "FANFARE_METRICS_ADDR" "FANFARE_AUTH" "FANFARE_JWT_ISSUER" "FANFARE_JWKS_URL"
  "FANFARE_JWT_USER_CLAIM" "FANFARE_SERVICE_SCOPE" "FANFARE_DELETE_SCOPE" "FANFARE_DEV_SECRET" "FANFARE_DEV_AUTH_ON_AWS" "FANFARE_DEV_AUTH_PUBLIC" }}
{{- $fault := printf "%s: YAML has read its value as a %s, which may have changed it: write it in quotes, or with --set-string" .name (kindOf .value) }}
{{- if kindIs "string" .value }}{{ .value }}
{{- else if kindIs "bool" .value }}
  {{- if has .name $switches }}{{ ternary "on" "off" .value }}
  {{- else if regexMatch "^(AWS_USE_.+|(AWS|OTEL)_.+_(DISABLED|INSECURE))$" .name }}{{ .value }}
  {{- else }}{{ fail $fault }}{{ end }}
{{- else if kindIs "slice" .value }}
  {{- if not (has .name $lists) }}{{ fail (printf "%s: it takes one value, not a list" .name) }}{{ end }}
  {{- range .value }}{{ if not (has (kindOf .) (list "string" "int64")) }}{{ fail $fault }}{{ end }}{{ end }}
  {{- join "," .value }}
{{- else if kindIs "int64" .value }}{{ .value }}
{{- else if and (kindIs "float64" .value) (not (has .name (concat $texts $lists))) }}
  {{- /* A float has each whole number below 2^53. */}}
  {{- if and (eq (floor .value) .value) (lt .value 9007199254740992.0) (gt .value -9007199254740992.0) }}{{ printf "%.0f" .value }}
  {{- else if or (eq (floor .value) .value) (hasPrefix "FANFARE_" .name) }}{{ fail $fault }}
  {{- else }}{{ toJson .value }}{{ end }}
{{- else }}{{ fail $fault }}{{ end }}
{{- end }}

{{- /* The seconds of drainSeconds. sprig reads 10s as 0, which would be no drain. */}}
{{- define "fanfare.drain" -}}
{{- $seconds := toString .Values.drainSeconds }}
{{- if not (regexMatch "^([0-9]|[1-9][0-9]|[12][0-9][0-9]|300)$" $seconds) }}{{ fail "drainSeconds: write a whole number from 0 to 300, without a unit" }}{{ end }}
{{- $seconds }}
{{- end }}

{{- /* The parts that every daemon has. .root is the chart, .name the daemon, .own its values, .env more settings. */}}
{{- define "fanfare.daemon" -}}
apiVersion: v1
kind: ServiceAccount
{{ include "fanfare.metadata" . }}
  annotations:
    eks.amazonaws.com/role-arn: {{ required (printf "%s.roleArn: the role with the policy of: fanfare iam policy --daemon %s" .name .name) .own.roleArn }}
---
apiVersion: apps/v1
kind: Deployment
{{ include "fanfare.metadata" . }}
spec:
  {{- /* An autoscaler sets the replicas, if there is one. */}}
  {{- if and (ne .name "api") (not .root.Values.keda.enabled) }}
  replicas: {{ .own.minReplicas }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "fanfare.selector" . | nindent 6 }}
  strategy:
    rollingUpdate: {maxUnavailable: 0, maxSurge: 25%}
  template:
    metadata:
      labels:
        {{- include "fanfare.labels" . | nindent 8 }}
    spec:
      # The variables of Services whose names begin with fanfare would look like settings.
      enableServiceLinks: false
      serviceAccountName: {{ .root.Release.Name }}-{{ .name }}
      # A stop ends within 30 seconds after the drain.
      terminationGracePeriodSeconds: {{ add (include "fanfare.drain" .root) 35 }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "fanfare.selector" . | nindent 14 }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        seccompProfile: {type: RuntimeDefault}
      {{- if .root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml .root.Values.imagePullSecrets | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ .name }}
          image: {{ required "image.repository: the image of deploy/Dockerfile" .root.Values.image.repository }}:{{ include "fanfare.value" (dict "name" "image.tag" "value" (required "image.tag: the tag of the image" .root.Values.image.tag)) }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          command: [{{ .name }}]
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
          {{- $env := dict "AWS_REGION" (required "aws.region: the region of the table and the queues" .root.Values.aws.region)
            "FANFARE_ENGINE" "aws" "FANFARE_TABLE" .root.Values.aws.table "FANFARE_QUEUE_PREFIX" .root.Values.aws.queuePrefix
            "FANFARE_METRICS_ADDR" ":9091" "FANFARE_DRAIN" (printf "%ss" (include "fanfare.drain" .root)) "GOMEMLIMIT" (printf "%dMiB" (div (mul 85 .own.resources.memoryLimitMiB) 100)) }}
          {{- if hasKey .root.Values.settings "FANFARE_DRAIN" }}{{ fail "settings.FANFARE_DRAIN: write drainSeconds, which sets the grace of the pods too" }}{{ end }}
          {{- /* A name has one entry, which server-side apply needs. A value that is empty in YAML is absent. */}}
          {{- range $more := list .env .root.Values.settings }}
          {{- range $name, $value := $more }}
          {{- if not (kindIs "invalid" $value) }}{{ $_ := set $env $name $value }}{{ end }}
          {{- end }}
          {{- end }}
          env:
            {{- /* Kubernetes would read $$ as $, and expand $(NAME). */}}
            {{- range $name, $value := $env }}
            {{- if not (kindIs "invalid" $value) }}
            - {name: {{ $name }}, value: {{ include "fanfare.value" (dict "name" $name "value" $value) | replace "$" "$$" | quote }}}
            {{- end }}
            {{- end }}
          ports:
            - {name: metrics, containerPort: 9091}
            {{- if eq .name "api" }}
            - {name: http, containerPort: 8080}
            {{- end }}
          livenessProbe:
            httpGet: {path: /healthz, port: metrics}
          readinessProbe:
            httpGet: {path: /servez, port: metrics}
          resources:
            requests:
              {{- toYaml .own.resources.requests | nindent 14 }}
            limits: {memory: {{ .own.resources.memoryLimitMiB }}Mi}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
{{ include "fanfare.metadata" . }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "fanfare.selector" . | nindent 6 }}
{{- if .root.Values.serviceMonitor.enabled }}
---
apiVersion: v1
kind: Service
metadata:
  {{- /* A release may have 53 characters, the name of a Service 63. */}}
  name: {{ printf "%s-%s-metrics" .root.Release.Name .name | trunc 63 }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "fanfare.labels" . | nindent 4 }}
    app.kubernetes.io/part-of: metrics
spec:
  clusterIP: None
  ports: [{name: metrics, port: 9091, targetPort: metrics}]
  # A process that is not ready has metrics, too.
  publishNotReadyAddresses: true
  selector:
    {{- include "fanfare.selector" . | nindent 4 }}
{{- end }}
{{- end }}

{{- /* The seconds of work in the queues of a worker: messages that are ready, by those a second that were finished. */}}
{{- define "fanfare.backlog" -}}
max(max by (topic) (fanfare_queue_depth{state="ready",topic=~"{{ .topics }}",namespace="{{ .root.Release.Namespace }}"}) / on (topic) ((sum by (topic) (rate(fanfare_message_seconds_count{result="done",namespace="{{ .root.Release.Namespace }}"}[2m])) or 0 * max by (topic) (fanfare_queue_depth{state="ready",namespace="{{ .root.Release.Namespace }}"})) + 1))
{{- end }}

{{- define "fanfare.worker" -}}
{{- include "fanfare.daemon" . }}
{{- if .root.Values.keda.enabled }}
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
{{ include "fanfare.metadata" . }}
spec:
  scaleTargetRef: {name: {{ .root.Release.Name }}-{{ .name }}}
  minReplicaCount: {{ .own.minReplicas }}
  maxReplicaCount: {{ .own.maxReplicas }}
  fallback: {failureThreshold: 5, replicas: {{ .own.minReplicas }}, behavior: currentReplicasIfHigher}
  advanced:
    horizontalPodAutoscalerConfig:
      behavior:
        scaleDown: {stabilizationWindowSeconds: 300}
  triggers:
    - type: prometheus
      metricType: Value
      metadata:
        serverAddress: {{ .root.Values.keda.prometheus | quote }}
        threshold: {{ .root.Values.keda.backlogSeconds | quote }}
        query: {{ include "fanfare.backlog" . | quote }}
{{- end }}
{{- end }}
