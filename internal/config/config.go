// Package config reads the environment strictly: an unknown name FANFARE_*, or an unusable
// value, stops the start. It reports all faults together, each with the name of its variable.
// Package config must never read anything but the given environment, and starts nothing.
package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"
)

// Engine is the kind of storage and queue.
type Engine string

// The engines.
const (
	// EngineEmbedded keeps everything in a data directory of one process.
	EngineEmbedded Engine = "embedded"
	// EngineAWS keeps the data in DynamoDB, and sends messages through SQS.
	EngineAWS Engine = "aws"
)

// Auth is the way in which callers authenticate.
type Auth string

// The methods of authentication.
const (
	// AuthDev gives a token to anyone, for development.
	AuthDev Auth = "dev"
	// AuthJWT checks the tokens of an issuer.
	AuthJWT Auth = "jwt"
	// AuthSite has no tokens: the program that embeds Fanfare identifies the callers. No setting chooses it.
	AuthSite Auth = "site"
)

// Config holds the settings of a process. An empty value counts as absent. The tags and the comment of a field
// declare its setting: the checks, the table of docs/CONFIGURATION.md, the chart and the comparison of
// fanfare doctor read them (see Field).
type Config struct {
	// Engine: `embedded` is a data directory of one process (`up`), `aws` is DynamoDB and SQS (`api`, `fanout`,
	// `likeagg`).
	Engine Engine `env:"FANFARE_ENGINE" default:"embedded" words:"embedded,aws" chart:"write engine" by:"all"`
	// DataDir is the directory of the embedded engine; `--data-dir`.
	DataDir string `env:"FANFARE_DATA_DIR" default:"fanfare-data" chart:"the chart mounts the volume of up there" by:"up,token"`
	// Archive is the place of the archive: `s3://bucket/prefix` or `file:///directory` ([BACKUP.md](BACKUP.md)).
	// `deploy/cloudformation/archive.yaml` makes a bucket.
	Archive string `env:"FANFARE_ARCHIVE" form:"archive" engine:"embedded" advice:"use the point-in-time recovery of DynamoDB (docs/BACKUP.md)" by:"up"`
	// ArchiveEvery is the time between two segments.
	ArchiveEvery time.Duration `env:"FANFARE_ARCHIVE_EVERY" default:"1s" range:"1s..1m" engine:"embedded" needs:"FANFARE_ARCHIVE" by:"up"`
	// ArchiveKeep: for how long each past second can be restored.
	ArchiveKeep time.Duration `env:"FANFARE_ARCHIVE_KEEP" default:"168h" range:"2h..87600h" engine:"embedded" needs:"FANFARE_ARCHIVE" by:"up"`
	// StreamSpool is disk for bytes that the archive lacks. When it is full, there is a gap.
	StreamSpool Bytes `env:"FANFARE_STREAM_SPOOL" default:"4GiB" range:"64MiB.." why:"a short outage of the archive would make a gap" engine:"embedded" needs:"FANFARE_ARCHIVE" by:"up"`
	// Peer: `HOST:PORT` of the other machine of a pair ([ONE_MACHINE.md](ONE_MACHINE.md)).
	Peer string `env:"FANFARE_PEER" form:"peer" engine:"embedded" chart:"write up.pair" by:"up"`
	// PeerAddr is the address at which this machine listens for the other machine.
	PeerAddr string `env:"FANFARE_PEER_ADDR" form:"address" engine:"embedded" needs:"FANFARE_PEER" chart:"write up.pair" by:"up"`
	// PeerCert is the file of this machine's certificate; `fanfare pair keys` makes the files.
	PeerCert string `env:"FANFARE_PEER_CERT" engine:"embedded" needs:"FANFARE_PEER" chart:"write up.pair" by:"up"`
	// PeerKey is the file of this machine's key.
	PeerKey string `env:"FANFARE_PEER_KEY" engine:"embedded" needs:"FANFARE_PEER" chart:"write up.pair" by:"up"`
	// PeerCA is the file of the certificate that signed the certificates of both machines.
	PeerCA string `env:"FANFARE_PEER_CA" engine:"embedded" needs:"FANFARE_PEER" chart:"write up.pair" by:"up"`
	// Register: `s3://bucket/prefix` of the register that decides which machine of a pair is the primary.
	Register string `env:"FANFARE_REGISTER" form:"register" engine:"embedded" needs:"FANFARE_PEER" chart:"write up.pair.register" by:"up"`
	// FailoverAfter is the time without the primary after which the standby takes over, the same on both machines.
	// A write waits for the standby for two fifths of this time, 2s at most. A promise of the standby lets
	// the primary answer reads for three fifths, 3s at most: the lease.
	FailoverAfter time.Duration `env:"FANFARE_FAILOVER_AFTER" default:"5s" range:"3s..1h" engine:"embedded" needs:"FANFARE_PEER" by:"up"`
	// Table is the name of the DynamoDB table.
	Table string `env:"FANFARE_TABLE" default:"fanfare" pattern:"[A-Za-z0-9_.-]{3,255}" is:"3 to 255 of A-Z a-z 0-9 _ - ." chart:"write aws.table" by:"api,fanout,likeagg,table,reconcile,verify,explain,delivery"`
	// QueuePrefix is the start of the names of the SQS queues (`fanfare-posts`).
	QueuePrefix string `env:"FANFARE_QUEUE_PREFIX" default:"fanfare" pattern:"[A-Za-z0-9_-]{1,60}" is:"1 to 60 of A-Z a-z 0-9 _ -" chart:"write aws.queuePrefix" by:"api,fanout,likeagg,queues,dlq,reconcile,verify,explain,delivery"`
	// EventsQueue is the name of an SQS standard queue, in the region and account of the other queues, that gets
	// an event for each delivered post, counted like, new follow and notification
	// ([PRODUCERS.md](PRODUCERS.md#events-for-others)). If the queue does not exist, the start fails; if SQS does
	// not answer, the start succeeds.
	EventsQueue string `env:"FANFARE_EVENTS_QUEUE" pattern:"[A-Za-z0-9_-]{1,80}" is:"the name of a standard queue: up to 80 of A-Z a-z 0-9 _ -" by:"fanout,likeagg,up"`
	// EventsKept: how long `GET /v1/events` has these events.
	EventsKept time.Duration `env:"FANFARE_EVENTS_KEPT" default:"0s" range:"1h..720h" zero:"off" why:"a reader may be down for a while" engine:"embedded" advice:"set FANFARE_EVENTS_QUEUE (docs/PRODUCERS.md)" by:"up"`
	// HTTPAddr is the address of the API; `--http`. The default listens on this machine only. `:8080` listens on
	// all addresses, as a container or a load balancer needs. `replay` calls this address.
	HTTPAddr string `env:"FANFARE_HTTP_ADDR" default:"127.0.0.1:8080" form:"address" chart:"the Service leads to port 8080" by:"api,up,replay"`
	// AdminAddr is the address of `/healthz`, `/servez`, `/readyz`, metrics, profiles and operations; `--admin`.
	// The address needs no token, so keep it off the network; the start logs a warning if other machines may reach
	// the address. A request whose `Host` is neither an IP address, `localhost` nor the host of this setting gets
	// 421: a scraper that uses another name needs `FANFARE_METRICS_ADDR`. A redrive or drop of all dead letters of
	// a topic must have `"all": true`.
	AdminAddr string `env:"FANFARE_ADMIN_ADDR" default:"127.0.0.1:9090" form:"address" chart:"kubectl port-forward reaches its default, 127.0.0.1:9090" by:"api,fanout,likeagg,up,dlq,reconcile,verify,explain,delivery,health,replay"`
	// MetricsAddr is one more address of `/metrics`, `/healthz`, `/servez` and `/readyz`, without operations and
	// profiles, for scrapers and probes on the network: `:9091`. This address accepts any `Host`, and 64
	// connections at once. The admin address may then stay on loopback.
	MetricsAddr string `env:"FANFARE_METRICS_ADDR" form:"address" chart:"the probes ask port 9091" by:"api,fanout,likeagg,up"`
	// Pprof: `on` serves profiles at `/debug/pprof/` of the admin address.
	Pprof Switch `env:"FANFARE_PPROF" default:"off" by:"api,fanout,likeagg,up"`
	// Console: `on` serves the console at the root of the API: pages of the home, users, posts and notifications.
	// With `up`, dev tokens and a loopback address the console also has `/operator`, the page for operators that
	// every admin address has at its root. With `off` the root redirects to `/docs`.
	Console Switch `env:"FANFARE_CONSOLE" default:"on" aws:"off" by:"api,up"`
	// ConsoleImages are the origins of pictures and avatars that the console shows, separated by commas:
	// `https://cdn.example.com`. A picture of any other host is a link. Each of these hosts sees the addresses of
	// the readers.
	ConsoleImages []string `env:"FANFARE_CONSOLE_IMAGES" form:"pictures" pattern:"https?://[a-z0-9.-]+(:[0-9]{1,5})?" needs:"FANFARE_CONSOLE=on" by:"api,up"`
	// Auth: `jwt` checks the tokens of an issuer; `dev` gives a token to any caller with `Content-Type:
	// application/json`. On `aws` the start refuses `dev` without `FANFARE_DEV_AUTH_ON_AWS`, on addresses that
	// other machines can reach without `FANFARE_DEV_AUTH_PUBLIC`. With `dev` the API answers 421 to a request
	// whose `Host` is neither an IP address, nor `localhost`, nor in `FANFARE_DEV_AUTH_HOSTS`; and, unless
	// `FANFARE_DEV_AUTH_PUBLIC` is `allow`, to a request with a header of a proxy (`X-Forwarded-*`, `X-Real-IP`,
	// `Forwarded`, `Via`). A proxy without these headers looks like a local caller: set `jwt` behind each proxy.
	Auth Auth `env:"FANFARE_AUTH" default:"dev" words:"dev,jwt" chart:"the chart deploys jwt: with dev tokens anyone could be any user" by:"api,up"`
	// JWTIssuer is the `iss` that tokens must have; needed with `jwt`.
	JWTIssuer string `env:"FANFARE_JWT_ISSUER" needs:"FANFARE_AUTH=jwt" chart:"write auth.issuer" by:"api,up"`
	// JWTAudience: values separated by commas; the `aud` of a token, or the `client_id` of a Cognito access token,
	// must be one of them; needed with `jwt`.
	JWTAudience []string `env:"FANFARE_JWT_AUDIENCE" form:"audience" needs:"FANFARE_AUTH=jwt" chart:"write auth.audience" by:"api,up"`
	// JWKSURL is the https URL of the issuer's keys, without credentials. By default the issuer's discovery
	// document names the keys (`/.well-known/openid-configuration` below `FANFARE_JWT_ISSUER`). `http` is accepted
	// on a loopback address only; a redirect to `http` is never followed.
	JWKSURL string `env:"FANFARE_JWKS_URL" form:"keys" needs:"FANFARE_AUTH=jwt" chart:"write auth.jwksUrl" by:"api,up"`
	// JWTUserClaim: with `jwt`, the claim with the user id; it must be unique, and the user must not be able to
	// change it.
	JWTUserClaim string `env:"FANFARE_JWT_USER_CLAIM" default:"sub" by:"api,up"`
	// ServiceScope is the scope that lets a token act for any user, with `jwt` ([TOKENS.md](TOKENS.md#services)).
	// To delete a user for whom it acts, or to take a post down, the token also needs the scope with `delete` in
	// place of the part after the last `:` or `/`: `fanfare:delete`.
	ServiceScope string `env:"FANFARE_SERVICE_SCOPE" default:"fanfare:act" pattern:"[!#-\\[\\]-~]+" is:"the name of a scope: use visible ASCII without spaces, quotes and backslashes" by:"api,up"`
	// LikeWindow is the time in which likes of a post are collected before its count is written. Homes share
	// counts for half of this time, and events about a notification are collected for twice this time, 1m at most.
	// With a longer window likes cost less, and counts are later.
	LikeWindow time.Duration `env:"FANFARE_LIKE_WINDOW" default:"1s" range:"10ms..1m" shared:"api,likeagg" by:"api,fanout,likeagg,up"`
	// Notifications: `on` keeps notifications of likes, comments, follows, mentions and reposts
	// ([decisions/0049](decisions/0049-notifications.md)). A notification costs 2 write units, and 3 for each
	// later window.
	Notifications Switch `env:"FANFARE_NOTIFICATIONS" default:"on" aws:"off" shared:"api,fanout,likeagg" by:"api,fanout,likeagg,up"`
	// NotificationTTL: how long a notification is kept after its last change.
	NotificationTTL time.Duration `env:"FANFARE_NOTIFICATION_TTL" default:"2160h" range:"816h..87600h" by:"fanout,up"`
	// TimelineTTL is the time that a post stays in homes. The table stores the value: a process that starts with
	// another value changes it for all processes, a day later ([decisions/0042](decisions/0042-timeline-ttl.md)).
	TimelineTTL time.Duration `env:"FANFARE_TIMELINE_TTL" default:"720h" range:"1m..87600h" by:"api,fanout,up,reconcile,verify,explain,delivery"`
	// PushLimit is the number of followers above which homes merge an author's posts, without delivery; below 80 %
	// of this number posts are delivered again. 0 is never. On `aws` use 50000, as the stack does, in all
	// processes ([decisions/0022](decisions/0022-push-limit.md)).
	PushLimit int64 `env:"FANFARE_PUSH_LIMIT" default:"50000" aws:"0" range:"0.." by:"fanout,up,replay"`
	// ActiveDays: how many days after the last read of a home its reader gets posts delivered. Fan-out skips
	// readers who stay away longer, which saves writes; they get the missed posts at the first read. 0 skips no
	// reader; 1 is refused, because daily readers would return each day. Processes with different values miss no
	// post ([HYBRID.md](HYBRID.md)).
	ActiveDays int `env:"FANFARE_ACTIVE_DAYS" default:"14" range:"2..3650" zero:"off" by:"api,fanout,up"`
	// MaxFollowing is the exact number of users whom one user may follow; one more gets 409 `following-limit`.
	// Existing follows stay. 0 is no limit.
	MaxFollowing int64 `env:"FANFARE_MAX_FOLLOWING" default:"5000" range:"0.." by:"api,up"`
	// LikesByUser: `off` drops the index of likes by user, which costs one write unit for each like. With `off`,
	// `/v1/users/{id}/likes` is 404, a home page of 20 costs 9.5 read units more, and new likes stay out of the
	// index.
	LikesByUser Switch `env:"FANFARE_LIKES_BY_USER" default:"on" shared:"api,likeagg" by:"api,likeagg,up,verify"`
	// Reactions are the kinds of reaction besides `like`, separated by commas. Homes and views then show the counts
	// of all kinds, at no further units.
	Reactions []string `env:"FANFARE_REACTIONS" most:"16" pattern:"[a-z][a-z0-9]{0,11}" is:"1 to 12 of a-z 0-9, a letter first" shared:"api,likeagg" by:"api,likeagg,up,replay"`
	// RateLimit are the requests of a user to one process in a second; a burst may have ten times as many. A
	// request counts once more for each full 20 capacity units that it uses or causes: a home of 20 posts counts
	// two or three times, `source=pull` once more for 20 followees, a post once more for 20 followers. The API
	// charges units after the answer, so the next request may get 429. A like or an unlike counts five times for
	// its user, and once for a service. 0 is no limit. A service gets ten times as many for all its users, and
	// each of its requests counts for its user, too.
	RateLimit int `env:"FANFARE_RATE_LIMIT" default:"100" dev:"0" range:"0..1000000" by:"api,up"`
	// UserUnits are the capacity units that one user's posts (with their mentions and texts), follows, unfollows,
	// comments and renames may cause in an hour, over all processes; another `image_url` of a profile costs as
	// much as a rename, so give it a URL that lasts; then these calls get 429 until the next hour begins. 0 is no
	// limit ([decisions/0044](decisions/0044-hour-of-a-user.md)).
	UserUnits int64 `env:"FANFARE_USER_UNITS" default:"0" aws:"1000000" range:"10000..1000000000000" zero:"no limit" why:"one follow may cause 900, and the canary causes some 4500" by:"api,fanout,up"`
	// Canary: `on` tests posts, homes, likes and counts every 10 seconds with two users of the canary
	// ([OPERATIONS.md](OPERATIONS.md#the-canary)). One `api` of a deployment is enough.
	Canary Switch `env:"FANFARE_CANARY" default:"off" up:"on" chart:"write canary.enabled: one process is enough" by:"api,up"`
	// Auditor: `on` compares stored items with each other constantly, with 1 % of the units of the process
	// ([OPERATIONS.md](OPERATIONS.md#verify-and-the-auditor)). One process is enough.
	Auditor Switch `env:"FANFARE_AUDIT" default:"off" up:"on" chart:"write canary.auditor: one process is enough" by:"all"`
	// Streams are the live homes (`/v1/home/stream`) that a process serves at once, at most half of the connections
	// that its descriptors allow; one more gets 503. Raise `ulimit -n` too.
	Streams int `env:"FANFARE_STREAMS" default:"4096" range:"1.." by:"api,up"`
	// StreamsPerUser are the live homes of one user that a process serves at once; one more gets 429. Together they
	// read 100 units a second, and some 1,000 at once; then a new one gets 429, too.
	StreamsPerUser int `env:"FANFARE_STREAMS_PER_USER" default:"8" range:"1.." by:"api,up"`
	// CORSOrigins are the origins of web pages that may call the API, separated by commas, in full as browsers send
	// them: `https://app.example`.
	CORSOrigins []string `env:"FANFARE_CORS_ORIGINS" form:"origin" pattern:"https?://[a-z0-9.-]+(:[0-9]{1,5})?" by:"api,up"`
	// CORSHeaders: headers that these pages may send, separated by commas, besides the headers of the API and of
	// tracing (`traceparent`, `tracestate`, `baggage`, `sentry-trace`).
	CORSHeaders []string `env:"FANFARE_CORS_HEADERS" pattern:"[A-Za-z0-9!#$%&'*+.^_\\x60|~-]+" is:"the name of a header" needs:"FANFARE_CORS_ORIGINS" by:"api,up"`
	// DevSecret is the secret that signs dev tokens, at least 32 bytes. On `aws` every `api` needs the same
	// secret; the embedded engine makes a secret.
	DevSecret string `env:"FANFARE_DEV_SECRET" form:"secret" secret:"yes" needs:"FANFARE_AUTH=dev" by:"api,up,token"`
	// DevAuthOnAWS: `allow` permits dev tokens on `aws`, for a test system.
	DevAuthOnAWS string `env:"FANFARE_DEV_AUTH_ON_AWS" words:"allow" needs:"FANFARE_AUTH=dev" by:"api"`
	// DevAuthPublic: `allow` permits dev tokens if `FANFARE_HTTP_ADDR` is not a loopback address, and for requests
	// through a proxy, for a test system: any caller can be any user.
	DevAuthPublic string `env:"FANFARE_DEV_AUTH_PUBLIC" words:"allow" needs:"FANFARE_AUTH=dev" by:"api,up"`
	// DevAuthHosts: names, separated by commas, by which requests may call an API with dev tokens besides
	// `localhost` and IP addresses: `api.internal`. It needs `FANFARE_DEV_AUTH_PUBLIC`, because another name means
	// other machines. Any other `Host` gets 421, because a web page can point its own name to the address of the
	// API.
	DevAuthHosts []string `env:"FANFARE_DEV_AUTH_HOSTS" pattern:"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,252}" is:"the name of a host such as api.internal: write it without a scheme, port and wildcard" needs:"FANFARE_AUTH=dev" by:"api,up"`
	// Drain is the time for which a process still serves after a stop request. Meanwhile `/servez` is 503, so a
	// load balancer sends new connections elsewhere: use more time than the balancer needs to notice
	// ([OPERATIONS.md](OPERATIONS.md#probes-and-stops)). `fanout` and `likeagg` stop at once.
	Drain time.Duration `env:"FANFARE_DRAIN" default:"0s" aws:"10s" range:"0s..5m" chart:"write drainSeconds, which sets the grace of the pods too; engine embedded has no drain" by:"api,up"`
	// LogLevel: `debug`, `info`, `warn` or `error`.
	LogLevel zapcore.Level `env:"FANFARE_LOG_LEVEL" default:"info" words:"debug,info,warn,error" by:"api,fanout,likeagg,up"`

	// Lease is the time for which a promise of the standby lets the primary answer reads, and StandbyTimeout is the
	// time after which a write that the standby has not confirmed is refused. Both follow FailoverAfter.
	Lease, StandbyTimeout time.Duration

	// set has the names of the settings that the environment sets.
	set map[string]bool
}

// Switch is on or off.
type Switch bool

func (s Switch) String() string {
	if s {
		return "on"
	}
	return "off"
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Switch) UnmarshalText(text []byte) error {
	switch string(text) {
	case "on":
		*s = true
	case "off":
		*s = false
	default:
		return fmt.Errorf("%q is neither on nor off", text)
	}
	return nil
}

// Bytes is a number of bytes.
type Bytes int64

func (b Bytes) String() string {
	number, unit := int64(b)>>10, 0
	for ; number != 0 && number%1024 == 0 && unit < len(sizes())-1; unit++ {
		number /= 1024
	}
	return strconv.FormatInt(number, 10) + sizes()[unit]
}

// sizes returns the units of a size, each with 1,024 of the unit before it.
func sizes() []string { return []string{"KiB", "MiB", "GiB", "TiB"} }

// UnmarshalText implements encoding.TextUnmarshaler. The text is a whole number with a unit, such as 512MiB.
func (b *Bytes) UnmarshalText(text []byte) error {
	for i, unit := range sizes() {
		number, has := strings.CutSuffix(string(text), unit)
		if !has {
			continue
		}
		n, err := strconv.ParseUint(number, 10, 16)
		if err == nil {
			*b = Bytes(n << (10 * (i + 1)))
			return nil
		}
	}
	return fmt.Errorf("%q is no size", text)
}

// Role is the duty of a process. The role decides which settings are required.
type Role int

// The roles.
const (
	// Tool is a command that serves no requests.
	Tool Role = iota
	// Worker consumes queues.
	Worker
	// API serves HTTP.
	API
	// Site serves HTTP inside a program that identifies the callers.
	Site
)

// Error holds the faults of the environment.
type Error struct{ Faults []string }

func (e *Error) Error() string { return "environment: " + strings.Join(e.Faults, "; ") }

// In reports whether the value of one of the given variables is a fault.
func (e *Error) In(variables ...string) bool {
	return slices.ContainsFunc(e.Faults, func(fault string) bool {
		return slices.ContainsFunc(variables, func(v string) bool {
			return strings.HasPrefix(fault, v+":") || strings.HasPrefix(fault, v+" is missing")
		})
	})
}
