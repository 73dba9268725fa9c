// Package strictjson reads the JSON of strangers: bodies of requests, events, lines of an import, key
// sets, lists of backups. All code that reads another program's JSON uses package strictjson, so that
// all code reads a text in the same way.
//
// Package strictjson accepts the JSON of RFC 8259 and RFC 7493 (I-JSON): UTF-8, one value and no data
// after the value, names that occur once in their object, surrogates in pairs, at most 10,000 levels.
// Names match letter by letter, and times have the form of RFC 3339. encoding/json changes such input
// instead: it writes U+FFFD, keeps the last of two members with one name, and accepts "ID" for "id".
//
// Package strictjson must never change a value, nor bound the size of a text. The caller bounds the
// size.
package strictjson

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"fanfare/internal/rfc3339"
)

// Error is the first fault of a text.
type Error struct {
	// Field is the place of the fault, such as a.b[0].c, or "" for the whole text.
	Field string
	// Detail completes a sentence that begins with the name of the field or of the text.
	Detail string
	// Malformed reports that the text is not JSON.
	Malformed bool
}

func (e *Error) Error() string {
	if e.Field == "" {
		return e.Detail
	}
	return e.Field + ": " + e.Detail
}

// Unmarshal reads a text into v. It ignores members without a field in v.
func Unmarshal(text []byte, v any) error {
	return wrap(json.Unmarshal(text, v, times))
}

// UnmarshalKnown reads a text into v. It refuses members without a field in v.
func UnmarshalKnown(text []byte, v any) error {
	return wrap(json.Unmarshal(text, v, times, json.RejectUnknownMembers(true)))
}

// Member is a member of an object. The value of a Member is already checked.
type Member struct {
	Name  string
	Value jsontext.Value
}

// Members returns the members of a text that is one object, in their order. If Members returns an
// error, it also returns the members before the fault.
func Members(text []byte) ([]Member, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(text))
	if kind := dec.PeekKind(); kind != '{' && kind != 0 {
		if err := all(dec); err != nil {
			return nil, wrap(err)
		}
		return nil, errObject
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, wrap(err)
	}
	var members []Member
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return members, wrap(err)
		}
		m := Member{Name: name.String()}
		value, err := dec.ReadValue()
		if err != nil {
			return members, wrap(err)
		}
		m.Value = value.Clone()
		members = append(members, m)
	}
	if _, err := dec.ReadToken(); err != nil {
		return members, wrap(err)
	}
	return members, wrap(end(dec))
}

var errObject = &Error{Detail: "is not a JSON object"}

// Elements returns the elements of the array in a member of an object. Elements is for lists with
// independent elements: Elements checks only the borders of elements, so a bad element does not affect
// the good elements. Read each element with Unmarshal.
func Elements(text []byte, member string) ([]jsontext.Value, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if kind := dec.PeekKind(); kind != '{' && kind != 0 {
		return nil, errObject
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, wrap(err)
	}
	var list jsontext.Value
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, wrap(err)
		}
		wanted := name.String() == member
		value, err := dec.ReadValue()
		switch {
		case err != nil:
			return nil, wrap(err)
		case wanted && list != nil:
			return nil, &Error{Field: member, Detail: "occurs more than once"}
		case wanted:
			list = value.Clone()
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, wrap(err)
	}
	if err := end(dec); err != nil {
		return nil, wrap(err)
	}
	if list.Kind() != '[' {
		return nil, &Error{Field: member, Detail: "is not a JSON array"}
	}
	return elements(list)
}

// elements returns the elements of an array whose brackets were checked.
func elements(list jsontext.Value) (out []jsontext.Value, err error) {
	dec := jsontext.NewDecoder(bytes.NewReader(list), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err = dec.ReadToken(); err != nil {
		return nil, wrap(err)
	}
	for dec.PeekKind() != ']' {
		value, err := dec.ReadValue()
		if err != nil {
			return nil, wrap(err)
		}
		out = append(out, value.Clone())
	}
	return out, nil
}

// all reads the rest of a text.
func all(dec *jsontext.Decoder) error {
	if _, err := dec.ReadValue(); err != nil {
		return err
	}
	return end(dec)
}

// end returns nil at the end of a text.
func end(dec *jsontext.Decoder) error {
	_, err := dec.ReadToken()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return &Error{Detail: "is not well-formed JSON: data follows its end", Malformed: true}
	}
	return err
}

// times reads every time.Time by RFC 3339. times is made once, because the library caches data about
// types in it.
//
//nolint:gochecknoglobals // it never changes
var times = json.WithUnmarshalers(json.UnmarshalFromFunc(func(dec *jsontext.Decoder, at *time.Time) error {
	value, err := dec.ReadToken()
	if err != nil {
		return err
	}
	if value.Kind() == 'n' { // the zero value, as null is in a field of any other type
		*at = time.Time{}
		return nil
	}
	if value.Kind() != '"' {
		return errors.New(rfc3339.Form)
	}
	*at, err = rfc3339.Parse(value.String())
	return err
}))

// wrap turns an error of the decoder into an *Error.
func wrap(err error) error {
	if err == nil {
		return nil
	}
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return &Error{Field: field(syntax.JSONPointer), Detail: "occurs more than once"}
		}
		return &Error{Field: field(syntax.JSONPointer), Detail: "is not well-formed JSON: " + reason(syntax.Err), Malformed: true}
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		return &Error{Field: field(semantic.JSONPointer), Detail: meaning(semantic)}
	}
	return &Error{Detail: "is not well-formed JSON: " + reason(err), Malformed: true}
}

// reason returns the reason why a text is not JSON.
func reason(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it ends too early"
	}
	return strings.TrimPrefix(err.Error(), "jsontext: ")
}

// meaning returns the fault of a value with another type than its field.
func meaning(e *json.SemanticError) string {
	switch {
	case errors.Is(e.Err, json.ErrUnknownName):
		return "is unknown"
	case e.GoType == reflect.TypeFor[time.Time]() && e.Err != nil:
		return e.Err.Error()
	case e.JSONKind == '0' && e.GoType != nil && reflect.Zero(e.GoType).CanInt():
		return "must be a whole number within its range"
	case e.GoType != nil && e.JSONKind != 0:
		return "must not be a JSON " + kindName(e.JSONKind)
	case e.Err != nil:
		return e.Err.Error()
	}
	return "has another type"
}

func kindName(kind jsontext.Kind) string {
	switch kind {
	case 'n':
		return "null"
	case 't', 'f':
		return "boolean"
	case '"':
		return "string"
	case '0':
		return "number"
	case '{':
		return "object"
	case '[':
		return "array"
	default:
		return "value of this kind"
	}
}

// field returns the place of a JSON pointer. A pointer does not distinguish the number of an element from a
// name of digits.
func field(at jsontext.Pointer) (place string) {
	for token := range at.Tokens() {
		if _, err := strconv.ParseUint(token, 10, 64); err == nil {
			token = "[" + token + "]"
		}
		place = In(place, token)
	}
	return place
}

// In returns the place of a fault from the place of a value, and the place of the fault in that value.
func In(value, place string) string {
	if value == "" || place == "" || place[0] == '[' {
		return value + place
	}
	return value + "." + place
}

// Null returns the place of the first null in a value that was checked.
func Null(value jsontext.Value) (place string, found bool) {
	dec := jsontext.NewDecoder(bytes.NewReader(value))
	for {
		switch token, err := dec.ReadToken(); {
		case err != nil:
			return "", false
		case token.Kind() == 'n':
			return field(dec.StackPointer()), true
		}
	}
}
