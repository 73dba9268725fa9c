{{- /* The objects of a machine with fanfare up: StatefulSet, Service for its name, network policy. .peer is the name of the other machine of a pair. */}}
{{- define "fanfare.machine" -}}
{{- $canary := .root.Values.canary }}
{{- $env := dict "FANFARE_HTTP_ADDR" ":8080" "FANFARE_DATA_DIR" "/data" "FANFARE_CANARY" $canary.enabled "FANFARE_AUDIT" (and $canary.enabled $canary.auditor) }}
{{- $mounts := list (dict "name" "data" "mountPath" "/data") }}
{{- $volumes := list }}
{{- with .peer }}
  {{- $env = merge $env (dict "FANFARE_PEER" (printf "%s:7070" (include "fanfare.name" (dict "root" $.root "name" .))) "FANFARE_PEER_ADDR" ":7070"
    "FANFARE_PEER_CA" "/keys/ca.crt" "FANFARE_PEER_CERT" (printf "/keys/%s.crt" $.name) "FANFARE_PEER_KEY" (printf "/keys/%s.key" $.name)
    "FANFARE_REGISTER" $.own.pair.register) }}
  {{- $items := list }}
  {{- range list "ca.crt" (printf "%s.crt" $.name) (printf "%s.key" $.name) }}{{ $items = append $items (dict "key" . "path" .) }}{{ end }}
  {{- /* 288 is 0440: the group of the process reads the keys. */}}
  {{- $volumes = list (dict "name" "keys" "secret" (dict "secretName" $.own.pair.secretName "defaultMode" 288 "items" $items)) }}
  {{- $mounts = append $mounts (dict "name" "keys" "mountPath" "/keys" "readOnly" true) }}
{{- end }}
{{- $machine := merge (dict "env" $env "mounts" $mounts "volumes" $volumes) . }}
---
apiVersion: apps/v1
kind: StatefulSet
{{ include "fanfare.metadata" . }}
spec:
  replicas: 1
  serviceName: {{ include "fanfare.name" . | quote }}
  selector:
    matchLabels:
      {{- include "fanfare.selector" . | nindent 6 }}
  {{- if .peer }}
  # An upgrade restarts the standby first, and promotes it before the other restart (docs/ONE_MACHINE.md).
  updateStrategy: {type: OnDelete}
  {{- end }}
  template:
    {{- include "fanfare.podMetadata" . | nindent 4 }}
    spec:
      {{- include "fanfare.pod" $machine | trim | nindent 6 }}
      # A stop ends within 30 seconds.
      terminationGracePeriodSeconds: 40
      {{- if .peer }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: DoNotSchedule
          labelSelector:
            matchLabels:
              {{- include "fanfare.release" . | nindent 14 }}
      {{- end }}
      containers:
        - name: up
          command: {{ concat (list "fanfare" "up") (.flags | default list) | toJson }}
          {{- include "fanfare.container" $machine | trim | nindent 10 }}
          {{- include "fanfare.ports" . | nindent 10 }}
  volumeClaimTemplates:
    - metadata: {name: data}
      spec:
        accessModes: [ReadWriteOnce]
        {{- with .own.volume.storageClassName }}
        storageClassName: {{ . | quote }}
        {{- end }}
        resources: {requests: {storage: {{ .own.volume.size | quote }}}}
{{- include "fanfare.headless" (merge (dict "service" .name) .) }}
{{- if .root.Values.networkPolicy.enabled }}
{{- include "fanfare.networkPolicy" . }}
{{- end }}
{{- end }}
