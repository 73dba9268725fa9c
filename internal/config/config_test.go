package config_test

import (
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zapcore"

	"fanfare/internal/config"
)

func TestDefaultsAreForOneMachine(t *testing.T) {
	c, err := config.Load([]string{"PATH=/bin", "AWS_REGION=eu-central-1"}, config.API)
	require.NoError(t, err)
	if c.Engine != config.EngineEmbedded || c.Auth != config.AuthDev || c.HTTPAddr != "127.0.0.1:8080" ||
		c.AdminAddr != "127.0.0.1:9090" || c.AdminIsPublic() || c.MetricsAddr != "" || c.LikeWindow != time.Second || c.TimelineTTL != 720*time.Hour ||
		c.ActiveDays != 14 || c.MaxFollowing != 5000 || !bool(c.LikesByUser) || bool(c.Pprof) || bool(c.Canary) || c.LogLevel != zapcore.InfoLevel || c.RateLimit != 0 {
		t.Errorf("defaults are %+v", c)
	}
}

func TestEveryNameIsRead(t *testing.T) {
	c, err := config.Load([]string{
		"FANFARE_ENGINE=aws", "FANFARE_DATA_DIR=/d", "FANFARE_TABLE=t.1", "FANFARE_QUEUE_PREFIX=q", "FANFARE_EVENTS_QUEUE=q-events",
		"FANFARE_HTTP_ADDR=:1", "FANFARE_ADMIN_ADDR=[::1]:2", "FANFARE_AUTH=jwt", "FANFARE_JWT_ISSUER=https://i",
		"FANFARE_JWT_AUDIENCE=a, b", "FANFARE_JWKS_URL=https://i/keys", "FANFARE_LIKE_WINDOW=250ms", "FANFARE_NOTIFICATIONS=on", "FANFARE_NOTIFICATION_TTL=900h",
		"FANFARE_TIMELINE_TTL=24h", "FANFARE_PUSH_LIMIT=5", "FANFARE_ACTIVE_DAYS=2", "FANFARE_MAX_FOLLOWING=6", "FANFARE_LIKES_BY_USER=off", "FANFARE_REACTIONS=love, wow", "FANFARE_RATE_LIMIT=7",
		"FANFARE_CORS_ORIGINS=https://a.example, http://localhost:3000", "FANFARE_DEV_SECRET=" + strings.Repeat("s", 32),
		"FANFARE_DEV_AUTH_ON_AWS=allow", "FANFARE_DEV_AUTH_PUBLIC=allow", "FANFARE_DEV_AUTH_HOSTS=api, api.internal", "FANFARE_LOG_LEVEL=debug", "FANFARE_PPROF=on",
		"FANFARE_METRICS_ADDR=:9091", "FANFARE_CORS_HEADERS=X-Trace", "FANFARE_STREAMS=9", "FANFARE_STREAMS_PER_USER=2",
		"FANFARE_CONSOLE=on", "FANFARE_CANARY=on", "FANFARE_AUDIT=on", "FANFARE_JWT_USER_CLAIM=uid", "FANFARE_SERVICE_SCOPE=fanfare/act", "FANFARE_USER_UNITS=90000", "FANFARE_DRAIN=4s",
	}, config.API)
	require.NoError(t, err)
	if c.Table != "t.1" || c.PushLimit != 5 || c.ActiveDays != 2 || c.MaxFollowing != 6 || bool(c.LikesByUser) || !slices.Equal(c.Reactions, []string{"love", "wow"}) || c.RateLimit != 7 ||
		!slices.Equal(c.CORSOrigins, []string{"https://a.example", "http://localhost:3000"}) ||
		c.LikeWindow != 250*time.Millisecond || !bool(c.Notifications) || c.NotifyWindow() != 500*time.Millisecond || c.NotificationTTL != 900*time.Hour || !bool(c.Pprof) || c.MetricsAddr != ":9091" || c.AdminIsPublic() || c.LogLevel != zapcore.DebugLevel ||
		!bool(c.Console) || !bool(c.Canary) || !bool(c.Auditor) || c.EventsQueue != "q-events" || c.Streams != 9 || c.StreamsPerUser != 2 ||
		!slices.Equal(c.JWTAudience, []string{"a", "b"}) || c.JWTUserClaim != "uid" || c.ServiceScope != "fanfare/act" || c.DeleteScope() != "fanfare/delete" || c.ServiceRateLimit() != 70 || c.UserUnits != 90_000 || c.Drain != 4*time.Second {
		t.Errorf("read %+v", c)
	}
	archived, err := config.Load([]string{
		"FANFARE_ARCHIVE=s3://bucket/feed", "FANFARE_ARCHIVE_EVERY=3s", "FANFARE_ARCHIVE_KEEP=48h", "FANFARE_STREAM_SPOOL=512MiB",
	}, config.API)
	require.NoError(t, err)
	if archived.Archive != "s3://bucket/feed" || archived.ArchiveEvery != 3*time.Second || archived.ArchiveKeep != 48*time.Hour || archived.StreamSpool != 512<<20 {
		t.Errorf("read %+v", archived)
	}
}

func TestBadEnvironmentNamesEachFault(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  []string
		role config.Role
		want []string
	}{
		{"unknown name", []string{"FANFARE_WORKERS=3"}, config.Worker, []string{"FANFARE_WORKERS is unknown"}},
		{"typing error", []string{"FANFARE_LIKE_WINDWO=1s"}, config.Worker, []string{"FANFARE_LIKE_WINDWO is unknown: did you mean FANFARE_LIKE_WINDOW?"}},
		{"engine", []string{"FANFARE_ENGINE=gcp"}, config.Worker, []string{`FANFARE_ENGINE: "gcp"`}},
		{"auth", []string{"FANFARE_AUTH=none"}, config.API, []string{`FANFARE_AUTH: "none"`}},
		{"table", []string{"FANFARE_TABLE=a b c"}, config.Worker, []string{"FANFARE_TABLE"}},
		{"reactions", []string{"FANFARE_REACTIONS=love,like,Wow,2fast,abcdefghijklm,love,"}, config.Worker, []string{
			"FANFARE_REACTIONS: like is there already", `FANFARE_REACTIONS: "Wow" is not`, `FANFARE_REACTIONS: "2fast"`, `FANFARE_REACTIONS: "abcdefghijklm"`, "FANFARE_REACTIONS: love is there already", `FANFARE_REACTIONS: "" is not`,
		}},
		{"reaction with a path of its own", []string{"FANFARE_REACTIONS=love,count"}, config.Worker, []string{"FANFARE_REACTIONS: count is the path"}},
		{"too many reactions", []string{"FANFARE_REACTIONS=a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q"}, config.Worker, []string{"FANFARE_REACTIONS: 17 parts are more than 16"}},
		{"an archive on aws", []string{"FANFARE_ENGINE=aws", "FANFARE_ARCHIVE=s3://bucket/feed", "FANFARE_STREAM_SPOOL=1GiB"}, config.Worker, []string{"FANFARE_ARCHIVE: it is of the embedded engine", "FANFARE_STREAM_SPOOL: it is of the embedded engine"}},
		{"archives that are no store", []string{"FANFARE_ARCHIVE=gs://bucket/feed"}, config.Worker, []string{`FANFARE_ARCHIVE: "gs://bucket/feed" has an unknown scheme: write s3://bucket/prefix or file:///directory`}},
		{"an archive with credentials", []string{"FANFARE_ARCHIVE=s3://key:hunter2@bucket/feed"}, config.Worker, []string{"FANFARE_ARCHIVE: it has credentials"}},
		{"ranges of an archive", []string{"FANFARE_ARCHIVE=s3://bucket/feed", "FANFARE_ARCHIVE_EVERY=500ms", "FANFARE_ARCHIVE_KEEP=1h", "FANFARE_STREAM_SPOOL=63MiB"}, config.Worker, []string{
			"FANFARE_ARCHIVE_EVERY: 500ms is not between 1s and 1m", "FANFARE_ARCHIVE_KEEP: 1h0m0s is not between 2h", "FANFARE_STREAM_SPOOL: 63MiB is below 64MiB: a short outage of the archive would make a gap",
		}},
		{"a size", []string{"FANFARE_STREAM_SPOOL=4GB"}, config.Worker, []string{`FANFARE_STREAM_SPOOL: "4GB" is not a size such as 512MiB`}},
		{"a part of a size", []string{"FANFARE_STREAM_SPOOL=1.5GiB"}, config.Worker, []string{`FANFARE_STREAM_SPOOL: "1.5GiB" is not a size`}},
		{"a newline in the credentials of an archive", []string{"FANFARE_ARCHIVE=s3://bucket/feed", "AWS_SECRET_ACCESS_KEY=hunter2\n"}, config.Worker, []string{"AWS_SECRET_ACCESS_KEY: it ends in a newline"}},
		{"queue prefix", []string{"FANFARE_QUEUE_PREFIX=a.b"}, config.Worker, []string{"FANFARE_QUEUE_PREFIX"}},
		{"events queue", []string{"FANFARE_EVENTS_QUEUE=a.fifo"}, config.Worker, []string{"FANFARE_EVENTS_QUEUE"}},
		{"events queue of its own", []string{"FANFARE_EVENTS_QUEUE=fanfare-likes-dlq"}, config.Worker, []string{`FANFARE_EVENTS_QUEUE: "fanfare-likes-dlq" is a queue of Fanfare`}},
		{"address", []string{"FANFARE_HTTP_ADDR=8080", "FANFARE_ADMIN_ADDR=x:99999", "FANFARE_METRICS_ADDR=9091"}, config.Worker, []string{"FANFARE_HTTP_ADDR", "FANFARE_ADMIN_ADDR", "FANFARE_METRICS_ADDR"}},
		{"types, all at once", []string{"FANFARE_LIKE_WINDOW=1", "FANFARE_PUSH_LIMIT=many", "FANFARE_LIKES_BY_USER=yes", "FANFARE_CANARY=2", "FANFARE_LOG_LEVEL=loud", "FANFARE_RATE_LIMIT=1e3", "FANFARE_TIMELINE_TTL=30d", "FANFARE_ENGINE=x"},
			config.Worker, []string{`FANFARE_LIKE_WINDOW: "1" is not a duration`, "FANFARE_PUSH_LIMIT", "FANFARE_LIKES_BY_USER", `FANFARE_CANARY: "2" is not on or off`, "FANFARE_LOG_LEVEL", "FANFARE_RATE_LIMIT", "FANFARE_TIMELINE_TTL", "FANFARE_ENGINE"}},
		{"ranges", []string{"FANFARE_LIKE_WINDOW=1ms", "FANFARE_TIMELINE_TTL=1s", "FANFARE_PUSH_LIMIT=-1", "FANFARE_ACTIVE_DAYS=-1", "FANFARE_MAX_FOLLOWING=-1", "FANFARE_RATE_LIMIT=-1", "FANFARE_LOG_LEVEL=fatal", "FANFARE_STREAMS=0", "FANFARE_STREAMS_PER_USER=0"},
			config.Worker, []string{"FANFARE_LIKE_WINDOW", "FANFARE_TIMELINE_TTL", "FANFARE_PUSH_LIMIT", "FANFARE_ACTIVE_DAYS: -1 is neither", "FANFARE_MAX_FOLLOWING", "FANFARE_RATE_LIMIT", "FANFARE_LOG_LEVEL", "FANFARE_STREAMS", "FANFARE_STREAMS_PER_USER"}},
		{"a drain that is no time", []string{"FANFARE_DRAIN=10"}, config.Worker, []string{`FANFARE_DRAIN: "10" is not a duration such as 1s`}},
		{"a drain without end", []string{"FANFARE_DRAIN=6m"}, config.Worker, []string{"FANFARE_DRAIN: 6m0s is not between 0s and 5m"}},
		{"a negative drain", []string{"FANFARE_DRAIN=-1s"}, config.API, []string{"FANFARE_DRAIN: -1s is not between"}},
		{"an active day too few", []string{"FANFARE_ACTIVE_DAYS=1"}, config.Worker, []string{"FANFARE_ACTIVE_DAYS: 1 is neither 0 (off) nor between 2 and 3650"}},
		{"neither on nor off", []string{"FANFARE_CONSOLE=yes"}, config.API, []string{`FANFARE_CONSOLE: "yes" is not on or off`}},
		{"origins", []string{"FANFARE_CORS_ORIGINS=*"}, config.API, []string{"FANFARE_CORS_ORIGINS"}},
		{"a pattern of origins", []string{"FANFARE_CORS_ORIGINS=https://*.example.com"}, config.API, []string{"FANFARE_CORS_ORIGINS"}},
		{"pictures of everywhere", []string{"FANFARE_CONSOLE_IMAGES=*"}, config.API, []string{`FANFARE_CONSOLE_IMAGES: "*" is not an origin such as`}},
		{"pictures of a pattern", []string{"FANFARE_CONSOLE_IMAGES=https://*.example.com"}, config.API, []string{`FANFARE_CONSOLE_IMAGES: "https://*.example.com" is not an origin such as`}},
		{"pictures of a path", []string{"FANFARE_CONSOLE_IMAGES=https://cdn.example/a; script-src *"}, config.API, []string{`FANFARE_CONSOLE_IMAGES: "https://cdn.example/a; script-src *" is not an origin as browsers send it: write https://cdn.example`}},
		{"pictures of an address without a name", []string{"FANFARE_CONSOLE_IMAGES=http://[::1]:3000"}, config.API, []string{`FANFARE_CONSOLE_IMAGES: "http://[::1]:3000" is an IPv6 address`}},
		{"headers of pages", []string{"FANFARE_CORS_HEADERS=X-Trace, a b"}, config.API, []string{`FANFARE_CORS_HEADERS: "a b"`}},
		{"short secret", []string{"FANFARE_DEV_SECRET=short"}, config.API, []string{"FANFARE_DEV_SECRET: it has 5 bytes"}},
		{"dev tokens on aws", []string{"FANFARE_ENGINE=aws"}, config.API, []string{"FANFARE_AUTH: dev"}},
		{"dev tokens on aws, allowed, no secret", []string{"FANFARE_ENGINE=aws", "FANFARE_DEV_AUTH_ON_AWS=allow"}, config.API, []string{"FANFARE_DEV_SECRET is missing"}},
		{"allowed wrongly", []string{"FANFARE_DEV_AUTH_ON_AWS=yes"}, config.API, []string{"FANFARE_DEV_AUTH_ON_AWS"}},
		{"dev tokens for other machines", []string{"FANFARE_HTTP_ADDR=0.0.0.0:8080"}, config.API, []string{"FANFARE_AUTH: dev gives a token to whoever asks and is refused on 0.0.0.0:8080"}},
		{"a host with a port", []string{"FANFARE_DEV_AUTH_PUBLIC=allow", "FANFARE_DEV_AUTH_HOSTS=api:8080"}, config.API, []string{"FANFARE_DEV_AUTH_HOSTS"}},
		{"all hosts", []string{"FANFARE_DEV_AUTH_PUBLIC=allow", "FANFARE_DEV_AUTH_HOSTS=*"}, config.API, []string{"FANFARE_DEV_AUTH_HOSTS"}},
		{"no host", []string{"FANFARE_DEV_AUTH_PUBLIC=allow", "FANFARE_DEV_AUTH_HOSTS=api,"}, config.API, []string{"FANFARE_DEV_AUTH_HOSTS"}},
		{"other hosts without public dev tokens", []string{"FANFARE_DEV_AUTH_HOSTS=api"}, config.API, []string{"FANFARE_DEV_AUTH_HOSTS"}},
		{"public, allowed wrongly", []string{"FANFARE_DEV_AUTH_PUBLIC=yes"}, config.API, []string{"FANFARE_DEV_AUTH_PUBLIC"}},
		{"jwt without its settings", []string{"FANFARE_AUTH=jwt"}, config.API, []string{"FANFARE_JWT_ISSUER", "FANFARE_JWT_AUDIENCE"}},
		{"an issuer that is no URL, without its keys", []string{"FANFARE_AUTH=jwt", "FANFARE_JWT_ISSUER=i", "FANFARE_JWT_AUDIENCE=a"}, config.API, []string{"FANFARE_JWT_ISSUER: it is not an https URL; if the issuer is not below one, name its keys in FANFARE_JWKS_URL"}},
		{"an issuer over http, without its keys", []string{"FANFARE_AUTH=jwt", "FANFARE_JWT_ISSUER=http://issuer.example", "FANFARE_JWT_AUDIENCE=a"}, config.API, []string{"FANFARE_JWT_ISSUER: it is http"}},
		{"an empty audience", []string{"FANFARE_JWT_AUDIENCE=a,"}, config.Tool, []string{"FANFARE_JWT_AUDIENCE: one of its parts is empty"}},
		{"a negative hour", []string{"FANFARE_USER_UNITS=-1"}, config.Tool, []string{"FANFARE_USER_UNITS: -1 is neither 0 (no limit) nor between 10000 and 1000000000000"}},
		{"an hour of less than a canary", []string{"FANFARE_USER_UNITS=9999"}, config.Tool, []string{"FANFARE_USER_UNITS: 9999 is neither"}},
		{"an hour without a bound", []string{"FANFARE_USER_UNITS=1000000000001"}, config.Worker, []string{"FANFARE_USER_UNITS: 1000000000001 is neither"}},
		{"an hour in words", []string{"FANFARE_USER_UNITS=1e6"}, config.API, []string{`FANFARE_USER_UNITS: "1e6" is not a whole number`}},
		{"pages that act for users", []string{"FANFARE_CORS_HEADERS=X-Team,fanfare-user"}, config.Tool, []string{"FANFARE_CORS_HEADERS: Fanfare-User goes with the token of a service"}},
		{"a scope of two words", []string{"FANFARE_SERVICE_SCOPE=fanfare act"}, config.Tool, []string{"FANFARE_SERVICE_SCOPE"}},
		{"an empty scope", []string{"FANFARE_SERVICE_SCOPE= "}, config.Tool, []string{"FANFARE_SERVICE_SCOPE"}},
		{"one scope for all", []string{"FANFARE_SERVICE_SCOPE=fanfare:delete"}, config.Tool, []string{`FANFARE_SERVICE_SCOPE: "fanfare:delete" is also the scope to delete users`}},
		{"a former name", []string{"FANFARE_LEASE=3s"}, config.Tool, []string{"FANFARE_LEASE is no setting any more: remove it, because the lease is three fifths of FANFARE_FAILOVER_AFTER, 3s at most"}},
		{"jwks url, not used", []string{"FANFARE_JWKS_URL=keys.json"}, config.Tool, []string{"FANFARE_JWKS_URL"}},
		{"jwks url", []string{"FANFARE_AUTH=jwt", "FANFARE_JWT_ISSUER=i", "FANFARE_JWT_AUDIENCE=a", "FANFARE_JWKS_URL=keys.json"}, config.API, []string{"FANFARE_JWKS_URL"}},
		{"jwks url with credentials", []string{"FANFARE_JWKS_URL=https://user:hunter2@issuer.example/keys"}, config.Tool, []string{"FANFARE_JWKS_URL: it has credentials"}},
		{"jwks url with a user", []string{"FANFARE_JWKS_URL=https://hunter2@issuer.example/keys"}, config.Tool, []string{"FANFARE_JWKS_URL: it has credentials"}},
		{"jwks url of another scheme, with credentials", []string{"FANFARE_JWKS_URL=ftp://user:hunter2@issuer.example/keys"}, config.Tool, []string{"FANFARE_JWKS_URL: it is not an https URL"}},
		{"jwks url over http", []string{"FANFARE_JWKS_URL=http://issuer.example/keys"}, config.Tool, []string{"FANFARE_JWKS_URL: it is http"}},
		{"jwks url over http, private network", []string{"FANFARE_JWKS_URL=http://10.0.0.7:8080/keys"}, config.Tool, []string{"FANFARE_JWKS_URL: it is http"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := config.Load(tt.env, tt.role)
			fault, ok := errors.AsType[*config.Error](err)
			require.Truef(t, ok, "error is %v", err)
			assert.Len(t, fault.Faults, len(tt.want))
			for _, want := range tt.want {
				assert.Truef(t, slices.ContainsFunc(fault.Faults, func(f string) bool { return strings.HasPrefix(f, want) }),
					"no fault begins with %q: %q", want, fault.Faults)
			}
			assert.NotContains(t, err.Error(), "hunter2", "the message has the password")
			assert.NotContains(t, err.Error(), "\n", "the message has more than one line")
		})
	}
}

// A daemon on AWS serves the console only if a setting enables the console.
func TestTheConsoleIsOnByDefaultOnTheEmbeddedEngineOnly(t *testing.T) {
	for env, want := range map[string]bool{
		"": true, "FANFARE_CONSOLE=off": false, "FANFARE_ENGINE=aws": false, "FANFARE_ENGINE=aws FANFARE_CONSOLE=on": true,
	} {
		c, err := config.Load(strings.Fields(env), config.Worker)
		require.NoError(t, err)
		assert.Equal(t, want, bool(c.Console), env)
	}
}

// On aws an older version, which can only push, may still run when this version starts.
func TestLargeAuthorsArePulledByDefaultWhereNoOtherVersionCanBeAtWork(t *testing.T) {
	for env, want := range map[string]int64{
		"": 50_000, "FANFARE_PUSH_LIMIT=": 50_000, "FANFARE_PUSH_LIMIT=0": 0, "FANFARE_PUSH_LIMIT=7": 7,
		"FANFARE_ENGINE=aws": 0, "FANFARE_ENGINE=aws FANFARE_PUSH_LIMIT=7": 7,
	} {
		c, err := config.Load(strings.Fields(env), config.Worker)
		require.NoError(t, err)
		assert.Equal(t, want, c.PushLimit, env)
	}
}

// fanfare up has no balancer that must notice the stop, so Ctrl-C ends fanfare up at once.
func TestOnlyProcessesOnAWSDrainByDefault(t *testing.T) {
	for env, want := range map[string]time.Duration{
		"": 0, "FANFARE_DRAIN=3s": 3 * time.Second, "FANFARE_DRAIN=": 0,
		"FANFARE_ENGINE=aws": 10 * time.Second, "FANFARE_ENGINE=aws FANFARE_DRAIN=0s": 0, "FANFARE_ENGINE=aws FANFARE_DRAIN=5m": 5 * time.Minute,
	} {
		c, err := config.Load(strings.Fields(env), config.Worker)
		require.NoError(t, err)
		assert.Equal(t, want, c.Drain, env)
	}
}

// Only the machine that issues dev tokens accepts them, unless a setting allows other machines.
func TestDevTokensAreForLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:0": true, "127.8.9.1:80": true, "[::1]:80": true, "localhost:80": true,
		":80": false, "0.0.0.0:80": false, "[::]:80": false, "10.0.0.7:80": false, "api.example:80": false,
	} {
		env := []string{"FANFARE_HTTP_ADDR=" + address}
		_, err := config.Load(env, config.API)
		assert.Equalf(t, want, err == nil, "%s: error %v", address, err)
		jwt := []string{"FANFARE_AUTH=jwt", "FANFARE_JWT_ISSUER=i", "FANFARE_JWT_AUDIENCE=a", "FANFARE_JWKS_URL=https://i"}
		_, err = config.Load(append(jwt, env...), config.API)
		assert.NoErrorf(t, err, "%s with jwt", address)
		_, err = config.Load(append(env, "FANFARE_DEV_AUTH_PUBLIC=allow"), config.API)
		assert.NoErrorf(t, err, "%s, allowed", address)
		_, err = config.Load(env, config.Tool)
		assert.NoErrorf(t, err, "%s for a tool", address)
	}
}

func TestKeysOfThisMachineMayComeOverHTTP(t *testing.T) {
	for _, host := range []string{"127.0.0.1:8080", "127.1.2.3", "[::1]:80", "[::1]", "localhost", "localhost:8080"} {
		_, err := config.Load([]string{"FANFARE_JWKS_URL=http://" + host + "/keys"}, config.Tool)
		assert.NoError(t, err, host)
	}
}

func TestWorkersNeedNoAuthentication(t *testing.T) {
	_, err := config.Load([]string{"FANFARE_ENGINE=aws"}, config.Worker)
	assert.NoError(t, err)
}

func TestSecretIsNeverInAMessage(t *testing.T) {
	_, err := config.Load([]string{"FANFARE_DEV_SECRET=hunter2", "FANFARE_X=1"}, config.API)
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error is %v", err)
	}
}

func TestTheLimitOfAnHourDefaultsByEngine(t *testing.T) {
	for env, want := range map[string]int64{"FANFARE_ENGINE=embedded": 0, "FANFARE_ENGINE=aws": 1_000_000, "FANFARE_USER_UNITS=0": 0, "FANFARE_USER_UNITS=10000": 10_000} {
		c, err := config.Load([]string{env}, config.Worker)
		require.NoError(t, err)
		assert.Equal(t, want, c.UserUnits, env)
	}
}

func TestRateLimitDefaultsByAuthentication(t *testing.T) {
	jwt := []string{"FANFARE_AUTH=jwt", "FANFARE_JWT_ISSUER=i", "FANFARE_JWT_AUDIENCE=a", "FANFARE_JWKS_URL=https://i"}
	c, err := config.Load(jwt, config.API)
	assert.NoError(t, err)
	assert.Equal(t, 100, c.RateLimit)
	c, err = config.Load(append(jwt, "FANFARE_RATE_LIMIT=0"), config.API)
	assert.NoError(t, err)
	assert.Zero(t, c.RateLimit)
}

// A service with the scope to act does not have the scope to delete by the same name.
func TestTheScopeToDeleteBelongsToTheScopeOfAService(t *testing.T) {
	for scope, want := range map[string]string{
		"fanfare:act": "fanfare:delete", "fanfare/act": "fanfare/delete", "https://api.example/feed:act": "https://api.example/feed:delete", "act": "act:delete",
	} {
		c, err := config.Load([]string{"FANFARE_SERVICE_SCOPE=" + scope}, config.Tool)
		require.NoError(t, err)
		assert.Equal(t, want, c.DeleteScope())
	}
}

func TestNotificationsWaitForTwoWindowsOfLikes(t *testing.T) {
	for window, want := range map[string]time.Duration{"10ms": 20 * time.Millisecond, "1s": 2 * time.Second, "30s": time.Minute, "1m": time.Minute} {
		c, err := config.Load([]string{"FANFARE_LIKE_WINDOW=" + window}, config.Worker)
		require.NoError(t, err)
		assert.Equal(t, want, c.NotifyWindow())
	}
}

// fanfare up is the only process of its data directory, so it has the one canary and the one auditor.
func TestUpHasItsOwnDefaults(t *testing.T) {
	for env, want := range map[string][]config.Switch{"": {true, true}, "FANFARE_CANARY=off": {false, true}, "FANFARE_AUDIT=off": {true, false}, "FANFARE_CANARY=on": {true, true}} {
		c, err := config.Load(strings.Fields(env), config.API)
		require.NoError(t, err)
		assert.Equal(t, env == "FANFARE_CANARY=on", bool(c.Canary), env)
		c.ForUp()
		assert.Equal(t, want, []config.Switch{c.Canary, c.Auditor}, env)
	}
}

// A removed name stops the start, because its value would have no effect. The fault names the rule that replaced it.
func TestARemovedNameIsRefusedWithItsSuccessor(t *testing.T) {
	names := config.Names()
	for _, r := range config.AllRemoved() {
		_, err := config.Load([]string{r.Name + "=1s"}, config.Tool)
		require.EqualError(t, err, "environment: "+r.Name+" is no setting any more: remove it, because "+r.Now)
		assert.NotContains(t, names, r.Name)
	}
}

// Each tag is right, so that no start meets a default, a bound or a check that cannot be used.
func TestTheTagsOfEachSettingAreUsable(t *testing.T) {
	tags := strings.Fields("env default aws dev up unset range zero why words pattern is form most engine advice needs shared by secret chart")
	byName := map[string]config.Field{}
	for _, f := range config.Fields() {
		byName[f.Name] = f
	}
	for _, f := range config.Fields() {
		for _, value := range append([]string{f.Default, f.AWS, f.Dev, f.Up, f.Low, f.High}, f.Words...) {
			_, err := config.Load([]string{f.Name + "=" + value}, config.Tool)
			assert.NoError(t, err, "%s=%s", f.Name, value)
		}
		declared, ok := reflect.TypeFor[config.Config]().FieldByName(f.In)
		require.True(t, ok, f.In)
		for _, tag := range regexp.MustCompile(`(\w+):"`).FindAllStringSubmatch(string(declared.Tag), -1) {
			assert.Contains(t, tags, tag[1], "%s: a tag that nothing reads", f.Name)
		}
		need, _, _ := strings.Cut(f.Needs, "=")
		assert.True(t, need == "" || byName[need].Name == need, "%s needs %s", f.Name, need)
		assert.True(t, f.Is == "" || f.Pattern != "", f.Name)
		assert.NotEmpty(t, f.By, f.Name)
		if slices.Contains([]string{"whole", "duration", "size"}, f.Kind) {
			assert.NotEmpty(t, f.Low, "%s has no bounds", f.Name)
			assert.NotEmpty(t, f.Default, "%s has no default", f.Name)
		}
	}
}
