package e2e

import (
	"bufio"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/config"
	"fanfare/internal/porttest"
)

// parameterValue is a value of a parameter of services.yaml, or of a line in the file of settings.
type parameterValue struct {
	// parameter is the name of the parameter, empty for a line.
	parameter, value string
	// variable is the variable that tasks get, and want is the expected text of the variable. want is
	// empty if CloudFormation has to refuse the value.
	variable, want string
	// meaning, if not nil, returns the value that a daemon reads from its configuration. The value has to
	// equal is.
	meaning func(config.Config) any
	is      any
}

func table(c config.Config) any     { return c.Table }
func prefix(c config.Config) any    { return c.QueuePrefix }
func audiences(c config.Config) any { return c.JWTAudience }
func origins(c config.Config) any   { return c.CORSOrigins }
func pushes(c config.Config) any    { return c.PushLimit }

// kept returns a value that tasks have to get unchanged.
func kept(parameter, variable, value string, meaning func(config.Config) any, is any) parameterValue {
	return parameterValue{parameter: parameter, value: value, variable: variable, want: value, meaning: meaning, is: is}
}

func isRefused(parameter, value string) parameterValue {
	return parameterValue{parameter: parameter, value: value}
}

// line returns a value of a line in the file of settings.
func line(variable, value string, meaning func(config.Config) any, is any) parameterValue {
	return kept("", variable, value, meaning, is)
}

// hostileValues returns values that YAML, CloudFormation, a shell or a parser might change.
func hostileValues() []parameterValue {
	a60, a255 := strings.Repeat("a", 60), strings.Repeat("a", 255)
	all := []parameterValue{
		isRefused("TableName", "ab"), isRefused("TableName", a255+"a"), isRefused("TableName", "größe"), isRefused("TableName", " feeds"), isRefused("TableName", "feeds\n"), isRefused("TableName", ""),
		isRefused("QueuePrefix", ""), isRefused("QueuePrefix", a60+"a"), isRefused("QueuePrefix", "a.b"), isRefused("QueuePrefix", "a b"),
		isRefused("JwtIssuer", "http://issuer.example"), isRefused("JwtIssuer", "https://issuer.example "), isRefused("JwtIssuer", "https://issuer.example\n"), isRefused("JwtIssuer", "https://"), isRefused("JwtIssuer", ""),
		isRefused("JwtAudience", ""), isRefused("JwtAudience", "a,,b"), isRefused("JwtAudience", ",a"), isRefused("JwtAudience", "a,"), isRefused("JwtAudience", "a\nb"), isRefused("JwtAudience", " "),
		isRefused("JwksUrl", "http://keys.example"), isRefused("JwksUrl", "https://user:secret@keys.example/"), isRefused("JwksUrl", "https://keys.example/a b"),
		isRefused("PushLimit", "-1"), isRefused("PushLimit", "1e6"), isRefused("PushLimit", "1.0"), isRefused("PushLimit", "50_000"), isRefused("PushLimit", "５００００"), isRefused("PushLimit", ""),
		isRefused("DrainSeconds", "91"), isRefused("DrainSeconds", "10s"), isRefused("DrainSeconds", "1e1"),
		isRefused("EventsQueue", "told.fifo"), isRefused("EventsQueue", strings.Repeat("a", 81)),
		isRefused("EnvironmentFile", "s3://settings/7.env"), isRefused("EnvironmentFile", "arn:aws:s3:::settings/7.txt"), isRefused("EnvironmentFile", "arn:aws:s3:::settings/a b.env"),
		isRefused("Size", "2vCPU-2GB"), isRefused("Size", "1vcpu-2gb"), isRefused("Size", "0.25vCPU-8GB"),

		kept("JwtIssuer", "FANFARE_JWT_ISSUER", "https://issuer.example/é/%7Btenant%7D/v2.0", func(c config.Config) any { return c.JWTIssuer }, "https://issuer.example/é/%7Btenant%7D/v2.0"),
		kept("JwtIssuer", "FANFARE_JWT_ISSUER", `https://issuer.example/"q"\$A$(B)${C}`, func(c config.Config) any { return c.JWTIssuer }, `https://issuer.example/"q"\$A$(B)${C}`),
		kept("JwksUrl", "FANFARE_JWKS_URL", "https://keys.example/a?x=1&y=${AWS::Region}", func(c config.Config) any { return c.JWKSURL }, "https://keys.example/a?x=1&y=${AWS::Region}"),
		kept("JwksUrl", "FANFARE_JWKS_URL", "", func(c config.Config) any { return c.JWKSURL }, ""),
		kept("JwtAudience", "FANFARE_JWT_AUDIENCE", "a, b ,\tc", audiences, []string{"a", "b", "c"}),
		kept("JwtAudience", "FANFARE_JWT_AUDIENCE", "my app", audiences, []string{"my app"}),
		kept("PushLimit", "FANFARE_PUSH_LIMIT", "0", pushes, int64(0)), kept("PushLimit", "FANFARE_PUSH_LIMIT", "0050", pushes, int64(50)),
		kept("PushLimit", "FANFARE_PUSH_LIMIT", "999999999999999999", pushes, int64(999999999999999999)),
		kept("EventsQueue", "FANFARE_EVENTS_QUEUE", "1e3", func(c config.Config) any { return c.EventsQueue }, "1e3"),
		{parameter: "DrainSeconds", value: "0", variable: "FANFARE_DRAIN", want: "0s", meaning: func(c config.Config) any { return c.Drain }, is: time.Duration(0)},
		{parameter: "DrainSeconds", value: "90", variable: "FANFARE_DRAIN", want: "90s"},
		line("FANFARE_REACTIONS", "love, wow", func(c config.Config) any { return c.Reactions }, []string{"love", "wow"}),
		line("FANFARE_LIKES_BY_USER", "off", func(c config.Config) any { return bool(c.LikesByUser) }, false),
		line("FANFARE_CORS_ORIGINS", "https://a.example, https://b.example:8443", origins, []string{"https://a.example", "https://b.example:8443"}),
		line("FANFARE_SERVICE_SCOPE", "a$$b$(FANFARE_TABLE)${C}#d:{{x}}", func(c config.Config) any { return c.ServiceScope }, "a$$b$(FANFARE_TABLE)${C}#d:{{x}}"),
		line("FANFARE_JWT_USER_CLAIM", `https://x.example/"id"='é'`, func(c config.Config) any { return c.JWTUserClaim }, `https://x.example/"id"='é'`),
		line("FANFARE_MAX_FOLLOWING", "9007199254740993", func(c config.Config) any { return c.MaxFollowing }, int64(9007199254740993)),
		line("FANFARE_LIKE_WINDOW", "1m", func(c config.Config) any { return c.LikeWindow }, time.Minute),
		line("OTEL_TRACES_SAMPLER_ARG", "0.10", nil, nil), line("OTEL_SDK_DISABLED", "true", nil, nil), line("GOGC", "off", nil, nil),
		line("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a b,c=%22d%22", nil, nil), line("OTEL_RESOURCE_ATTRIBUTES", "service.version=1.10,team=größe", nil, nil),
	}
	for _, value := range []string{"123456789012345678", "1.10", "0123", "1e3", "0x1F", "true", "off", "null", "2026-11-26"} {
		all = append(all, kept("TableName", "FANFARE_TABLE", value, table, value), kept("JwtAudience", "FANFARE_JWT_AUDIENCE", value, audiences, []string{value}))
		if !strings.Contains(value, ".") {
			all = append(all, kept("QueuePrefix", "FANFARE_QUEUE_PREFIX", value, prefix, value))
		}
	}
	for _, value := range []string{`"quoted"`, `it's`, "~", "@x", "*", "&x", "!Ref Image", "a: b", "- a", "größe", "$A$(B)${AWS::Region}", "{{resolve:ssm:x}}", "api://default"} {
		all = append(all, kept("JwtAudience", "FANFARE_JWT_AUDIENCE", value, audiences, []string{value}))
	}
	return all
}

// environmentFile reads a file of settings as Docker does. ECS uses Docker's format: variables are not
// expanded, and quotes are part of a value.
func environmentFile(t *testing.T, text string) map[string]string {
	t.Helper()
	env := map[string]string{}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		line := strings.TrimLeft(lines.Text(), " \t")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		require.True(t, ok, line)
		env[name] = value
	}
	return env
}

// Every value that CloudFormation accepts reaches each task unchanged, and every daemon accepts its
// environment. CloudFormation refuses the values that a daemon would refuse.
func TestTheStackTakesWhatPeopleWrite(t *testing.T) {
	t.Parallel()
	values := hostileValues()
	require.GreaterOrEqual(t, len(values), 60)
	started := 0
	for _, v := range values {
		name := fmt.Sprintf("%s%s=%q", v.parameter, v.variable, v.value)
		parameters := given("JwksUrl", "https://keys.example/jwks", "EnvironmentFile", "arn:aws:s3:::settings/feed-7.env")
		if v.parameter != "" {
			parameters[v.parameter] = v.value
		}
		template := read(t, "services.yaml", parameters)
		if v.variable == "" {
			assert.Error(t, template.refusal(), name)
			continue
		}
		if !assert.NoError(t, template.refusal(), name) {
			continue
		}
		resources := template.resources()
		meant := false
		for task, role := range tasks() {
			env := map[string]string{}
			if v.parameter == "" {
				env = environmentFile(t, "# settings\r\n\r\n"+v.variable+"="+v.value+"\r\n")
			}
			maps.Copy(env, environmentOf(t, resources, task)) // the environment of the task overrides the file
			cfg, err := config.Load(entries(env), role)
			if !assert.NoError(t, err, "%s: %s", name, task) {
				continue
			}
			started++
			if got, ok := env[v.variable]; ok && got == v.want {
				meant = meant || v.meaning == nil || assert.ObjectsAreEqual(v.is, v.meaning(cfg))
			}
			startsWith(t, task, env)
		}
		assert.True(t, meant, "%s lost its meaning", name)
	}
	t.Logf("%d values, %d environments started", len(values), started)
}

// startsWith starts the daemon of a task with the environment of the task, except for the addresses. When
// the daemon answers, it has accepted its settings and waits for a table, which this test does not have.
func startsWith(t *testing.T, task string, env map[string]string) {
	t.Helper()
	admin := porttest.Free(t)
	env = maps.Clone(env)
	maps.Copy(env, map[string]string{
		"FANFARE_ADMIN_ADDR": admin, "FANFARE_METRICS_ADDR": porttest.Free(t), "FANFARE_HTTP_ADDR": porttest.Free(t), "PATH": os.Getenv("PATH"),
		"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_EC2_METADATA_DISABLED": "true",
	})
	p := start(t, entries(env), strings.Replace(task, "canary", "api", 1))
	await(t, task+" answers", func() bool {
		require.True(t, p.running(), "%s ended: %s", task, tail(p.log))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+admin+"/healthz", http.NoBody)
		require.NoError(t, err)
		resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	})
	p.kill(t)
}
