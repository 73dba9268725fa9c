//go:build e2e && slow

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"fanfare/internal/config"
)

// serviceLinks returns the variables that Kubernetes adds for the Services of a release, unless a pod
// turns these variables off.
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

// A release may have the name of the chart. Then Kubernetes adds variables for the release's own
// Services, and every daemon still accepts its environment.
func TestAReleaseCalledFanfareStarts(t *testing.T) {
	t.Parallel()
	all, err := install(t, "fanfare", "")
	require.NoError(t, err)
	links := serviceLinks(t, all)
	require.Equal(t, "tcp://10.96.0.7:80", links["FANFARE_API_PORT"])
	for name, role := range daemons() {
		assert.Equal(t, false, at(t, all["Deployment fanfare-"+name], "spec", "template", "spec", "enableServiceLinks"), name)
		env := environmentIn(t, all, "fanfare-"+name)
		maps.Copy(env, links)
		accepted(t, name, role, env)
	}
}

// setting is a type of settings, with a value in the form in which a person writes it, and the text that
// a daemon must get for the value.
type setting struct {
	kind    string
	written any
	text    string
}

// typesOfSettings returns the type of each setting of the product.
func typesOfSettings(t *testing.T) map[string]setting {
	t.Helper()
	types := map[string]setting{}
	for _, f := range config.Fields() {
		switch name := f.Name; {
		case name == "FANFARE_CORS_HEADERS":
			types[name] = setting{"list", []any{"X-One", "X-Two"}, "X-One,X-Two"}
		case name == "FANFARE_REACTIONS":
			types[name] = setting{"list", []any{"love", "laugh"}, "love,laugh"}
		case f.Kind == "list":
			types[name] = setting{"list", []any{"https://a.example", "https://b.example"}, "https://a.example,https://b.example"}
		case f.Kind == "size":
			types[name] = setting{"size", "4GiB", "4GiB"}
		case f.Kind == "switch":
			types[name] = setting{"switch", false, "off"}
		case len(f.Words) > 0:
			types[name] = setting{"words", f.Words[0], f.Words[0]}
		case f.High != "" && f.Kind == "whole":
			number, err := strconv.ParseFloat(f.High, 64)
			require.NoError(t, err)
			types[name] = setting{"whole", number, f.High}
		case f.Kind == "whole":
			types[name] = setting{"whole", 100.0, "100"}
		case f.Kind == "duration":
			types[name] = setting{"duration", f.High, f.High}
		case f.Pattern != "":
			types[name] = setting{"name", name, name}
		default:
			types[name] = setting{"text", name, name}
		}
	}
	return types
}

// chartSchema returns the schema of the values, and the names of settings in the schema. The value is
// true for a setting that the chart sets itself with each engine.
func chartSchema(t *testing.T) (schema *jsonschema.Schema, names map[string]bool) {
	t.Helper()
	text, err := os.ReadFile(chart + "/values.schema.json")
	require.NoError(t, err)
	var document any
	require.NoError(t, json.Unmarshal(text, &document))
	names = map[string]bool{}
	for name, property := range at(t, document, "definitions", "settings", "properties").(map[string]any) {
		if strings.HasPrefix(name, "FANFARE_") {
			names[name] = property == true
		}
	}
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("values.json", document))
	schema, err = compiler.Compile("values.json")
	require.NoError(t, err)
	return schema, names
}

// chartValues returns the default values, in which the values of over replace equal names.
func chartValues(t *testing.T, over map[string]any) any {
	t.Helper()
	text, err := os.ReadFile(chart + "/values.yaml")
	require.NoError(t, err)
	var defaults map[string]any
	require.NoError(t, yaml.Unmarshal(text, &defaults))
	encoded, err := json.Marshal(merge(merge(defaults, needed()), over))
	require.NoError(t, err)
	var values any
	require.NoError(t, json.Unmarshal(encoded, &values))
	return values
}

// The test fails if the schema lacks a setting of the product, or has it with another type.
func TestTheSchemaOfTheChartHasEverySettingWithItsType(t *testing.T) {
	t.Parallel()
	schema, names := chartSchema(t)
	assert.Equal(t, config.Names(), slices.Sorted(maps.Keys(names)))
	types := typesOfSettings(t)
	fits := func(over map[string]any) error { return schema.Validate(chartValues(t, over)) }
	wrong := map[string]any{"switch": true, "whole": 100.0, "list": []any{"https://a.example"}, "text": "no value of another type"}
	for name, isOwn := range names {
		refers := map[string]any{"name": name, "valueFrom": map[string]any{"secretKeyRef": map[string]any{}}}
		require.NoError(t, fits(map[string]any{"api": map[string]any{"env": []any{refers}}}), name)
		require.NoError(t, fits(map[string]any{"settings": map[string]any{name: types[name].written}}), name)
		for kind, written := range wrong {
			// Only --set turns a text into an exact number. The templates know whether a number comes
			// from --set.
			if !isOwn && kind != types[name].kind && (types[name].kind != "name" || kind != "whole") {
				require.Error(t, fits(map[string]any{"settings": map[string]any{name: written}}), "%s with a %s", name, kind)
			}
		}
	}
}

// owned returns the settings that the chart sets itself with an engine.
func owned(t *testing.T, engine string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(chart + "/templates/_declared.tpl")
	require.NoError(t, err)
	var declared map[string]any
	document := string(text)[strings.Index(string(text), "\n{\n"):strings.LastIndex(string(text), "{{- end }}")]
	require.NoError(t, json.Unmarshal([]byte(document), &declared))
	return at(t, declared, "owned", engine).(map[string]any)
}

// A release with every setting passes each setting to a daemon, with either engine. The chart refuses a setting that the
// chart sets itself, and names the value to write instead.
func TestTheChartHandsEverySettingOnOrSetsItItself(t *testing.T) {
	t.Parallel()
	types := typesOfSettings(t)
	for program, values := range map[string]map[string]any{"api": needed(), "one": oneMachine()} {
		written := map[string]any{}
		own := owned(t, map[string]string{"api": "aws", "one": "embedded"}[program])
		for _, name := range config.Names() {
			if own[name] == nil {
				written[name] = types[name].written
				continue
			}
			_, err := render(t, merge(values, map[string]any{"settings": map[string]any{name: types[name].written}}))
			require.ErrorContains(t, err, fmt.Sprintf("settings.%s: %s", name, own[name]))
		}
		require.Greater(t, len(written), 15)
		manifests, err := render(t, merge(values, map[string]any{"settings": written}))
		require.NoError(t, err)
		env := environmentIn(t, objects(t, manifests), "feed-"+program)
		for name := range written {
			assert.Equal(t, types[name].text, env[name], name)
		}
	}
}

// A daemon of the chart parses its values; the texts alone do not prove that a daemon accepts them.
func TestAnAPIOfTheChartReadsItsSettings(t *testing.T) {
	t.Parallel()
	all, err := install(t, "fanfare", `
auth: {audience: ["123456789012345678", b]}
settings:
  FANFARE_LIKES_BY_USER: off
  FANFARE_PPROF: yes
  FANFARE_PUSH_LIMIT: 1_000_000
  FANFARE_MAX_FOLLOWING: 9007199254740991
  FANFARE_RATE_LIMIT: 1e6
  FANFARE_STREAMS: 0x1000
  FANFARE_STREAMS_PER_USER: ~
  FANFARE_LIKE_WINDOW: 1m
  FANFARE_CORS_ORIGINS: [https://a.example, "http://localhost:3000"]
`)
	require.NoError(t, err)
	var environ []string
	for name, value := range environmentIn(t, all, "fanfare-api") {
		environ = append(environ, name+"="+value)
	}
	c, err := config.Load(environ, config.API)
	require.NoError(t, err)
	assert.Equal(t, []any{false, true, false, false}, []any{bool(c.LikesByUser), bool(c.Pprof), bool(c.Canary), bool(c.Auditor)})
	assert.Equal(t, []any{int64(1_000_000), int64(1<<53 - 1), 1_000_000, 4096, 8, time.Minute}, []any{
		c.PushLimit, c.MaxFollowing, c.RateLimit, c.Streams, c.StreamsPerUser, c.LikeWindow,
	})
	assert.Equal(t, [][]string{{"https://a.example", "http://localhost:3000"}, {"123456789012345678", "b"}}, [][]string{c.CORSOrigins, c.JWTAudience})
}

// The longest name that Helm accepts has 53 characters. A name may also be a keyword of YAML.
func TestAReleaseOfAnyNameHasValidNames(t *testing.T) {
	t.Parallel()
	label := regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)
	for _, release := range []string{"fanfare", "on", "null", "true", "fanfare-x-y", strings.Repeat("f", 53), strings.Repeat("f", 52), strings.Repeat("f-", 26) + "f"} {
		manifests, err := helm(t, merge(needed(), allOf(t)), "template", release, "--namespace", "social", "--kube-version", "1.34")
		require.NoError(t, err)
		all := objects(t, manifests)
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
		assert.Equal(t, 5, services)
	}
	for _, release := range []string{"1st", "a.b", "20261126"} {
		_, err := install(t, release, "")
		assert.ErrorContains(t, err, "the name of the release", release)
	}
}
