// Package config reads the environment strictly: an unknown name FANFARE_*, or an unusable
// value, stops the start. It reports all faults together, each with the name of its variable.
// Package config must never read anything but the given environment, and starts nothing.
package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
	"go.uber.org/zap/zapcore"
)

// prefix begins the name of every setting of Fanfare.
const prefix = "FANFARE_"

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
)

// Config holds the settings of a process. An empty value counts as absent.
// docs/CONFIGURATION.md has a row for each field.
type Config struct {
	// Engine keeps the data: embedded (default) or aws.
	Engine Engine `env:"FANFARE_ENGINE" envDefault:"embedded"`
	// DataDir is the directory of the embedded engine.
	DataDir string `env:"FANFARE_DATA_DIR" envDefault:"fanfare-data"`
	// Archive is the store of the archive of the embedded engine, s3://bucket/prefix or
	// file:///directory, empty for none.
	Archive string `env:"FANFARE_ARCHIVE"`
	// ArchiveEvery is the time between two segments of the archive. The default is 1s.
	ArchiveEvery *time.Duration `env:"FANFARE_ARCHIVE_EVERY"`
	// ArchiveKeep is the time for which the archive keeps each past second. The default is 168h.
	ArchiveKeep *time.Duration `env:"FANFARE_ARCHIVE_KEEP"`
	// ArchiveBaseLog is the size of the log after which the archive gets its next base. The default is 8GiB.
	ArchiveBaseLog *Bytes `env:"FANFARE_ARCHIVE_BASE_LOG"`
	// StreamSpool is the maximum size of the part of the disk that keeps bytes for the archive.
	// The default is 4GiB.
	StreamSpool *Bytes `env:"FANFARE_STREAM_SPOOL"`
	// Peer is the HOST:PORT of the other machine of a pair, empty for none.
	Peer string `env:"FANFARE_PEER"`
	// PeerAddr is the address at which this machine listens for the other machine.
	PeerAddr string `env:"FANFARE_PEER_ADDR"`
	// PeerCert, PeerKey and PeerCA are the files of this machine's certificate and key, and of the certificate
	// that signed the certificates of both machines.
	PeerCert string `env:"FANFARE_PEER_CERT"`
	PeerKey  string `env:"FANFARE_PEER_KEY"`
	PeerCA   string `env:"FANFARE_PEER_CA"`
	// StandbyTimeout is the time after which a write that the standby has not confirmed is refused. The default is 2s.
	StandbyTimeout *time.Duration `env:"FANFARE_STANDBY_TIMEOUT"`
	// Lease is the time for which a promise of the standby lets the primary answer reads. The default is 3s.
	Lease *time.Duration `env:"FANFARE_LEASE"`
	// SeedRate is the maximum number of bytes a second of a seed. The default is 50MiB.
	SeedRate *Bytes `env:"FANFARE_SEED_RATE"`
	// Register is the store with the register of a pair, s3://bucket/prefix; off for none. See RegisterAt for the default.
	Register string `env:"FANFARE_REGISTER"`
	// Failover is auto if the standby becomes the primary by itself, or manual. The default is manual.
	Failover Failover `env:"FANFARE_FAILOVER"`
	// FailoverAfter is the time without a heartbeat after which a standby becomes the primary. The default is 5s.
	FailoverAfter *time.Duration `env:"FANFARE_FAILOVER_AFTER"`
	// Alone is auto if a primary without its standby may answer by itself, or never. The default is auto with a
	// register, and never without one.
	Alone Alone `env:"FANFARE_ALONE"`
	// Table is the name of the DynamoDB table.
	Table string `env:"FANFARE_TABLE" envDefault:"fanfare"`
	// QueuePrefix begins the names of the SQS queues.
	QueuePrefix string `env:"FANFARE_QUEUE_PREFIX" envDefault:"fanfare"`
	// EventsQueue is the name of an SQS queue that gets events of applied work, empty for none.
	EventsQueue string `env:"FANFARE_EVENTS_QUEUE"`
	// HTTPAddr is the address of the API. A program that embeds Fanfare may clear HTTPAddr and AdminAddr after
	// Load; then the process does not open the address.
	HTTPAddr string `env:"FANFARE_HTTP_ADDR" envDefault:"127.0.0.1:8080"`
	// AdminAddr is the address of metrics, profiles and operations. The address needs no token: keep
	// it off the network.
	AdminAddr string `env:"FANFARE_ADMIN_ADDR" envDefault:"127.0.0.1:9090"`
	// MetricsAddr is an additional address with metrics and health, but without operations.
	// By default there is no such address.
	MetricsAddr string `env:"FANFARE_METRICS_ADDR"`
	// Pprof enables profiles on the admin address: on or off (default).
	Pprof Switch `env:"FANFARE_PPROF" envDefault:"off"`
	// Console enables a page at the root of the API, on which people use the feed: on or off.
	// The default is on for embedded, and off for aws.
	Console *Switch `env:"FANFARE_CONSOLE"`
	// Auth is dev (default) or jwt. On aws dev is refused, unless DevAuthOnAWS allows it.
	Auth Auth `env:"FANFARE_AUTH" envDefault:"dev"`
	// JWTIssuer is, with jwt, the iss that tokens must have.
	JWTIssuer string `env:"FANFARE_JWT_ISSUER"`
	// JWTAudience are, with jwt, the accepted audiences, separated by commas. A token must name one of them in
	// aud (or, for an Amazon Cognito access token, in client_id).
	JWTAudience []string `env:"FANFARE_JWT_AUDIENCE"`
	// JWKSURL is, with jwt, the https URL of the issuer's keys. On a loopback address the
	// URL may be http. Without JWKSURL the issuer's discovery document names the keys.
	JWKSURL string `env:"FANFARE_JWKS_URL"`
	// JWTUserClaim is, with jwt, the name of the claim with the user id.
	JWTUserClaim string `env:"FANFARE_JWT_USER_CLAIM" envDefault:"sub"`
	// ServiceScope is, with jwt, the scope that lets a token act for any user.
	ServiceScope string `env:"FANFARE_SERVICE_SCOPE" envDefault:"fanfare:act"`
	// DeleteScope is, with jwt, the scope that a service also needs to delete a user.
	DeleteScope string `env:"FANFARE_DELETE_SCOPE" envDefault:"fanfare:delete"`
	// LikeWindow is the time for which likes of a post are collected before the post's count is written.
	LikeWindow time.Duration `env:"FANFARE_LIKE_WINDOW" envDefault:"1s"`
	// Notifications enables notifications of likes, comments, follows and mentions: on or off. The
	// default is on for embedded, and off for aws.
	Notifications *Switch `env:"FANFARE_NOTIFICATIONS"`
	// NotifyWindow is the time for which events about one notification are collected before the
	// notification is written.
	NotifyWindow time.Duration `env:"FANFARE_NOTIFY_WINDOW" envDefault:"2s"`
	// NotificationTTL is the time for which a notification is kept after its last change.
	NotificationTTL time.Duration `env:"FANFARE_NOTIFICATION_TTL" envDefault:"2160h"`
	// TimelineTTL is the time for which homes show a post.
	TimelineTTL time.Duration `env:"FANFARE_TIMELINE_TTL" envDefault:"720h"`
	// PushLimit is the number of followers above which an author is pulled; with 0 all
	// authors are pushed. The default is 50,000 on embedded. The default on aws is 0,
	// because workers of an older version that can only push may be running
	// (docs/decisions/0022).
	PushLimit *int64 `env:"FANFARE_PUSH_LIMIT"`
	// ActiveDays is the number of days for which the edges of a reader are dated ahead, 0 for no dates. Posts
	// of later days are delivered only after the reader has returned.
	ActiveDays int `env:"FANFARE_ACTIVE_DAYS" envDefault:"14"`
	// MaxFollowing is the number of users whom one user may follow; 0 is no limit.
	MaxFollowing int64 `env:"FANFARE_MAX_FOLLOWING" envDefault:"5000"`
	// LikesByUser enables the index of a user's likes: on (default) or off. The index costs
	// one write unit a like.
	LikesByUser Switch `env:"FANFARE_LIKES_BY_USER" envDefault:"on"`
	// Reactions are up to 16 kinds of reaction in addition to like, separated by commas. By
	// default there is only like.
	Reactions []string `env:"FANFARE_REACTIONS"`
	// RateLimit is the maximum number of requests of a user in a second; 0 is no limit. The
	// default is 100, and 0 with dev tokens.
	RateLimit *int `env:"FANFARE_RATE_LIMIT"`
	// ServiceRateLimit is the maximum number of requests of a service in a second, for all
	// its users; 0 is no limit. The default is 1000, and 0 with dev tokens.
	ServiceRateLimit *int `env:"FANFARE_SERVICE_RATE_LIMIT"`
	// UserUnits is the maximum number of capacity units that one user's calls cause in an hour, in
	// all processes; 0 is no limit. The default is 1,000,000 on aws, and 0 on embedded.
	UserUnits *int64 `env:"FANFARE_USER_UNITS"`
	// Canary enables the canary, which every 10 seconds posts, reads, likes and counts as its
	// own users: on or off. The default is off, and on with fanfare up.
	Canary *Switch `env:"FANFARE_CANARY"`
	// Auditor enables the auditor, which always checks the stored items against each other with
	// 1 % of the units of the process: on or off. The default is off, and on with fanfare up.
	Auditor *Switch `env:"FANFARE_AUDIT"`
	// Streams is the maximum number of live homes that a process serves at the same time.
	Streams int `env:"FANFARE_STREAMS" envDefault:"4096"`
	// StreamsPerUser is the maximum number of live homes of one user that a process serves at the same time.
	StreamsPerUser int `env:"FANFARE_STREAMS_PER_USER" envDefault:"8"`
	// StreamPoll is the time between two looks at a live home if there are no hints.
	StreamPoll time.Duration `env:"FANFARE_STREAM_POLL" envDefault:"60s"`
	// StreamLikes is the time between two looks at the like counts of a live home. The default is 2s on
	// embedded, and 60s on aws.
	StreamLikes *time.Duration `env:"FANFARE_STREAM_LIKES"`
	// CORSOrigins are the origins whose pages may call the API, separated by commas. By
	// default there is no such origin.
	CORSOrigins []string `env:"FANFARE_CORS_ORIGINS"`
	// CORSHeaders are additional headers that pages of CORSOrigins may send, separated by
	// commas. Such pages may always send the headers of the API and of tracing.
	CORSHeaders []string `env:"FANFARE_CORS_HEADERS"`
	// DevSecret is the secret that signs dev tokens. The embedded engine makes a secret if
	// DevSecret is absent.
	DevSecret string `env:"FANFARE_DEV_SECRET"`
	// DevAuthOnAWS is allow if dev tokens may be used on aws.
	DevAuthOnAWS string `env:"FANFARE_DEV_AUTH_ON_AWS"`
	// DevAuthPublic is allow if dev tokens may be used on an address that other machines may
	// reach.
	DevAuthPublic string `env:"FANFARE_DEV_AUTH_PUBLIC"`
	// DevAuthHosts are additional host names, separated by commas, for requests to an API with
	// dev tokens. Such an API always accepts localhost and IP addresses.
	DevAuthHosts []string `env:"FANFARE_DEV_AUTH_HOSTS"`
	// Drain is the time for which an API continues to serve after the request to stop. The default is 0 on
	// embedded, where no balancer has to notice the stop, and 10s on aws.
	Drain *time.Duration `env:"FANFARE_DRAIN"`
	// LogLevel is debug, info (default), warn or error.
	LogLevel zapcore.Level `env:"FANFARE_LOG_LEVEL" envDefault:"info"`
}

// Switch is on or off.
type Switch bool

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

// UnmarshalText implements encoding.TextUnmarshaler. The text is a whole number with a unit, such as 512MiB.
func (b *Bytes) UnmarshalText(text []byte) error {
	for i, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
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

// Names returns the names of all variables in sorted order.
func Names() []string {
	var names []string
	for field := range reflect.TypeFor[Config]().Fields() {
		names = append(names, field.Tag.Get("env"))
	}
	slices.Sort(names)
	return names
}

// Load reads environ (as os.Environ returns it) for a role. An error of Load is an *Error, and
// then the configuration has all values that could be read, for a command that only shows them.
func Load(environ []string, role Role) (Config, error) {
	vars := map[string]string{}
	var faults []string
	names, foreign := Names(), FromPlatform(environ)
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		if !slices.Contains(names, name) {
			if !slices.Contains(foreign, name) {
				faults = append(faults, unknown(name, names))
			}
			continue
		}
		if value != "" {
			vars[name] = value
		}
	}
	faults = append(faults, removeUnclean(vars)...)
	c, bad, err := parse(vars)
	if len(bad) > 0 { // bad values get their defaults, so that check finds all other faults
		faults = append(faults, bad...)
		c, _, err = parse(vars)
	}
	if err != nil {
		return Config{}, fmt.Errorf("environment: %w", err)
	}
	faults = append(faults, c.check(role)...)
	if c.Engine == EngineAWS || c.EventsQueue != "" || strings.HasPrefix(c.Archive, "s3:") || strings.HasPrefix(c.Register, "s3:") {
		faults = append(faults, uncleanAWS(environ)...)
	}
	if len(faults) > 0 {
		slices.Sort(faults)
		return c, &Error{faults}
	}
	return c, nil
}

func parsers() map[reflect.Type]env.ParserFunc {
	return map[reflect.Type]env.ParserFunc{
		reflect.TypeFor[[]string](): func(v string) (any, error) {
			var out []string
			for part := range strings.SplitSeq(v, ",") {
				out = append(out, strings.TrimSpace(part))
			}
			return out, nil
		},
	}
}

// parse reads vars. It returns each value of a wrong type in bad, and removes the value from vars.
func parse(vars map[string]string) (c Config, bad []string, err error) {
	err = env.ParseWithOptions(&c, env.Options{Environment: vars, FuncMap: parsers()})
	all, ok := errors.AsType[env.AggregateError](err)
	if !ok {
		return c, nil, err
	}
	for _, e := range all.Errors {
		fault, ok := errors.AsType[env.ParseError](e)
		if !ok {
			return c, nil, err
		}
		field, ok := reflect.TypeFor[Config]().FieldByName(fault.Name) // the fault has only the name of the field
		if !ok {
			return c, nil, err
		}
		name := field.Tag.Get("env")
		bad = append(bad, fmt.Sprintf("%s: %q is not %s", name, vars[name], expected(field.Type, vars[name])))
		delete(vars, name)
	}
	return c, bad, nil
}

// expected describes the values of a type, for the fault of a value of a wrong type.
func expected(t reflect.Type, value string) string {
	switch t {
	case reflect.TypeFor[time.Duration](), reflect.TypeFor[*time.Duration]():
		return "a duration such as 1s or 720h"
	case reflect.TypeFor[Switch](), reflect.TypeFor[*Switch]():
		switch strings.ToLower(value) {
		case "true":
			return "on or off: write on, which YAML keeps in quotes only ('on')"
		case "false":
			return "on or off: write off, which YAML keeps in quotes only ('off')"
		}
		return "on or off"
	case reflect.TypeFor[*Bytes]():
		return "a size such as 512MiB or 8GiB"
	case reflect.TypeFor[zapcore.Level]():
		return "debug, info, warn or error"
	default:
		return "a whole number"
	}
}

// unknown returns the fault of an unknown name, and suggests the most similar name.
func unknown(name string, names []string) string {
	best, distance := "", 4
	for _, n := range names {
		if d := editDistance(name, n); d < distance {
			best, distance = n, d
		}
	}
	if best != "" {
		return fmt.Sprintf("%s is unknown: did you mean %s?", name, best)
	}
	return name + " is unknown: remove it"
}

// editDistance returns the number of single-byte changes that turn a into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
