package httpapi

import (
	"encoding/json"

	"github.com/danielgtaylor/huma/v2"
)

// Data is custom data in a request: a JSON object, as the domain keeps it. Answers have a json.RawMessage, whose schema is
// the schema of Data.
type Data json.RawMessage

// Schema implements huma.SchemaProvider.
func (Data) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true, Description: dataDoc, Examples: []any{map[string]any{"photos": 2}}}
}

// UnmarshalJSON implements json.Unmarshaler.
func (d *Data) UnmarshalJSON(text []byte) error { return (*json.RawMessage)(d).UnmarshalJSON(text) }

const dataDoc = "A JSON object that Fanfare stores and returns, and never reads: 16 levels, and without white space 4,096 bytes in a post, 1,024 in a profile and a comment. " +
	"The order of members and the spelling of numbers stay; a client that reads doubles rounds large integers."

// RemovableData is Data that null removes.
type RemovableData struct{ Data }

// Schema implements huma.SchemaProvider.
func (RemovableData) Schema(r huma.Registry) *huma.Schema {
	s := Data{}.Schema(r)
	s.Nullable, s.Description = true, "Replaces the data; null removes it, and without data it stays. "+s.Description
	return s
}

// change returns the change of data for the domain: nil for no change, "" to remove the data.
func (d RemovableData) change() *string {
	switch {
	case d.Data == nil:
		return nil
	case string(d.Data) == "null":
		return new("")
	}
	return new(string(d.Data))
}
