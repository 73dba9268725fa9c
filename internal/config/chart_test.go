package config_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/config"
)

const chart = "../../deploy/helm/fanfare/"

// The chart refuses a value before anything starts, so it has the settings, their types and their bounds.
func TestTheChartHasTheSettings(t *testing.T) {
	same(t, chart+"templates/_declared.tpl", func(string) string {
		text, err := json.MarshalIndent(inTemplates(), "", "  ")
		require.NoError(t, err)
		return "{{- /* The settings as internal/config declares them, made by go test ./internal/config -update. */}}\n{{- define \"fanfare.declared\" -}}\n" + string(text) + "\n{{- end }}\n"
	})
	same(t, chart+"values.schema.json", func(was string) string {
		names, properties := config.Names(), map[string]string{}
		for _, f := range config.Fields() {
			properties[f.Name] = fmt.Sprintf("        %q: %s,\n", f.Name, inSchema(t, f))
		}
		var rows strings.Builder
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			rows.WriteString(properties[name])
		}
		pattern := `"pattern": "^FANFARE_(` + strings.ReplaceAll(strings.Join(names, "|"), "FANFARE_", "") + `)$"`
		was = regexp.MustCompile(`"pattern": "\^FANFARE_\([A-Z_|]+\)\$"`).ReplaceAllLiteralString(was, pattern)
		first, last := strings.Index(was, `        "FANFARE_`), strings.Index(was, `        "GOGC"`)
		require.Less(t, first, last)
		return was[:first] + rows.String() + was[last:]
	})
}

// same compares a file with its generated text, or writes the text. generate gets the former text.
func same(t *testing.T, path string, generate func(was string) string) {
	t.Helper()
	was, err := os.ReadFile(path)
	require.NoError(t, err)
	is := generate(string(was))
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(is), 0o600))
		return
	}
	assert.Empty(t, cmp.Diff(string(was), is), "run go test ./internal/config -update")
}

// byChart returns the advice of a chart that sets the value itself with an engine, "" if people write the value.
func byChart(f config.Field, engine config.Engine) string {
	needed, _, isValue := strings.Cut(f.Needs, "=")
	switch {
	case engine == config.EngineAWS && f.Embedded:
		return "it is of the embedded engine"
	case engine == config.EngineEmbedded && !slices.Contains(f.By, "up") && !slices.Contains(f.By, "all"):
		return "fanfare up does not read it"
	case f.Chart != "" || !isValue:
		return f.Chart
	}
	return byChart(config.Fields()[slices.IndexFunc(config.Fields(), func(f config.Field) bool { return f.Name == needed })], engine)
}

// isWritten reports whether people write the setting with one of the engines.
func isWritten(f config.Field) bool {
	return byChart(f, config.EngineAWS) == "" || byChart(f, config.EngineEmbedded) == ""
}

// bounds are the bounds of a number, as the templates read them.
type bounds struct {
	Low  string `json:"low"`
	High string `json:"high"`
	Zero string `json:"zero,omitempty"`
}

// inTemplates returns the settings as the templates of the chart read them. A float of YAML has each whole number up to 2^53.
func inTemplates() any {
	owned, wholes, times := map[config.Engine]map[string]string{}, map[string]bounds{}, map[string]bounds{}
	for _, engine := range []config.Engine{config.EngineAWS, config.EngineEmbedded} {
		owned[engine] = map[string]string{}
		for _, f := range config.Fields() {
			if advice := byChart(f, engine); advice != "" {
				owned[engine][f.Name] = advice
			}
		}
	}
	for _, f := range config.Fields() {
		switch {
		case !isWritten(f):
		case f.Kind == "whole" && f.High == "":
			wholes[f.Name] = bounds{f.Low, "9007199254740991", f.Zero}
		case f.Kind == "whole":
			wholes[f.Name] = bounds{f.Low, f.High, f.Zero}
		case f.Kind == "duration":
			times[f.Name] = bounds{f.Low, f.High, f.Zero}
		}
	}
	return map[string]any{"owned": owned, "whole": wholes, "times": times}
}

// inSchema returns the schema of a setting.
func inSchema(t *testing.T, f config.Field) string {
	t.Helper()
	text := func(of any) string {
		encoded, err := json.Marshal(of)
		require.NoError(t, err)
		return strings.NewReplacer(`\u0026`, "&", `\u003c`, "<", `\u003e`, ">").Replace(string(encoded))
	}
	switch {
	case !isWritten(f):
		return "true"
	case len(f.Words) > 0:
		return `{"enum": ["` + strings.Join(f.Words, `", "`) + `", "", null]}`
	case f.Kind == "list":
		more, further := "", "*"
		if f.Most > 0 {
			more, further = fmt.Sprintf(`, "maxItems": %d, "uniqueItems": true`, f.Most), fmt.Sprintf("{0,%d}", f.Most-1)
		}
		all := fmt.Sprintf("^(%s(, *%s)%s)?$", f.Pattern, f.Pattern, further)
		return fmt.Sprintf(`{"type": ["array", "string", "null"], "pattern": %s%s, "items": {"type": "string", "pattern": %s}}`, text(all), more, text("^"+f.Pattern+"$"))
	case f.Pattern != "":
		return fmt.Sprintf(`{"type": ["string", "integer", "null"], "pattern": %s}`, text("^("+f.Pattern+")?$"))
	}
	return fmt.Sprintf(`{"$ref": "#/definitions/%s"}`, f.Kind)
}
