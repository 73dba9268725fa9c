//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/config"
)

// install renders a release with a file of values, as a person writes them, and more flags.
func install(t *testing.T, release, values string, flags ...string) (map[string]map[string]any, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "written.yaml")
	require.NoError(t, os.WriteFile(file, []byte(values), 0o600))
	args := append([]string{"template", release, "--namespace", "social", "--kube-version", "1.34", "-f", file}, flags...)
	manifests, err := helm(t, needed(), args...)
	if err != nil {
		return nil, err
	}
	return objects(t, manifests), nil
}

// environmentIn is the environment that the kubelet gives to a daemon of a release, which reads
// $$ as $, and $(NAME) as the value of a variable above it.
func environmentIn(t *testing.T, all map[string]map[string]any, name string) map[string]string {
	t.Helper()
	env := map[string]string{}
	reference := regexp.MustCompile(`\$\$|\$\([^)]*\)`)
	for _, v := range at(t, all["Deployment "+name], "spec", "template", "spec", "containers", 0, "env").([]any) {
		variable := fmt.Sprint(at(t, v, "name"))
		require.NotContains(t, env, variable, "server-side apply refuses a name twice")
		value, isText := v.(map[string]any)["value"].(string)
		require.True(t, isText, "%s is no text: the API server refuses it", variable)
		env[variable] = reference.ReplaceAllStringFunc(value, func(s string) string {
			if s == "$$" {
				return "$"
			}
			if known, ok := env[s[2:len(s)-1]]; ok {
				return known
			}
			return s
		})
	}
	return env
}

// serviceLinks are the variables that Kubernetes adds for the Services of a release, unless
// their pods refuse them.
func serviceLinks(t *testing.T, all map[string]map[string]any) map[string]string {
	t.Helper()
	links := map[string]string{}
	for _, object := range all {
		if spec, _ := object["spec"].(map[string]any); object["kind"] != "Service" || spec["clusterIP"] == "None" {
			continue
		}
		name := strings.ToUpper(strings.ReplaceAll(fmt.Sprint(at(t, object, "metadata", "name")), "-", "_"))
		port := fmt.Sprint(at(t, object, "spec", "ports", 0, "port"))
		each, url := name+"_PORT_"+port+"_TCP", "tcp://10.96.0.7:"+port
		maps.Copy(links, map[string]string{
			name + "_SERVICE_HOST": "10.96.0.7", name + "_SERVICE_PORT": port, name + "_SERVICE_PORT_HTTP": port, name + "_PORT": url,
			each: url, each + "_PROTO": "tcp", each + "_PORT": port, each + "_ADDR": "10.96.0.7",
		})
	}
	return links
}

// writtenSettings are settings as people write them, with the text that each daemon has to get.
func writtenSettings() (values, flags []string, want map[string]string) {
	values = []string{
		`FANFARE_LIKES_BY_USER: off`, `FANFARE_CANARY: on`, `FANFARE_AUDIT: yes`, `FANFARE_PPROF: "off"`, `FANFARE_CONSOLE: False`,
		`FANFARE_PUSH_LIMIT: 1_000_000`, `FANFARE_MAX_FOLLOWING: 9007199254740991`, `FANFARE_RATE_LIMIT: 1e6`, `FANFARE_SERVICE_RATE_LIMIT: 0`,
		`FANFARE_ACTIVE_DAYS: "14"`, `FANFARE_STREAMS: 0x1000`, `FANFARE_STREAMS_PER_USER:`, `FANFARE_STREAM_POLL: ~`, `FANFARE_LOG_LEVEL: ""`,
		`FANFARE_LIKE_WINDOW: 1m`, `FANFARE_TIMELINE_TTL: 168h0m0s`,
		`FANFARE_CORS_ORIGINS: [https://a.example, "http://localhost:3000"]`, `FANFARE_CORS_HEADERS: []`, `FANFARE_JWT_AUDIENCE: ["123456789012345678", b]`,
		`FANFARE_TABLE: "0123"`, `FANFARE_QUEUE_PREFIX: "no"`, `FANFARE_EVENTS_QUEUE: '1e3'`,
		`FANFARE_JWT_USER_CLAIM: 'https://x.example/"id"'`, `FANFARE_SERVICE_SCOPE: 'a$$b$(FANFARE_TABLE)$c#d:{{x}}'`, `FANFARE_JWT_ISSUER: "https://é.example/\u00a0\\"`,
		`OTEL_SDK_DISABLED: true`, `OTEL_TRACES_SAMPLER_ARG: 0.01`, `OTEL_RESOURCE_ATTRIBUTES: "a=b,c=d"`, `AWS_EC2_METADATA_DISABLED: true`, `GOGC: off`, `GOMEMLIMIT: 1GiB`,
	}
	flags = []string{ // these win over the file
		"--set", "settings.FANFARE_CANARY=off", "--set", "settings.FANFARE_AUDIT=false", "--set-string", "settings.FANFARE_PPROF=on", "--set", "settings.FANFARE_CONSOLE=true",
		"--set", `settings.FANFARE_JWT_AUDIENCE={12\,013,14,x}`, "--set", "settings.FANFARE_TABLE=123456789012345678", "--set-string", "settings.FANFARE_QUEUE_PREFIX=0012",
		"--set-json", `settings.FANFARE_PUSH_LIMIT=2000000`, "--set", "settings.FANFARE_LIKE_WINDOW=null", "--set-string", "settings.GOGC=150",
	}
	want = map[string]string{
		"FANFARE_LIKES_BY_USER": "off", "FANFARE_CANARY": "on", "FANFARE_AUDIT": "on", "FANFARE_PPROF": "off", "FANFARE_CONSOLE": "off",
		"FANFARE_PUSH_LIMIT": "1000000", "FANFARE_MAX_FOLLOWING": "9007199254740991", "FANFARE_RATE_LIMIT": "1000000", "FANFARE_SERVICE_RATE_LIMIT": "0",
		"FANFARE_ACTIVE_DAYS": "14", "FANFARE_STREAMS": "4096", "FANFARE_STREAMS_PER_USER": "", "FANFARE_STREAM_POLL": "", "FANFARE_LOG_LEVEL": "",
		"FANFARE_LIKE_WINDOW": "1m", "FANFARE_TIMELINE_TTL": "168h0m0s",
		"FANFARE_CORS_ORIGINS": "https://a.example,http://localhost:3000", "FANFARE_CORS_HEADERS": "", "FANFARE_JWT_AUDIENCE": "123456789012345678,b",
		"FANFARE_TABLE": "0123", "FANFARE_QUEUE_PREFIX": "no", "FANFARE_EVENTS_QUEUE": "1e3",
		"FANFARE_JWT_USER_CLAIM": `https://x.example/"id"`, "FANFARE_SERVICE_SCOPE": "a$$b$(FANFARE_TABLE)$c#d:{{x}}", "FANFARE_JWT_ISSUER": "https://é.example/\u00a0\\",
		"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_SAMPLER_ARG": "0.01", "OTEL_RESOURCE_ATTRIBUTES": "a=b,c=d", "AWS_EC2_METADATA_DISABLED": "true", "GOGC": "off", "GOMEMLIMIT": "1GiB",
	}
	return values, flags, want
}

// A release may have the name of the chart, and settings that YAML does not read as texts.
// Each value comes to each daemon as it was meant, and with the variables that Kubernetes
// makes for the release's own Services every daemon takes its environment.
func TestAReleaseCalledFanfareStarts(t *testing.T) {
	t.Parallel()
	values, flags, want := writtenSettings()
	changed := maps.Clone(want)
	maps.Copy(changed, map[string]string{
		"FANFARE_CANARY": "off", "FANFARE_AUDIT": "off", "FANFARE_PPROF": "on", "FANFARE_CONSOLE": "on", "FANFARE_JWT_AUDIENCE": "12,013,14,x",
		"FANFARE_TABLE": "123456789012345678", "FANFARE_QUEUE_PREFIX": "0012", "FANFARE_PUSH_LIMIT": "2000000", "FANFARE_LIKE_WINDOW": "", "GOGC": "150",
	})
	for _, row := range []struct {
		flags []string
		want  map[string]string
	}{{nil, want}, {flags, changed}} {
		all, err := install(t, "fanfare", "settings:\n  "+strings.Join(values, "\n  ")+"\n", row.flags...)
		require.NoError(t, err)
		require.NoError(t, check(t, all))
		links := serviceLinks(t, all)
		require.Equal(t, "tcp://10.96.0.7:80", links["FANFARE_API_PORT"])
		for name, role := range daemons() {
			pod := at(t, all["Deployment fanfare-"+name], "spec", "template", "spec")
			assert.Equal(t, false, at(t, pod, "enableServiceLinks"), name)
			env := environmentIn(t, all, "fanfare-"+name)
			for variable, value := range row.want {
				assert.Equal(t, value, env[variable], "%s of %s", variable, name)
			}
			maps.Copy(env, links)
			accepted(t, name, role, env)
		}
	}
}

// A daemon of the chart reads what the values mean, not just their texts.
func TestAnAPIOfTheChartReadsItsSettings(t *testing.T) {
	t.Parallel()
	values, _, _ := writtenSettings()
	all, err := install(t, "fanfare", "settings:\n  "+strings.Join(values, "\n  ")+"\n")
	require.NoError(t, err)
	var environ []string
	for name, value := range environmentIn(t, all, "fanfare-api") {
		environ = append(environ, name+"="+value)
	}
	c, err := config.Load(environ, config.API)
	require.NoError(t, err)
	assert.Equal(t, []any{false, true, true, false, false}, []any{bool(c.LikesByUser), c.HasCanary(), c.HasAuditor(), bool(c.Pprof), c.HasConsole()})
	assert.Equal(t, []any{int64(1_000_000), int64(1<<53 - 1), 1_000_000, 0, 14, 4096, 8, time.Second, time.Minute}, []any{
		c.FollowersPushed(), c.MaxFollowing, c.RequestsPerSecond(), c.ServiceRequestsPerSecond(), c.ActiveDays, c.Streams, c.StreamsPerUser, c.StreamPoll, c.LikeWindow,
	})
	assert.Equal(t, [][]string{{"https://a.example", "http://localhost:3000"}, nil, {"123456789012345678", "b"}}, [][]string{c.CORSOrigins, c.CORSHeaders, c.JWTAudience})
}

// YAML changes a text that is no text to it. The chart refuses such a value before anything
// starts, for each setting by its type, and prints no value, which may be a secret.
func TestTheChartRefusesAValueThatYAMLMayHaveChanged(t *testing.T) {
	t.Parallel()
	refused := map[string]string{ // by what a person wrote
		"auth: {audience: 123456789012345678}": "FANFARE_JWT_AUDIENCE", "auth: {issuer: yes}": "FANFARE_JWT_ISSUER", "aws: {table: 0123}": "FANFARE_TABLE",
		"aws: {queuePrefix: no}": "FANFARE_QUEUE_PREFIX", "aws: {region: 1.10}": "AWS_REGION", "image: {tag: 1.10}": "image.tag", "image: {tag: 20260101}": "image.tag",
		"settings: {FANFARE_MAX_FOLLOWING: 9007199254740993}": "FANFARE_MAX_FOLLOWING", "settings: {FANFARE_PUSH_LIMIT: 1.5}": "FANFARE_PUSH_LIMIT",
		"settings: {FANFARE_PUSH_LIMIT: .inf}": "", "settings: {FANFARE_CORS_ORIGINS: [1, 2]}": "FANFARE_CORS_ORIGINS", "settings: {FANFARE_CORS_ORIGINS: [~]}": "FANFARE_CORS_ORIGINS",
		"settings: {FANFARE_LOG_LEVEL: {a: b}}": "FANFARE_LOG_LEVEL", "settings: {OTEL_SERVICE_NAME: no}": "OTEL_SERVICE_NAME", "settings: {OTEL_BSP_MAX_QUEUE_SIZE: 12345678901234567890}": "OTEL_BSP_MAX_QUEUE_SIZE",
	}
	accepts := map[string]string{}
	for field := range reflect.TypeFor[config.Config]().Fields() {
		name, kind := field.Tag.Get("env"), field.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		isSwitch, isList, isText := kind == reflect.TypeFor[config.Switch](), kind.Kind() == reflect.Slice, kind.Kind() == reflect.String
		for written, may := range map[string]bool{"off": isSwitch, "[a, b]": isList, "123456": !isText && !isList} {
			entry := fmt.Sprintf("settings: {%s: %s}", name, written)
			if may && name != "FANFARE_DRAIN" { // drainSeconds sets FANFARE_DRAIN
				accepts[entry] = strings.NewReplacer("[", "", "]", "", " ", "").Replace(written)
			} else {
				refused[entry] = name
			}
		}
	}
	for _, written := range slices.Sorted(maps.Keys(refused)) {
		_, err := install(t, "fanfare", written+"\n")
		require.Error(t, err, written)
		assert.ErrorContains(t, err, refused[written], written)
		assert.NotContains(t, err.Error(), "123456", written)
	}
	for written, want := range accepts {
		all, err := install(t, "fanfare", written+"\n")
		require.NoError(t, err, written)
		name, _, _ := strings.Cut(strings.TrimPrefix(written, "settings: {"), ":")
		assert.Equal(t, want, environmentIn(t, all, "fanfare-fanout")[name])
	}
}

// A name of 53 characters is the longest that Helm takes, and a word of YAML is a name.
func TestAReleaseOfAnyNameHasValidNames(t *testing.T) {
	t.Parallel()
	label := regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)
	for _, release := range []string{"fanfare", "on", "null", "true", "fanfare-x-y", strings.Repeat("f", 53), strings.Repeat("f", 52), strings.Repeat("f-", 26) + "f"} {
		all, err := install(t, release, "serviceMonitor: {labels: {release: 1, team: on}}\napi: {service: {annotations: {a.example/internal: true, a.example/bytes: 1000000}}}\n")
		require.NoError(t, err)
		require.NoError(t, check(t, all), release)
		services := 0
		for _, object := range all {
			name := fmt.Sprint(at(t, object, "metadata", "name"))
			switch object["kind"] {
			case "Service":
				services++
				assert.Regexp(t, label, name)
			case "ServiceMonitor":
				assert.Equal(t, release, name)
			}
			assert.Equal(t, release, at(t, object, "metadata", "labels", "app.kubernetes.io/instance"))
			assert.LessOrEqual(t, len(name), 63)
		}
		assert.Equal(t, 4, services)
		assert.Equal(t, map[string]any{"a.example/internal": "true", "a.example/bytes": "1000000"}, at(t, all["Service "+release+"-api"], "metadata", "annotations"))
		assert.Equal(t, "true", at(t, all["ServiceMonitor "+release], "metadata", "labels", "team"))
	}
}
