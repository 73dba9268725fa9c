package messages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"fanfare/internal/strictjson"
)

// envelope is the part of an event that Decode reads first.
type envelope struct {
	Type    Kind `json:"type"`
	Version int  `json:"version"`
}

// Encode returns the JSON of an event. It fails on fields that no consumer would accept,
// so that a defect is found at its source.
func Encode(e Event) ([]byte, error) {
	if e == nil || reflect.ValueOf(e).IsNil() {
		return nil, errors.New("encode an event: it is nil")
	}
	of := entryOf(e)
	if of == nil {
		return nil, fmt.Errorf("encode %T: it is no event", e)
	}
	if err := of.check(e); err != nil {
		return nil, fmt.Errorf("encode %s: %w", of.kind, err)
	}
	out := bytes.NewBuffer(make([]byte, 0, 512))
	out.WriteString(of.opening)
	at := out.Len() - 1
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, fmt.Errorf("encode %s: %w", of.kind, err)
	}
	payload := slices.Delete(bytes.TrimSuffix(out.Bytes(), []byte("\n")), at+1, at+2) // the brace of e
	return escapeNoncharacters(payload), nil
}

// envelopeOf reads the type and the version of an event. If they come first, as Encode
// writes them, it needs no decoder.
func envelopeOf(payload []byte) (env envelope, err error) {
	if rest, ok := bytes.CutPrefix(payload, []byte(`{"type":"`)); ok {
		kind, _, _ := bytes.Cut(rest, []byte(`"`))
		if of := byKind[Kind(kind)]; of != nil && bytes.HasPrefix(payload, []byte(of.opening)) {
			return envelope{of.kind, Version}, nil
		}
	}
	return env, strictjson.Unmarshal(payload, &env)
}

// Decode reads an event. Every error is a *PermanentError.
func Decode(payload []byte) (Event, error) {
	env, err := envelopeOf(payload)
	if err != nil {
		return nil, Permanent(ReasonUnreadable, "the payload is not a JSON object with type and version: %v", err)
	}
	of := byKind[env.Type]
	if of == nil {
		return nil, Permanent(ReasonUnknown, "unknown type %q", env.Type)
	}
	if env.Version != Version {
		return nil, Permanent(ReasonUnknown, "%s has version %d, this consumer reads version %d: deploy a newer one, then redrive", env.Type, env.Version, Version)
	}
	e := of.empty()
	if err := strictjson.Unmarshal(payload, e); err != nil {
		return nil, Permanent(ReasonUnreadable, "%s: %v", env.Type, err)
	}
	if err := of.check(e); err != nil {
		return nil, Permanent(ReasonUnreadable, "%s: %v", env.Type, err)
	}
	return e, nil
}

// escapeNoncharacters writes U+FFFE and U+FFFF as JSON escapes. Both are valid Unicode,
// but SQS refuses a body that has them. Decode restores them.
func escapeNoncharacters(b []byte) []byte {
	if !bytes.Contains(b, []byte("\xEF\xBF")) { // the first bytes of both
		return b
	}
	b = bytes.ReplaceAll(b, []byte("\uFFFE"), []byte(`\ufffe`))
	return bytes.ReplaceAll(b, []byte("\uFFFF"), []byte(`\uffff`))
}
