package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Object returns the compact form of a text that is one object: without white space between tokens,
// and with each string in its shortest spelling. So two texts that differ only in escapes have the
// same form. The order of members and the spelling of numbers stay.
//
// Object refuses a text whose compact form has more than most bytes, a text with more than depth
// levels, and a text with a number that no float64 can represent.
func Object(text []byte, most, depth int) (string, error) {
	if err := checkObject(text, depth); err != nil {
		return "", err
	}
	compact := jsontext.Value(bytes.Clone(text))
	if err := compact.Format(); err != nil {
		return "", wrap(err)
	}
	if len(compact) > most {
		return "", &Error{Detail: fmt.Sprintf("has %d bytes without white space: it may have %d", len(compact), most)}
	}
	return string(compact), nil
}

// checkObject checks that a text is one object, token by token.
func checkObject(text []byte, depth int) error {
	dec := jsontext.NewDecoder(bytes.NewReader(text))
	if kind := dec.PeekKind(); kind != '{' && kind != 0 {
		if err := all(dec); err != nil {
			return wrap(err)
		}
		return errObject
	}
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return wrap(err)
		}
		if dec.StackDepth() > depth {
			return &Error{Field: field(dec.StackPointer()), Detail: fmt.Sprintf("is deeper than %d levels", depth)}
		}
		if token.Kind() == '0' {
			if _, err := strconv.ParseFloat(token.String(), 64); errors.Is(err, strconv.ErrRange) {
				return &Error{Field: field(dec.StackPointer()), Detail: "has a number that is out of range"}
			}
		}
		if dec.StackDepth() == 0 {
			return wrap(end(dec))
		}
	}
}
