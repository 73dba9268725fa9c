//go:build e2e

package e2e

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/queue"
	"fanfare/messages"
)

// object is a JSON object. Its names are sorted.
type object = map[string]any

// asyncChannel is a channel of the AsyncAPI document.
type asyncChannel struct {
	about string
	// ours is true if Fanfare receives the messages, and false if other programs receive them.
	ours  bool
	kinds []messages.Kind
}

// eventsChannel is the channel of the operator's own queue.
const eventsChannel = "events"

func asyncChannels() map[string]asyncChannel {
	return map[string]asyncChannel{
		queue.TopicPosts:     {"Posts to deliver. Other producers may send them.", true, queue.Kinds(queue.TopicPosts)},
		queue.TopicLikes:     {"Reactions to count. Other producers may send them.", true, queue.Kinds(queue.TopicLikes)},
		queue.TopicBackfills: {"Fanfare's own work: copies, removals and walks.", true, queue.Kinds(queue.TopicBackfills)},
		queue.TopicChunks:    {"Fanfare's own work: the parts of deliveries.", true, queue.Kinds(queue.TopicChunks)},
		queue.TopicNotices:   {"Fanfare's own work: notifications.", true, queue.Kinds(queue.TopicNotices)},
		eventsChannel: {"The queue that FANFARE_EVENTS_QUEUE names: work that Fanfare has applied, for programs of yours.", false, []messages.Kind{
			"PostDelivered", "LikeCounted", "Notified", "PostTakenDown", "Followed",
		}},
	}
}

// TestTheAsyncAPIDocumentFollowsTheTypes compares docs/asyncapi.json with the messages, their schemas and comments.
func TestTheAsyncAPIDocumentFollowsTheTypes(t *testing.T) {
	const file = "../docs/asyncapi.json"
	got, err := json.MarshalIndent(asyncAPI(t), "", "  ")
	require.NoError(t, err)
	if *updateSchema {
		require.NoError(t, os.WriteFile(file, append(got, '\n'), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
		t.Errorf("%s differs from the messages: write it with go test -C e2e -tags e2e . -run TestTheAsyncAPIDocumentFollows -update-schema (-file +types):\n%s", file, diff)
	}
}

// TestTheAsyncAPIDocumentHasEachTopicAndMessage checks that the table of channels is complete.
func TestTheAsyncAPIDocumentHasEachTopicAndMessage(t *testing.T) {
	channels, sent := asyncChannels(), map[string]bool{}
	for _, topic := range append(queue.Topics(), eventsChannel) {
		assert.NotEmpty(t, channels[topic].kinds, topic)
		for _, kind := range channels[topic].kinds {
			sent[string(kind)] = true
		}
	}
	files, err := filepath.Glob("../messages/schema/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		assert.True(t, sent[strings.TrimSuffix(filepath.Base(file), ".json")], "no channel has the message of %s", file)
	}
	assert.Len(t, sent, len(files), "a message without a schema")
}

// TestTheSchemasOfProducersTakeTheirEvents validates the golden events of producers, also with null in each field that an event may leave out.
func TestTheSchemasOfProducersTakeTheirEvents(t *testing.T) {
	for _, kind := range slices.Concat(queue.Kinds(queue.TopicPosts), queue.Kinds(queue.TopicLikes)) {
		schema, err := jsonschema.NewCompiler().Compile(filepath.Join("..", "messages", "schema", string(kind)+".json"))
		require.NoError(t, err)
		text, err := os.ReadFile(filepath.Join("..", "messages", "testdata", snake(string(kind))+".json"))
		require.NoError(t, err)
		event := object{}
		require.NoError(t, json.Unmarshal(text, &event))
		require.NoError(t, schema.Validate(event), kind)
		for name := range schema.Properties {
			with := maps.Clone(event)
			with[name] = nil
			if slices.Contains(schema.Required, name) {
				require.Error(t, schema.Validate(with), "%s: %s", kind, name)
			} else {
				require.NoError(t, schema.Validate(with), "%s: %s", kind, name)
			}
		}
	}
}

func asyncAPI(t *testing.T) object {
	t.Helper()
	docs := typeComments(t, "../messages")
	channels, operations, all := object{}, object{}, object{}
	for name, channel := range asyncChannels() {
		inChannel, refs := object{}, []object{}
		for _, kind := range channel.kinds {
			inChannel[string(kind)] = object{"$ref": "#/components/messages/" + string(kind)}
			refs = append(refs, object{"$ref": "#/channels/" + name + "/messages/" + string(kind)})
			all[string(kind)] = asyncMessage(t, string(kind), docs[string(kind)])
		}
		address, parameter, action := "{prefix}-"+name, object{"prefix": object{"description": "FANFARE_QUEUE_PREFIX", "default": "fanfare"}}, "receive"
		if !channel.ours {
			address, parameter, action = "{queue}", object{"queue": object{"description": "FANFARE_EVENTS_QUEUE"}}, "send"
		}
		channels[name] = object{"address": address, "description": channel.about, "parameters": parameter, "messages": inChannel}
		operations[action+"-"+name] = object{"action": action, "channel": object{"$ref": "#/channels/" + name}, "summary": channel.about, "messages": refs}
	}
	return object{
		"asyncapi": "3.0.0",
		"info": object{
			"title": "Fanfare", "version": "1",
			"description": "The messages in Fanfare's queues, from Fanfare's side. The version is that of the messages. docs/PRODUCERS.md has the rules.",
			"license":     object{"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
		},
		"defaultContentType": "application/json",
		"servers":            object{"sqs": object{"host": "sqs.{region}.amazonaws.com", "protocol": "sqs", "description": "Standard queues in one region.", "variables": object{"region": object{"default": "eu-central-1"}}}},
		"channels":           channels,
		"operations":         operations,
		"components":         object{"messages": all},
	}
}

// asyncMessage returns the message of a kind, with the payload of its JSON Schema and with its
// attributes.
func asyncMessage(t *testing.T, kind, about string) object {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "messages", "schema", kind+".json"))
	require.NoError(t, err)
	var payload object
	require.NoError(t, json.Unmarshal(text, &payload))
	delete(payload, "$schema") // the keywords of the payload exist in the dialect of the document, too
	example, err := os.ReadFile(filepath.Join("..", "messages", "testdata", snake(kind)+".json"))
	require.NoError(t, err)
	var sample any
	require.NoError(t, json.Unmarshal(example, &sample))
	require.NotEmpty(t, about, kind)
	return object{
		"name": kind, "title": kind, "summary": about, "payload": payload, "examples": []object{{"payload": sample}},
		"headers": object{"type": "object", "properties": object{
			"_watermill_message_uuid": object{"type": "string", "description": "The event's id, for logs and dead letters."},
			"group":                   object{"type": "string", "description": "The group key, which is the MessageGroupId too."},
		}},
	}
}

// snake returns the name of a message's golden file.
func snake(kind string) string {
	var out strings.Builder
	for i, r := range kind {
		if i > 0 && r >= 'A' && r <= 'Z' {
			out.WriteByte('_')
		}
		out.WriteRune(r)
	}
	return strings.ToLower(out.String())
}

// typeComments returns the comments of a package's types, each as one line.
func typeComments(t *testing.T, folder string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	require.NoError(t, err)
	comments := map[string]string{}
	for _, file := range slices.DeleteFunc(files, func(file string) bool { return strings.HasSuffix(file, "_test.go") }) {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		require.NoError(t, err)
		for _, decl := range parsed.Decls {
			gen, ok := decl.(*ast.GenDecl)
			if !ok || gen.Tok != token.TYPE {
				continue
			}
			for _, spec := range gen.Specs {
				comments[spec.(*ast.TypeSpec).Name.Name] = strings.Join(strings.Fields(gen.Doc.Text()), " ")
			}
		}
	}
	return comments
}
