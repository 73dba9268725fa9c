package e2e

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"
	"github.com/stretchr/testify/require"

	"fanfare/internal/id"
	"fanfare/internal/queue"
	"fanfare/messages"
)

var updateSchema = flag.Bool("update-schema", false, "write the JSON Schema files of the messages")

// TestSchemaFilesFollowTheTypes compares the JSON Schema files of the events with the types of the
// events. The test is in e2e because only this module has the generator.
func TestSchemaFilesFollowTheTypes(t *testing.T) {
	reflector := jsonschema.Reflector{Anonymous: true, DoNotReference: true, AllowAdditionalProperties: true}
	for _, kind := range messages.Kinds() {
		event := messages.New(kind)
		schema := reflector.Reflect(event)
		schema.Title = string(kind)
		addGrammars(schema, reflect.TypeOf(event).Elem())
		if slices.Contains(slices.Concat(queue.Kinds(queue.TopicPosts), queue.Kinds(queue.TopicLikes)), kind) {
			allowNull(schema)
		}
		schema.Properties.Set("type", &jsonschema.Schema{Const: string(kind)})
		schema.Properties.Set("version", &jsonschema.Schema{Const: messages.Version})
		schema.Required = append([]string{"type", "version"}, schema.Required...)
		got, err := json.MarshalIndent(schema, "", "  ")
		require.NoError(t, err)
		file := filepath.Join("..", "messages", "schema", string(kind)+".json")
		if *updateSchema {
			require.NoError(t, os.WriteFile(file, append(got, '\n'), 0o644))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
			t.Errorf("%s differs from its type: write it with go test . -run TestSchemaFiles -update-schema (-file +type):\n%s", file, diff)
		}
	}
}

// allowNull allows null in each optional field, also of the elements of a list: producers in other languages write null for a field
// that they do not use.
func allowNull(schema *jsonschema.Schema) {
	for field := schema.Properties.Oldest(); field != nil; field = field.Next() {
		if items := field.Value.Items; items != nil && items.Properties != nil {
			allowNull(items)
		}
		if of := field.Value; !slices.Contains(schema.Required, field.Key) {
			of.Extras = map[string]any{"type": []string{of.Type, "null"}}
			of.Type = ""
		}
	}
}

// addGrammars adds the patterns of the fields with ids.
func addGrammars(schema *jsonschema.Schema, of reflect.Type) {
	for _, field := range reflect.VisibleFields(of) {
		grammar, _, _ := strings.Cut(field.Tag.Get("id"), ",")
		pattern := map[string]string{"user": id.UserPattern, "ulid": id.ULIDPattern}[grammar]
		if pattern == "" {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		property, _ := schema.Properties.Get(name)
		if property.Items != nil {
			property = property.Items
		}
		property.Pattern = pattern
	}
}
