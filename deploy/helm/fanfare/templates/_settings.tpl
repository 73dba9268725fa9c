{{- /*
The text that a daemon gets for .value, the value of the setting .name. YAML 1.1 reads off and no without quotes as
false, 1000000 as a float, 1.10 as 1.1, and 0123 as 83. Only the chart sees the types of YAML, because daemons get texts.
So the chart refuses a value that YAML may have changed, and a value that the daemons refuse, before anything starts. A
whole number of --set (int64) is exact, so it may stand for a text. Errors do not quote values, because a value may be a
secret.
*/}}
{{- define "fanfare.text" -}}
{{- $declared := include "fanfare.declared" . | fromJson }}
{{- $whole := $declared.whole }}
{{- $fault := printf "%s: YAML has read its value as a %s, which may have changed it: write it in quotes, or with --set-string" .name (kindOf .value) }}
{{- $text := .value }}
{{- if kindIs "bool" .value }}
  {{- if hasPrefix "FANFARE_" .name }}{{ $text = ternary "on" "off" .value }}
  {{- else if and (not .value) (has .name (list "GOGC" "GOMEMLIMIT")) }}{{ $text = "off" }}
  {{- else if regexMatch "^(AWS_USE_.+|(AWS|OTEL)_.+_(DISABLED|INSECURE))$" .name }}{{ $text = toString .value }}
  {{- else }}{{ fail $fault }}{{ end }}
{{- else if kindIs "float64" .value }}
  {{- $counts := or (hasKey $whole .name) (regexMatch "^(GOGC|GOMEMLIMIT|GOMAXPROCS|AWS_MAX_ATTEMPTS|OTEL_.+_(TIMEOUT|DELAY|SIZE|LIMIT|INTERVAL))$" .name) }}
  {{- /* A float represents each whole number below 2^53 exactly. */}}
  {{- if and $counts (eq (floor .value) .value) (lt .value 9007199254740992.0) (gt .value -9007199254740992.0) }}{{ $text = printf "%.0f" .value }}
  {{- else if eq .name "OTEL_TRACES_SAMPLER_ARG" }}{{ $text = toJson .value }}
  {{- else }}{{ fail $fault }}{{ end }}
{{- else if kindIs "int64" .value }}{{ $text = toString .value }}
{{- else if kindIs "slice" .value }}
  {{- range .value }}
    {{- if not (has (kindOf .) (list "string" "int64")) }}{{ fail $fault }}{{ end }}
    {{- if or (contains "," (toString .)) (ne (trim (toString .)) (toString .)) (eq (toString .) "") }}{{ fail (printf "%s: a part of its list is empty, or has a comma, or a blank at an end" $.name) }}{{ end }}
  {{- end }}
  {{- $text = join "," .value }}
{{- else if not (kindIs "string" .value) }}{{ fail $fault }}
{{- end }}
{{- if contains "\x00" $text }}{{ fail (printf "%s: its value has the byte 0, which no environment can have" .name) }}{{ end }}
{{- if and (hasPrefix "FANFARE_" .name) (regexMatch "\\p{Cc}|^\\p{Cf}|\\p{Cf}$" (trim $text)) }}{{ fail (printf "%s: its value has a character that cannot be seen: remove it" .name) }}{{ end }}
{{- if ne (trim $text) $text }}{{ fail (printf "%s: its value begins or ends with a blank or a line break: remove it (in YAML, write |- in place of |)" .name) }}{{ end }}
{{- if and $text (hasKey $whole .name) }}
  {{- with get $whole .name }}
    {{- $outside := or (lt (int64 $text) (int64 .low)) (gt (int64 $text) (int64 .high)) }}
    {{- if and $outside .zero (ne $text "0") }}{{ fail (printf "%s: it is neither 0 (%s) nor between %s and %s" $.name .zero .low .high) }}{{ end }}
    {{- if and $outside (not .zero) }}{{ fail (printf "%s: it is not between %s and %s" $.name .low .high) }}{{ end }}
  {{- end }}
{{- else if and $text (hasKey $declared.times .name) }}
  {{- $zero := toDate "2006" "2000" }}
  {{- $long := (mustDateModify $text $zero).Sub $zero }}
  {{- with get $declared.times .name }}
    {{- $outside := or (lt $long ((mustDateModify .low $zero).Sub $zero)) (gt $long ((mustDateModify .high $zero).Sub $zero)) }}
    {{- if and $outside .zero (ne $long ($zero.Sub $zero)) }}{{ fail (printf "%s: it is neither 0s (%s) nor between %s and %s" $.name .zero .low .high) }}{{ end }}
    {{- if and $outside (not .zero) }}{{ fail (printf "%s: it is not between %s and %s" $.name .low .high) }}{{ end }}
  {{- end }}
{{- else if and (has .name (list "FANFARE_CORS_ORIGINS" "FANFARE_CONSOLE_IMAGES")) (regexMatch "(^|, *)(https://[^,]*:443|http://[^,]*:80)(,|$)" $text) }}
  {{- fail (printf "%s: browsers leave the port out if it is the scheme's own: remove :443 or :80" .name) }}
{{- else if and (eq .name "FANFARE_CORS_HEADERS") (regexMatch "(?i)(^|, *)fanfare-user(,|$)" $text) }}
  {{- fail "FANFARE_CORS_HEADERS: Fanfare-User goes with the token of a service, which no page may hold: remove it" }}
{{- else if eq .name "FANFARE_REACTIONS" }}
  {{- $kinds := regexSplit ", *" $text -1 }}
  {{- if or (has "like" $kinds) (ne (len $kinds) (len (uniq $kinds))) }}{{ fail "FANFARE_REACTIONS: name each kind once, and like never" }}{{ end }}
{{- end }}
{{- $text }}
{{- end }}

{{- /* The number of bytes in a quantity of memory. */}}
{{- define "fanfare.bytes" -}}
{{- $units := dict "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 }}
{{- $unit := regexFind "[A-Za-z]+$" . }}
{{- mulf (float64 (trimSuffix $unit .)) (get $units $unit) | int64 }}
{{- end }}

{{- /* Go collects garbage before a container reaches its limit of memory. */}}
{{- define "fanfare.softLimit" -}}
{{- $limit := int64 (include "fanfare.bytes" .own.resources.limits.memory) }}
{{- $section := include "fanfare.section" . }}
{{- if lt $limit 67108864 }}{{ fail (printf "%s.resources.limits.memory: it is below 64Mi" $section) }}{{ end }}
{{- with (.own.resources.requests | default dict).memory }}
  {{- if gt (int64 (include "fanfare.bytes" .)) $limit }}{{ fail (printf "%s.resources.requests.memory: it is above limits.memory" $section) }}{{ end }}
{{- end }}
{{- printf "%dMiB" (div (mul $limit 85) 104857600) }}
{{- end }}

{{- /* The entries of env. Server-side apply needs exactly one entry for each name. .env has further settings of the chart. */}}
{{- define "fanfare.environment" -}}
{{- $values := .root.Values }}
{{- $section := include "fanfare.section" . }}
{{- $owned := set (get (include "fanfare.declared" . | fromJson).owned $values.engine) "AWS_REGION" "write aws.region" }}
{{- $env := dict "AWS_REGION" $values.aws.region "FANFARE_ENGINE" $values.engine "FANFARE_METRICS_ADDR" ":9091" }}
{{- if eq $values.engine "aws" }}
  {{- $env = merge $env (dict "FANFARE_TABLE" $values.aws.table "FANFARE_QUEUE_PREFIX" $values.aws.queuePrefix "FANFARE_DRAIN" (printf "%ds" (int $values.drainSeconds))) }}
{{- end }}
{{- if has .program (list "api" "up") }}
  {{- $keys := $values.auth.jwksUrl | default $values.auth.issuer }}
  {{- if not (regexMatch "^https://[A-Za-z0-9.-]+(:[0-9]{1,5})?([/?]([!$-;=?-Z_a-z~]|%[0-9A-Fa-f]{2})*)?$" $keys) }}
    {{- fail "auth.jwksUrl: write the https URL of the issuer's keys, without credentials. Without it auth.issuer must be such a URL" }}
  {{- end }}
  {{- $env = merge $env (dict "FANFARE_AUTH" "jwt" "FANFARE_JWT_ISSUER" $values.auth.issuer "FANFARE_JWT_AUDIENCE" $values.auth.audience "FANFARE_JWKS_URL" $values.auth.jwksUrl) }}
{{- end }}
{{- if ((.own.resources).limits).memory }}{{ $_ := set $env "GOMEMLIMIT" (include "fanfare.softLimit" .) }}{{ end }}
{{- range $name, $value := .env }}{{ $_ := set $env $name $value }}{{ end }}
{{- range list (list "settings" $values.settings) (list (printf "%s.settings" $section) .own.settings) }}
  {{- $place := first . }}
  {{- range $name, $value := last . }}
    {{- with get $owned $name }}{{ fail (printf "%s.%s: %s" $place $name .) }}{{ end }}
    {{- $_ := set $env $name $value }}
  {{- end }}
{{- end }}
{{- $seen := list }}
{{- range .own.env }}
  {{- $name := .name }}
  {{- with get $owned $name }}{{ fail (printf "%s.env: %s: %s" $section $name .) }}{{ end }}
  {{- if has .name $seen }}{{ fail (printf "%s.env: %s is there twice" $section .name) }}{{ end }}
  {{- if and (regexMatch "^(FANFARE_|GO(GC|MEMLIMIT)$)" .name) (not .valueFrom) }}{{ fail (printf "%s.env: %s: write it in %s.settings, which checks it" $section .name $section) }}{{ end }}
  {{- $seen = append $seen .name }}
  {{- $_ := unset $env .name }}
{{- end }}
{{- if regexMatch (printf "^%s-(posts|backfills|chunks|likes|notices)(-dlq)?$" (toString $values.aws.queuePrefix)) (get $env "FANFARE_EVENTS_QUEUE" | toString) }}
  {{- fail "FANFARE_EVENTS_QUEUE: it is a queue of Fanfare's own work: name another" }}
{{- end }}
{{- if regexMatch "[:/]delete$" (get $env "FANFARE_SERVICE_SCOPE" | toString) }}
  {{- fail "FANFARE_SERVICE_SCOPE: it is also the scope to delete users, which few tokens get: name another scope" }}
{{- end }}
{{- range $name, $value := $env }}
{{- if not (kindIs "invalid" $value) }}
{{- with include "fanfare.text" (dict "name" $name "value" $value) }}
{{- /* Kubernetes reads $$ as $, and would expand $(NAME). */}}
- {name: {{ $name | quote }}, value: {{ . | replace "$" "$$" | quote }}}
{{- end }}
{{- end }}
{{- end }}
{{- range .own.env }}
- {{ toYaml . | nindent 2 | trim }}
{{- end }}
{{- end }}
