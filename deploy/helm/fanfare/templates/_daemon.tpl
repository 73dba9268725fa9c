{{- define "fanfare.selector" -}}
app.kubernetes.io/name: fanfare
app.kubernetes.io/instance: {{ .root.Release.Name }}
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
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "fanfare.labels" . | nindent 4 }}
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
      serviceAccountName: {{ .root.Release.Name }}-{{ .name }}
      # A stop ends within 30 seconds.
      terminationGracePeriodSeconds: 30
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
          image: {{ required "image.repository: the image of deploy/Dockerfile" .root.Values.image.repository }}:{{ required "image.tag: the tag of the image" .root.Values.image.tag }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          command: [{{ .name }}]
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities: {drop: [ALL]}
          env:
            - {name: AWS_REGION, value: {{ required "aws.region: the region of the table and the queues" .root.Values.aws.region | quote }}}
            - {name: FANFARE_ENGINE, value: aws}
            - {name: FANFARE_TABLE, value: {{ .root.Values.aws.table | quote }}}
            - {name: FANFARE_QUEUE_PREFIX, value: {{ .root.Values.aws.queuePrefix | quote }}}
            - {name: FANFARE_METRICS_ADDR, value: ":9091"}
            - {name: GOMEMLIMIT, value: {{ div (mul 85 .own.resources.memoryLimitMiB) 100 }}MiB}
            {{- range $name, $value := .env }}
            - {name: {{ $name }}, value: {{ $value | quote }}}
            {{- end }}
            {{- /* Helm reads a number as a float, and prints 1000000 as 1e+06. JSON does not. */}}
            {{- range $name, $value := .root.Values.settings }}
            - {name: {{ $name }}, value: {{ ternary $value (toJson $value) (kindIs "string" $value) | quote }}}
            {{- end }}
          ports:
            - {name: metrics, containerPort: 9091}
            {{- if eq .name "api" }}
            - {name: http, containerPort: 8080}
            {{- end }}
          livenessProbe:
            httpGet: {path: /healthz, port: metrics}
          readinessProbe:
            httpGet: {path: /readyz, port: metrics}
            timeoutSeconds: 5
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
  name: {{ .root.Release.Name }}-{{ .name }}-metrics
  namespace: {{ .root.Release.Namespace }}
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
