package strictjson

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type thing struct {
	ID   string     `json:"id"`
	N    int        `json:"n"`
	At   time.Time  `json:"at"`
	Till *time.Time `json:"till"`
	Sub  struct {
		List []string `json:"list"`
	} `json:"sub"`
}

// hostile returns hostile texts, and the field and the fault of each text.
func hostile() map[string]Error {
	return map[string]Error{
		`{"id":"a","id":"b"}`:                    {Field: "id", Detail: "occurs more than once"},
		`{"x":{"y":1,"y":2}}`:                    {Field: "x.y", Detail: "occurs more than once"},
		`{"id":"a","i\u0064":"b"}`:               {Field: "id", Detail: "occurs more than once"},
		`{"id":"\ud800"}`:                        {Field: "id", Detail: "is not well-formed JSON", Malformed: true},
		`{"id":"\udc00\ud800"}`:                  {Field: "id", Detail: "is not well-formed JSON", Malformed: true},
		`{"x":["\ud83d"]}`:                       {Field: "x[0]", Detail: "is not well-formed JSON", Malformed: true},
		"{\"id\":\"\xff\"}":                      {Field: "id", Detail: "is not well-formed JSON", Malformed: true},
		"{\"id\":\"\xed\xa0\x80\"}":              {Field: "id", Detail: "is not well-formed JSON", Malformed: true},
		"{\"\xff\":1}":                           {Detail: "is not well-formed JSON", Malformed: true},
		"{\"id\":\"\n\"}":                        {Field: "id", Detail: "is not well-formed JSON", Malformed: true},
		`{"id":"a"}{}`:                           {Detail: "is not well-formed JSON", Malformed: true},
		`{"id":"a"} x`:                           {Detail: "is not well-formed JSON", Malformed: true},
		`{"id":"a"`:                              {Detail: "is not well-formed JSON", Malformed: true},
		`{"id":"a",}`:                            {Detail: "is not well-formed JSON", Malformed: true},
		`{id:"a"}`:                               {Detail: "is not well-formed JSON", Malformed: true},
		`{'id':"a"}`:                             {Detail: "is not well-formed JSON", Malformed: true},
		`{"id":"a"/* b */}`:                      {Detail: "is not well-formed JSON", Malformed: true},
		"\ufeff{}":                               {Detail: "is not well-formed JSON", Malformed: true},
		`{"n":NaN}`:                              {Field: "n", Detail: "is not well-formed JSON", Malformed: true},
		`{"n":01}`:                               {Detail: "is not well-formed JSON", Malformed: true},
		``:                                       {Detail: "is not well-formed JSON: it ends too early", Malformed: true},
		strings.Repeat(`[`, 20_000):              {Detail: "is not well-formed JSON", Malformed: true},
		`{"x":` + strings.Repeat(`{"a":`, 1<<19): {Detail: "is not well-formed JSON", Malformed: true},
		`{"x":` + strings.Repeat(`[`, 1<<19) + `]}`: {Detail: "is not well-formed JSON", Malformed: true},
	}
}

func TestHostileTextsAreRefusedByTheirField(t *testing.T) {
	for text, want := range hostile() {
		var v thing
		_, listed := Members([]byte(text))
		for _, err := range []error{Unmarshal([]byte(text), &v), UnmarshalKnown([]byte(`{"sub":{},"id":"a"`+strings.TrimPrefix(text, "{")), &v), listed} {
			var fault *Error
			require.ErrorAsf(t, err, &fault, "%.60q", text)
		}
		var fault *Error
		require.ErrorAs(t, listed, &fault)
		assert.Equalf(t, want.Malformed, fault.Malformed, "%.60q: %v", text, fault)
		assert.Containsf(t, fault.Detail, want.Detail, "%.60q", text)
		if len(text) < 100 {
			assert.Equalf(t, want.Field, fault.Field, "%.60q: %v", text, fault)
		}
	}
}

func TestNamesCountLetterByLetter(t *testing.T) {
	for _, text := range []string{`{"ID":"a"}`, `{"Id":"a"}`, `{"ıd":"a"}`, `{"id ":"a"}`, `{"\u212ad":"a"}`} {
		var v thing
		require.NoError(t, Unmarshal([]byte(text), &v))
		assert.Emptyf(t, v.ID, "%s", text)
		var fault *Error
		require.ErrorAs(t, UnmarshalKnown([]byte(text), &v), &fault)
		assert.Equal(t, "is unknown", fault.Detail)
	}
	var v thing
	require.NoError(t, UnmarshalKnown([]byte(` {"i\u0064":"\ud83d\ude00","n":7} `), &v))
	assert.Equal(t, "😀", v.ID)
	assert.Equal(t, 7, v.N)
}

func TestAFaultNamesItsField(t *testing.T) {
	for text, want := range map[string]string{
		`{"id":7}`:                          "id: must not be a JSON number",
		`{"id":{}}`:                         "id: must not be a JSON object",
		`{"n":"7"}`:                         "n: must not be a JSON string",
		`{"n":7.5}`:                         "n: must be a whole number within its range",
		`{"n":1e400}`:                       "n: must be a whole number within its range",
		`{"sub":{"list":[true]}}`:           "sub.list[0]: must not be a JSON boolean",
		`{"sub":[]}`:                        "sub: must not be a JSON array",
		`{"at":"2026-01-01T00:00:00,5Z"}`:   `at: is not a time of RFC 3339, such as "2024-01-31T12:00:00Z"`,
		`{"till":"2026-01-01T00:00:60Z"}`:   "till: is not a time: second 60 is only at 23:59:60 UTC at the end of a month",
		`{"at":1767225600}`:                 `at: is not a time of RFC 3339, such as "2024-01-31T12:00:00Z"`,
		`[]`:                                "must not be a JSON array",
		`{"at":{"year":2026}}`:              `at: is not a time of RFC 3339, such as "2024-01-31T12:00:00Z"`,
		`{"at":"2026-01-01T00:00:00\ud800"`: "at: is not well-formed JSON: " + `invalid surrogate pair`,
	} {
		var v thing
		assert.ErrorContainsf(t, Unmarshal([]byte(text), &v), want, "%s", text)
	}
}

func TestTimesAreOfRFC3339(t *testing.T) {
	var v thing
	require.NoError(t, Unmarshal([]byte(`{"at":"2016-12-31t23:59:60z","till":"2026-01-01T01:00:00+01:00"}`), &v))
	assert.Equal(t, time.Date(2017, 1, 1, 0, 0, 0, 0, time.UTC), v.At)
	require.NotNil(t, v.Till)
	assert.Equal(t, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), *v.Till)
	require.NoError(t, Unmarshal([]byte(`{"at":null,"till":null}`), &v))
	assert.Zero(t, v.At)
	assert.Nil(t, v.Till)
}

func TestMembersKeepTheirOrder(t *testing.T) {
	members, err := Members([]byte(`{"b":1,"a":{"c":[]},"":null}`))
	require.NoError(t, err)
	var got []string
	for _, m := range members {
		got = append(got, m.Name+"="+string(m.Value))
	}
	assert.Equal(t, []string{"b=1", `a={"c":[]}`, "=null"}, got)
	for _, text := range []string{`[]`, `null`, `"a"`, `7`, `true`} {
		_, err := Members([]byte(text))
		assert.EqualErrorf(t, err, "is not a JSON object", "%s", text)
	}
	before, err := Members([]byte(`{"a":1,"b":2,"a":3}`))
	require.EqualError(t, err, "a: occurs more than once")
	assert.Len(t, before, 2)
}

// A bad element spoils no other element.
func TestElementsStandAlone(t *testing.T) {
	list, err := Elements([]byte(`{"x":"\ud800","x":1,"keys":[{"id":"a"},{"id":"b","id":"c"},{"id":"\ud800"},{"id":7},"d",null,[],{"ID":"e"},{"id":"f"}],"y":{"z":1,"z":2}}`), "keys")
	require.NoError(t, err)
	require.Len(t, list, 9)
	var ids []string
	for _, one := range list {
		var v thing
		if UnmarshalKnown(one, &v) == nil {
			ids = append(ids, v.ID)
		}
	}
	assert.Equal(t, []string{"a", "", "f"}, ids, "null is empty")
	for text, want := range map[string]string{
		`{"keys":[],"keys":[]}`: "keys: occurs more than once",
		`{"keys":{}}`:           "keys: is not a JSON array",
		`{"KEYS":[]}`:           "keys: is not a JSON array",
		`{}`:                    "keys: is not a JSON array",
		`[]`:                    "is not a JSON object",
		`{"keys":[}`:            "is not well-formed JSON",
		`{"keys":[]}{}`:         "is not well-formed JSON",
		`{"keys":[]`:            "is not well-formed JSON",
		``:                      "is not well-formed JSON",
		`{"keys":` + strings.Repeat(`[`, 20_000) + strings.Repeat(`]`, 20_000) + `}`: "is not well-formed JSON",
	} {
		_, err := Elements([]byte(text), "keys")
		assert.ErrorContainsf(t, err, want, "%.40s", text)
	}
}

// encoding/json reads each text that the strict reader accepts in the same way, and no text makes a
// reader panic.
func FuzzUnmarshal(f *testing.F) {
	for text := range hostile() {
		f.Add([]byte(text))
	}
	f.Add([]byte(`{"id":"a","n":7,"at":"2026-01-01T00:00:00Z","till":null,"sub":{"list":["b"]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var strict, loose thing
		members, listed := Members(text)
		if list, err := Elements(text, "keys"); err == nil {
			require.Truef(t, json.Valid([]byte(`[`+strings.Join(texts(list), ",")+`]`)), "%q", text)
		}
		err := UnmarshalKnown(text, &strict)
		if listed == nil {
			require.True(t, json.Valid(text))
			var names map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(text, &names))
			require.Len(t, names, len(members))
		}
		if err != nil || !strict.At.IsZero() || strict.Till != nil { // Go's dialect of times is another one
			return
		}
		require.NoErrorf(t, json.Unmarshal(text, &loose), "%q", text)
		require.Equalf(t, loose, strict, "%q", text)
	})
}

func texts[T ~[]byte](list []T) (out []string) {
	for _, one := range list {
		out = append(out, string(one))
	}
	return out
}
