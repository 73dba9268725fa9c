{{- /* The settings as internal/config declares them, made by go test ./internal/config -update. */}}
{{- define "fanfare.declared" -}}
{
  "owned": {
    "aws": {
      "FANFARE_ADMIN_ADDR": "kubectl port-forward reaches its default, 127.0.0.1:9090",
      "FANFARE_ARCHIVE": "it is of the embedded engine",
      "FANFARE_ARCHIVE_EVERY": "it is of the embedded engine",
      "FANFARE_ARCHIVE_KEEP": "it is of the embedded engine",
      "FANFARE_AUDIT": "write canary.auditor: one process is enough",
      "FANFARE_AUTH": "the chart deploys jwt: with dev tokens anyone could be any user",
      "FANFARE_CANARY": "write canary.enabled: one process is enough",
      "FANFARE_DATA_DIR": "the chart mounts the volume of up there",
      "FANFARE_DEV_AUTH_HOSTS": "the chart deploys jwt: with dev tokens anyone could be any user",
      "FANFARE_DEV_AUTH_ON_AWS": "the chart deploys jwt: with dev tokens anyone could be any user",
      "FANFARE_DEV_AUTH_PUBLIC": "the chart deploys jwt: with dev tokens anyone could be any user",
      "FANFARE_DEV_SECRET": "the chart deploys jwt: with dev tokens anyone could be any user",
      "FANFARE_DRAIN": "write drainSeconds, which sets the grace of the pods too; engine embedded has no drain",
      "FANFARE_ENGINE": "write engine",
      "FANFARE_EVENTS_KEPT": "it is of the embedded engine",
      "FANFARE_FAILOVER_AFTER": "it is of the embedded engine",
      "FANFARE_HTTP_ADDR": "the Service leads to port 8080",
      "FANFARE_JWKS_URL": "write auth.jwksUrl",
      "FANFARE_JWT_AUDIENCE": "write auth.audience",
      "FANFARE_JWT_ISSUER": "write auth.issuer",
      "FANFARE_METRICS_ADDR": "the probes ask port 9091",
      "FANFARE_PEER": "it is of the embedded engine",
      "FANFARE_PEER_ADDR": "it is of the embedded engine",
      "FANFARE_PEER_CA": "it is of the embedded engine",
      "FANFARE_PEER_CERT": "it is of the embedded engine",
      "FANFARE_PEER_KEY": "it is of the embedded engine",
      "FANFARE_QUEUE_PREFIX": "write aws.queuePrefix",
      "FANFARE_REGISTER": "it is of the embedded engine",
      "FANFARE_STREAM_SPOOL": "it is of the embedded engine",
      "FANFARE_TABLE": "write aws.table"
    },
    "embedded": {
      "FANFARE_ADMIN_ADDR": "kubectl port-forward reaches its default, 127.0.0.1:9090",
      "FANFARE_AUDIT": "write canary.auditor: one process is enough",
      "FANFARE_AUTH": "the chart deploys jwt: with dev tokens anyone could be any user",
      "FANFARE_CANARY": "write canary.enabled: one process is enough",
      "FANFARE_DATA_DIR": "the chart mounts the volume of up there",
      "FANFARE_DEV_AUTH_HOSTS": "the chart deploys jwt: with dev tokens anyone could be any user",
      "FANFARE_DEV_AUTH_ON_AWS": "fanfare up does not read it",
      "FANFARE_DEV_AUTH_PUBLIC": "the chart deploys jwt: with dev tokens anyone could be any user",
      "FANFARE_DEV_SECRET": "the chart deploys jwt: with dev tokens anyone could be any user",
      "FANFARE_DRAIN": "write drainSeconds, which sets the grace of the pods too; engine embedded has no drain",
      "FANFARE_ENGINE": "write engine",
      "FANFARE_HTTP_ADDR": "the Service leads to port 8080",
      "FANFARE_JWKS_URL": "write auth.jwksUrl",
      "FANFARE_JWT_AUDIENCE": "write auth.audience",
      "FANFARE_JWT_ISSUER": "write auth.issuer",
      "FANFARE_METRICS_ADDR": "the probes ask port 9091",
      "FANFARE_PEER": "write up.pair",
      "FANFARE_PEER_ADDR": "write up.pair",
      "FANFARE_PEER_CA": "write up.pair",
      "FANFARE_PEER_CERT": "write up.pair",
      "FANFARE_PEER_KEY": "write up.pair",
      "FANFARE_QUEUE_PREFIX": "fanfare up does not read it",
      "FANFARE_REGISTER": "write up.pair.register",
      "FANFARE_TABLE": "fanfare up does not read it"
    }
  },
  "times": {
    "FANFARE_ARCHIVE_EVERY": {
      "low": "1s",
      "high": "1m"
    },
    "FANFARE_ARCHIVE_KEEP": {
      "low": "2h",
      "high": "87600h"
    },
    "FANFARE_EVENTS_KEPT": {
      "low": "1h",
      "high": "720h",
      "zero": "off"
    },
    "FANFARE_FAILOVER_AFTER": {
      "low": "3s",
      "high": "1h"
    },
    "FANFARE_LIKE_WINDOW": {
      "low": "10ms",
      "high": "1m"
    },
    "FANFARE_NOTIFICATION_TTL": {
      "low": "816h",
      "high": "87600h"
    },
    "FANFARE_TIMELINE_TTL": {
      "low": "1m",
      "high": "87600h"
    }
  },
  "whole": {
    "FANFARE_ACTIVE_DAYS": {
      "low": "2",
      "high": "3650",
      "zero": "off"
    },
    "FANFARE_MAX_FOLLOWING": {
      "low": "0",
      "high": "9007199254740991"
    },
    "FANFARE_PUSH_LIMIT": {
      "low": "0",
      "high": "9007199254740991"
    },
    "FANFARE_RATE_LIMIT": {
      "low": "0",
      "high": "1000000"
    },
    "FANFARE_STREAMS": {
      "low": "1",
      "high": "9007199254740991"
    },
    "FANFARE_STREAMS_PER_USER": {
      "low": "1",
      "high": "9007199254740991"
    },
    "FANFARE_USER_UNITS": {
      "low": "10000",
      "high": "1000000000000",
      "zero": "no limit"
    }
  }
}
{{- end }}
