package messages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"fanfare/internal/strictjson"
)

// envelope is the part of an event that Decode reads first.
type envelope struct {
	Type    Kind `json:"type"`
	Version int  `json:"version"`
}

// newEvent returns an empty event of a kind.
func newEvent(kind Kind) (Event, bool) {
	switch kind {
	case KindPostCreated:
		return new(PostCreated), true
	case KindLiked:
		return new(Liked), true
	case KindUnliked:
		return new(Unliked), true
	case KindReacted:
		return new(Reacted), true
	case KindFollowed:
		return new(Followed), true
	case KindUnfollowed:
		return new(Unfollowed), true
	case KindPostDeleted:
		return new(PostDeleted), true
	case KindUserForgotten:
		return new(UserForgotten), true
	case KindProfileChanged:
		return new(ProfileChanged), true
	case KindMarkWalk:
		return new(MarkWalk), true
	case KindSeen:
		return new(Seen), true
	case KindReturned:
		return new(Returned), true
	case KindFanoutPlan:
		return new(FanoutPlan), true
	case KindFanoutChunk:
		return new(FanoutChunk), true
	case KindPostDelivered:
		return new(PostDelivered), true
	case KindLikeCounted:
		return new(LikeCounted), true
	case KindPostTakenDown:
		return new(PostTakenDown), true
	case KindCommented:
		return new(Commented), true
	case KindMentioned:
		return new(Mentioned), true
	case KindNotified:
		return new(Notified), true
	}
	return nil, false
}

// Encode returns the JSON of an event. It fails on fields that no consumer would accept,
// so that a defect is found at its source.
func Encode(e Event) ([]byte, error) {
	if e == nil || reflect.ValueOf(e).IsNil() {
		return nil, errors.New("encode an event: it is nil")
	}
	if err := check(e); err != nil {
		return nil, fmt.Errorf("encode %s: %w", e.Kind(), err)
	}
	out := bytes.NewBuffer(make([]byte, 0, 512))
	out.WriteString(opening(e.Kind()))
	at := out.Len() - 1
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(e); err != nil {
		return nil, fmt.Errorf("encode %s: %w", e.Kind(), err)
	}
	payload := slices.Delete(bytes.TrimSuffix(out.Bytes(), []byte("\n")), at+1, at+2) // the brace of e
	return escapeNoncharacters(payload), nil
}

// opening is the beginning of every payload of a kind that Encode writes.
func opening(kind Kind) string {
	return `{"type":"` + string(kind) + `","version":` + strconv.Itoa(Version) + `,`
}

// envelopeOf reads the type and the version of an event. If they come first, as Encode
// writes them, it needs no decoder.
func envelopeOf(payload []byte) (env envelope, err error) {
	if rest, ok := bytes.CutPrefix(payload, []byte(`{"type":"`)); ok {
		kind, _, _ := bytes.Cut(rest, []byte(`"`))
		if _, known := newEvent(Kind(kind)); known && bytes.HasPrefix(payload, []byte(opening(Kind(kind)))) {
			return envelope{Kind(kind), Version}, nil
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
	e, ok := newEvent(env.Type)
	if !ok {
		return nil, Permanent(ReasonUnknown, "unknown type %q", env.Type)
	}
	if env.Version != Version {
		return nil, Permanent(ReasonUnknown, "%s has version %d, this consumer reads version %d: deploy a newer one, then redrive", env.Type, env.Version, Version)
	}
	if err := strictjson.Unmarshal(payload, e); err != nil {
		return nil, Permanent(ReasonUnreadable, "%s: %v", env.Type, err)
	}
	if err := check(e); err != nil {
		return nil, Permanent(ReasonUnreadable, "%s: %v", env.Type, err)
	}
	return e, nil
}

func check(e Event) error {
	err := ulid("event_id", e.Head().EventID)
	if e.Head().Time.IsZero() {
		err = errors.Join(err, errors.New("time is missing"))
	}
	return errors.Join(err, e.check())
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
