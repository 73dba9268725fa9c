package strictjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"
)

const most, depth = 4096, 16

func TestObjectsHaveOneForm(t *testing.T) {
	for text, want := range map[string]string{
		` { } `: `{}`,
		"{\"b\" : [ 1.0 , -0,1e2 ,\t0.10 ],\r\n\"a\": null }": `{"b":[1.0,-0,1e2,0.10],"a":null}`,
		`{"n":12345678901234567890,"tiny":1e-400}`:            `{"n":12345678901234567890,"tiny":1e-400}`,
		`{"a b":" \u00e9\/<>&\ud83d\ude00 "}`:                 `{"a b":" é/<>&😀 "}`,
		"{\"a\":\"\uFFFE\\ufffe\uFFFF\u2028\x7f\"}":           "{\"a\":\"\uFFFE\uFFFE\uFFFF\u2028\x7f\"}",
		nested(depth):   nested(depth),
		sized(most):     sized(most),
		` ` + sized(64): sized(64),
	} {
		got, err := Object([]byte(text), most, depth)
		require.NoErrorf(t, err, "%.60q", text)
		assert.Equal(t, want, got)
	}
}

func TestObjectRefusesWithThePlace(t *testing.T) {
	for text, want := range map[string]string{
		`[]`: "is not a JSON object", `null`: "is not a JSON object", `"{}"`: "is not a JSON object", `7`: "is not a JSON object",
		``:                               "is not well-formed JSON: it ends too early",
		`{"a":1`:                         "is not well-formed JSON: it ends too early",
		`{}{}`:                           "is not well-formed JSON: data follows its end",
		`{"a":{"b":1,"b":2}}`:            "a.b: occurs more than once",
		`{"a":1,"\u0061":2}`:             "a: occurs more than once",
		`{"a":[0,1e400]}`:                "a[1]: has a number that is out of range",
		`{"a":-1e309}`:                   "a: has a number that is out of range",
		`{"a":"\ud800"}`:                 "a: is not well-formed JSON: invalid surrogate pair",
		"{\"a\":\"\xff\"}":               "a: is not well-formed JSON: invalid UTF-8",
		nested(depth + 1):                "is deeper than 16 levels",
		strings.Repeat(`{"a":`, 100_000): "is deeper than 16 levels",
		sized(most + 1):                  "has 4097 bytes without white space: it may have 4096",
	} {
		_, err := Object([]byte(text), most, depth)
		var fault *Error
		require.ErrorAsf(t, err, &fault, "%.60q", text)
		assert.Containsf(t, err.Error(), want, "%.60q", text)
	}
}

// nested returns an object of n levels.
func nested(n int) string {
	return strings.Repeat(`{"a":`, n-1) + "{}" + strings.Repeat("}", n-1)
}

// sized returns an object of n bytes.
func sized(n int) string { return `{"a":"` + strings.Repeat("x", n-8) + `"}` }

// Object accepts exactly the texts that two other readers accept, within the bounds of Object. Both
// readers read the same value from the text and from the result of Object.
func FuzzObject(f *testing.F) {
	for _, text := range []string{
		`{}`, ` {"a":[1.50,{"b":null}],"c":"\u00e9"} `, `{"a":1,"\u0061":2}`, `{"a":1e400}`, `{"a":"\ud800"}`, `{"a":"\ud83d\ude00"}`, "{\"a\":\"\xff\"}",
		"{\"a\":\"\uFFFE\"}", nested(depth), nested(depth + 1), sized(most), sized(most + 1), `[]`, `{"a":-}`, `{"a":01}`, `{"a":"` + "\n" + `"}`, "\ufeff{}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := Object(text, most, depth)
		var byProto structpb.Struct
		protoErr := byProto.UnmarshalJSON(text)
		var byGo map[string]any
		goErr := json.Unmarshal(text, &byGo)
		if err != nil {
			var compact bytes.Buffer
			if goErr == nil && byGo != nil && protoErr == nil && levels(byGo) <= depth && json.Compact(&compact, text) == nil {
				require.Greater(t, compact.Len(), most, "refused, and both other readers take it: %v", err)
			}
			return
		}
		require.NoError(t, goErr)
		require.NoError(t, protoErr)
		require.LessOrEqual(t, levels(byGo), depth)
		require.LessOrEqual(t, len(got), most)
		var again map[string]any
		require.NoError(t, json.Unmarshal([]byte(got), &again))
		require.Equal(t, byGo, again)
		require.Equal(t, byGo, byProto.AsMap())
		same, err := Object([]byte(got), most, depth)
		require.NoError(t, err)
		require.Equal(t, got, same)
		sent, err := json.Marshal(json.RawMessage(got))
		require.NoError(t, err)
		require.JSONEq(t, got, string(sent))
	})
}

// levels returns the number of levels of a value.
func levels(v any) int {
	deepest := 0
	switch v := v.(type) {
	case map[string]any:
		for _, inner := range v {
			deepest = max(deepest, levels(inner))
		}
	case []any:
		for _, inner := range v {
			deepest = max(deepest, levels(inner))
		}
	default:
		return 0
	}
	return 1 + deepest
}
