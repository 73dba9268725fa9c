package e2e

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/invopop/jsonschema"
	"github.com/stretchr/testify/require"

	"fanfare/messages"
)

var updateSchema = flag.Bool("update-schema", false, "write the JSON Schema files of the messages")

// TestSchemaFilesFollowTheTypes compares the JSON Schema files of the events with the types of the
// events. The test is in e2e because only this module has the generator.
func TestSchemaFilesFollowTheTypes(t *testing.T) {
	reflector := jsonschema.Reflector{Anonymous: true, DoNotReference: true, AllowAdditionalProperties: true}
	for _, event := range []messages.Event{
		&messages.PostCreated{}, &messages.Liked{}, &messages.Unliked{}, &messages.Reacted{}, &messages.Followed{}, &messages.Unfollowed{}, &messages.PostDeleted{}, &messages.UserForgotten{}, &messages.ProfileChanged{}, &messages.MarkWalk{}, &messages.Seen{}, &messages.Returned{}, &messages.FanoutPlan{}, &messages.FanoutChunk{},
		&messages.PostDelivered{}, &messages.LikeCounted{}, &messages.Commented{}, &messages.Mentioned{}, &messages.Notified{}, &messages.PostTakenDown{},
	} {
		schema := reflector.Reflect(event)
		schema.Title = string(event.Kind())
		schema.Properties.Set("type", &jsonschema.Schema{Const: string(event.Kind())})
		schema.Properties.Set("version", &jsonschema.Schema{Const: messages.Version})
		schema.Required = append([]string{"type", "version"}, schema.Required...)
		got, err := json.MarshalIndent(schema, "", "  ")
		require.NoError(t, err)
		file := filepath.Join("..", "messages", "schema", string(event.Kind())+".json")
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
