{{- /* The fields of a pod except its containers: .root is the chart, .name is the daemon, .own has the values of the daemon. .volumes has further volumes. */}}
{{- define "fanfare.pod" -}}
# The variables of Services whose names begin with fanfare would look like settings.
enableServiceLinks: false
serviceAccountName: {{ include "fanfare.account" . | quote }}
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
  {{- if eq .program "up" }}
  # The volume belongs to the user of the process. A walk through all files would delay each start.
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  {{- end }}
{{- with .root.Values.imagePullSecrets }}
{{ dict "imagePullSecrets" . | toYaml }}
{{- end }}
{{- range $key := list "priorityClassName" "nodeSelector" "tolerations" "affinity" }}
{{- with get $.own $key | default (get $.root.Values $key) }}
{{ dict $key . | toYaml }}
{{- end }}
{{- end }}
{{- with concat (.volumes | default list) (.own.volumes | default .root.Values.volumes | default list) }}
{{ dict "volumes" . | toYaml }}
{{- end }}
{{- end }}

{{- /* The fields of a container except its name and command. .env has further settings, and .mounts further mounts. */}}
{{- define "fanfare.container" -}}
{{- $image := .root.Values.image }}
{{- $tag := include "fanfare.text" (dict "name" "image.tag" "value" ($image.tag | default "")) }}
image: {{ printf "%s%s" $image.repository (ternary (printf "@%s" $image.digest) (printf ":%s" $tag) (not (empty $image.digest))) | quote }}
imagePullPolicy: {{ $image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
env:
  {{- include "fanfare.environment" . | trim | nindent 2 }}
{{- with .own.envFrom }}
{{ dict "envFrom" . | toYaml }}
{{- end }}
{{- with .own.resources }}
{{ dict "resources" . | toYaml }}
{{- end }}
{{- with concat (.mounts | default list) (.own.volumeMounts | default .root.Values.volumeMounts | default list) }}
{{ dict "volumeMounts" . | toYaml }}
{{- end }}
{{- end }}

{{- /* The ports and the probes of a container. A standby is alive, and does not serve. */}}
{{- define "fanfare.ports" -}}
ports:
  - {name: metrics, containerPort: 9091}
  {{- if or (eq .name "api") (eq .program "up") }}
  - {name: http, containerPort: 8080}
  {{- end }}
  {{- if .peer }}
  - {name: peer, containerPort: 7070}
  {{- end }}
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
readinessProbe:
  httpGet: {path: /servez, port: metrics}
{{- end }}

{{- define "fanfare.podMetadata" -}}
metadata:
  labels:
    {{- include "fanfare.labels" . | nindent 4 }}
    {{- with .own.podLabels | default .root.Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .own.podAnnotations | default .root.Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- /* The objects of a daemon: account, Deployment, disruption budget, and the object by which Prometheus finds its metrics. .program is the program. */}}
{{- define "fanfare.daemon" -}}
{{- $one := eq .name "canary" }}
{{- if not $one }}
{{- if lt (int .own.maxReplicas) (int .own.minReplicas) }}{{ fail (printf "%s.maxReplicas: it is below minReplicas" .name) }}{{ end }}
{{- end }}
{{- include "fanfare.serviceAccount" . }}
---
apiVersion: apps/v1
kind: Deployment
{{ include "fanfare.metadata" . }}
spec:
  {{- /* If there is an autoscaler, it sets the replicas. */}}
  {{- if $one }}
  replicas: 1
  {{- else if and (ne .name "api") (not .root.Values.keda.enabled) }}
  replicas: {{ .own.minReplicas }}
  {{- end }}
  selector:
    matchLabels:
      {{- include "fanfare.selector" . | nindent 6 }}
  {{- if $one }}
  strategy: {type: Recreate}
  {{- else }}
  strategy:
    rollingUpdate: {maxUnavailable: 0, maxSurge: 25%}
  {{- end }}
  template:
    {{- include "fanfare.podMetadata" . | nindent 4 }}
    spec:
      {{- include "fanfare.pod" . | trim | nindent 6 }}
      # A stop ends within 30 seconds after the drain.
      terminationGracePeriodSeconds: {{ add .root.Values.drainSeconds 35 }}
      {{- if not $one }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "fanfare.selector" . | nindent 14 }}
      {{- end }}
      containers:
        - name: {{ .name }}
          command: [{{ .program }}]
          {{- include "fanfare.container" . | trim | nindent 10 }}
          {{- include "fanfare.ports" . | nindent 10 }}
{{- if not $one }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
{{ include "fanfare.metadata" . }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "fanfare.selector" . | nindent 6 }}
{{- end }}
{{- if .root.Values.serviceMonitor.enabled }}
{{- include "fanfare.headless" (merge (dict "service" (printf "%s-metrics" .name)) .) }}
{{- end }}
{{- if .root.Values.networkPolicy.enabled }}
{{- include "fanfare.networkPolicy" . }}
{{- end }}
{{- end }}

{{- /* The Service .service without an address of its own: Prometheus and the other machine of a pair find the pods by it. */}}
{{- define "fanfare.headless" }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ include "fanfare.name" (dict "root" .root "name" .service) | quote }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels:
    {{- include "fanfare.labels" . | nindent 4 }}
    app.kubernetes.io/part-of: metrics
spec:
  clusterIP: None
  ports:
    - {name: metrics, port: 9091, targetPort: metrics}
    {{- if .peer }}
    - {name: peer, port: 7070, targetPort: peer}
    {{- end }}
  # A process that is not ready has metrics, too, and a standby is never ready.
  publishNotReadyAddresses: true
  selector:
    {{- include "fanfare.selector" . | nindent 4 }}
{{- end }}

{{- define "fanfare.networkPolicy" }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
{{ include "fanfare.metadata" . }}
spec:
  podSelector:
    matchLabels:
      {{- include "fanfare.selector" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
  ingress:
    - ports: [{port: metrics}]
      {{- with .root.Values.networkPolicy.metricsFrom }}
      from: {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- if or (eq .name "api") (eq .program "up") }}
    - ports: [{port: http}]
      {{- with .root.Values.networkPolicy.apiFrom }}
      from: {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- end }}
    {{- if .peer }}
    - ports: [{port: peer}]
      from:
        - podSelector:
            matchLabels:
              {{- include "fanfare.selector" (merge (dict "name" .peer) .) | nindent 14 }}
    {{- end }}
  egress:
    # DNS, and https to AWS and the issuer of tokens.
    - ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}, {port: 443, protocol: TCP}]
    # The agent of EKS Pod Identity.
    - to: [{ipBlock: {cidr: 169.254.170.23/32}}, {ipBlock: {cidr: "fd00:ec2::23/128"}}]
      ports: [{port: 80, protocol: TCP}]
    {{- if .peer }}
    - to:
        - podSelector:
            matchLabels:
              {{- include "fanfare.selector" (merge (dict "name" .peer) .) | nindent 14 }}
      ports: [{port: 7070, protocol: TCP}]
    {{- end }}
    {{- with .root.Values.networkPolicy.egress }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{- /* The seconds of work in the queues of a worker: the ready messages, divided by the finished messages a second. */}}
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
  scaleTargetRef: {name: {{ include "fanfare.name" . | quote }}}
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
