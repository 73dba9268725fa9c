package httpapi

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"fanfare/internal/id"
)

// samples has an example in Go for each call, by package client. An example follows a line
// "# ID"; in it, c is a client and ctx a context.
//
//go:embed samples.txt
var samples string

func humaConfig(prefix string) huma.Config {
	cfg := huma.DefaultConfig("Fanfare", apiVersion)
	cfg.Info.Description = "A feed: posts, follows, likes and home timelines. Errors are RFC 9457 problems whose type is stable. " +
		"Lists are paged by opaque cursors: pass next_cursor back as cursor; it is absent on the last page. " +
		"A page may be short, and even empty, and still have a next_cursor; its items have 256 KiB of JSON at most."
	cfg.Info.License = &huma.License{Name: "Apache 2.0", Identifier: "Apache-2.0"}
	cfg.Servers = []*huma.Server{{URL: cmp.Or(prefix, "/"), Description: "The service that gave this document."}}
	// Fanfare serves the document and its page itself. Answers have no $schema links.
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath = "", "", ""
	cfg.CreateHooks = nil
	cfg.Transformers = []huma.Transformer{problems}
	format := huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: unmarshal}
	cfg.Formats = map[string]huma.Format{"application/json": format, "json": format}
	cfg.Components.Schemas.RegisterTypeAlias(reflect.TypeFor[json.RawMessage](), reflect.TypeFor[Data]())
	if made := reflect.TypeOf(huma.NewError(0, "")); made.Kind() == reflect.Pointer { // huma adds the schema of its errors to the document
		cfg.Components.Schemas.RegisterTypeAlias(made.Elem(), reflect.TypeFor[Problem]())
	}
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer", BearerFormat: "JWT", Description: "The claim sub is the user id, unless the service names another one. " +
			"A token with the scope fanfare:act, unless the service names another one, is a service's: it may name a user in the header Fanfare-User."},
	}
	return cfg
}

// complete adds the parts of the document that huma does not write for the registered calls: samples, tags,
// and the headers of answers that no operation sets.
func complete(doc *huma.OpenAPI) error {
	source := map[string]string{}
	for _, sample := range strings.Split(samples, "# ")[1:] {
		call, text, _ := strings.Cut(sample, "\n")
		source[call] = text
	}
	doc.Components.Headers = map[string]*huma.Header{
		"X-Request-Id":     {Description: "The id of the request in the server's log: the client's own, or a new one.", Schema: &huma.Schema{Type: huma.TypeString}},
		"Retry-After":      {Description: "The seconds to wait before the call is sent again.", Schema: &huma.Schema{Type: huma.TypeInteger}},
		"WWW-Authenticate": {Description: "The fault of the token (RFC 6750).", Schema: &huma.Schema{Type: huma.TypeString}},
	}
	doc.Components.Parameters = map[string]*huma.Param{userHeader: {
		Name: userHeader, In: "header", Description: "The user of a service's call: only with a token that has the scope for it. The call then has the rights of this user.",
		Schema: &huma.Schema{Type: huma.TypeString, Pattern: id.UserPattern, Examples: []any{"alice"}},
	}}
	doc.Tags = tags()
	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Patch, item.Delete} {
			if op == nil {
				continue
			}
			if !slices.ContainsFunc(doc.Tags, func(t *huma.Tag) bool { return t.Name == op.Tags[0] }) {
				return fmt.Errorf("openapi document: the tag %s of %s has no description", op.Tags[0], op.OperationID)
			}
			if err := completeCall(op, source); err != nil {
				return err
			}
		}
	}
	for _, schema := range doc.Components.Schemas.Map() {
		for _, property := range schema.Properties {
			plain(property)
		}
	}
	return nil
}

func completeCall(op *huma.Operation, source map[string]string) error {
	byStatus := map[string]string{"401": "WWW-Authenticate", "429": "Retry-After", "503": "Retry-After"}
	text, ok := source[op.OperationID]
	if !ok {
		return fmt.Errorf("openapi document: samples.txt has no sample of %s", op.OperationID)
	}
	op.Extensions = map[string]any{"x-codeSamples": []map[string]string{{"lang": "Go", "source": text}}}
	for status, response := range op.Responses {
		if response.Headers == nil {
			response.Headers = map[string]*huma.Header{}
		}
		for _, name := range []string{"X-Request-Id", byStatus[status]} {
			if name != "" {
				response.Headers[name] = &huma.Header{Ref: "#/components/headers/" + name}
			}
		}
	}
	for _, param := range op.Parameters {
		plain(param.Schema)
	}
	if actsForUsers(op) {
		op.Parameters = append(op.Parameters, &huma.Param{Ref: "#/components/parameters/" + userHeader})
	}
	return nil
}

func tags() []*huma.Tag {
	return []*huma.Tag{
		{Name: "Home", Description: "The posts of the users you follow, as pages and as a stream."},
		{Name: "Posts", Description: "Posts, quotes and reposts, and their deliveries."},
		{Name: "Likes", Description: "Likes and other reactions, and their counts."},
		{Name: "Comments", Description: "Comments on posts."},
		{Name: "Users", Description: "Profiles, follows, mutes and blocks."},
		{Name: "Bookmarks", Description: "Posts that you keep for yourself."},
		{Name: "Notifications", Description: "What others did with you and your posts."},
		{Name: "Markers", Description: "The places up to which your devices have read."},
		{Name: "Events", Description: "Events of applied work, for services."},
		{Name: "Development", Description: "Calls for tests: a server in production refuses them."},
	}
}

// actsForUsers reports whether a service may name a user.
func actsForUsers(op *huma.Operation) bool {
	return len(op.Security[0]) > 0 && op.Metadata[actsAlone] == nil
}

// plain turns huma's own name of a pattern into a description, after huma has copied the name into its
// messages.
func plain(s *huma.Schema) {
	if s.PatternDescription != "" && s.Description == "" {
		s.Description = "It is " + s.PatternDescription + "."
	}
	s.PatternDescription = ""
	if s.Items != nil {
		plain(s.Items)
	}
}
