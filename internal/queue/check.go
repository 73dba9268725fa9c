package queue

import (
	"errors"
	"fmt"
	"regexp"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
)

// ErrInvalid is wrapped by Publish for a topic or a message that no backend could
// carry unharmed. Nothing of that call was published.
var ErrInvalid = errors.New("invalid message")

// UnavailableError wraps a failure that another try may mend: throttling, a lost
// connection, a timeout. Whether the call took effect is unknown. Callers answer 503
// or back off.
type UnavailableError struct {
	Op  string
	Err error
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("queue: %s: unavailable, try again: %v", e.Op, e.Err)
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// topicName is what SQS allows in the name of a queue, with room for a prefix and
// for the ending of the dead-letter queue.
var topicName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,60}$`)

// CheckTopic refuses a topic that no backend could name. Its error wraps ErrInvalid.
func CheckTopic(topic string) error {
	if !topicName.MatchString(topic) {
		return fmt.Errorf("topic %q: want 1 to 60 letters, digits, - or _: %w", topic, ErrInvalid)
	}
	return nil
}

// Check is for backends: it refuses, before anything is sent, a message that SQS
// would refuse, so that all backends accept the same. Its errors wrap ErrTooLarge
// or ErrInvalid.
func Check(msgs ...*message.Message) error {
	for _, msg := range msgs {
		if err := check(msg); err != nil {
			return fmt.Errorf("message %q: %w", msg.UUID, err)
		}
	}
	return nil
}

func check(msg *message.Message) error {
	if n := len(msg.Metadata); n > MaxMetadata {
		return fmt.Errorf("%d metadata entries, at most %d are possible: %w", n, MaxMetadata, ErrTooLarge)
	}
	if n := Size(msg); n > MaxMessageBytes {
		return fmt.Errorf("%d bytes, at most %d are possible: %w", n, MaxMessageBytes, ErrTooLarge)
	}
	if err := checkText("payload", string(msg.Payload)); err != nil {
		return err
	}
	if err := checkText("UUID", msg.UUID); err != nil {
		return err
	}
	for key, value := range msg.Metadata {
		if !validKey(key) {
			return fmt.Errorf("metadata key %q: want 1 to 256 letters, digits, -, _ or inner dots: %w", key, ErrInvalid)
		}
		if err := checkText("metadata "+key, value); err != nil {
			return err
		}
	}
	return nil
}

// Size is what a message counts against MaxMessageBytes.
func Size(msg *message.Message) int {
	size := len(msg.UUID) + len(msg.Payload) + wireOverhead
	for key, value := range msg.Metadata {
		size += len(key) + len(value) + attributeOverhead
	}
	return size
}

const (
	// attributeOverhead is the name of a metadata entry's data type on SQS.
	attributeOverhead = len("String")
	// wireOverhead is the attribute that carries the UUID on SQS.
	wireOverhead = len("_watermill_message_uuid") + attributeOverhead
)

func checkText(what, s string) error {
	switch {
	case s == "":
		return fmt.Errorf("%s is empty: %w", what, ErrInvalid)
	case !utf8.ValidString(s):
		return fmt.Errorf("%s is not UTF-8: %w", what, ErrInvalid)
	}
	for _, r := range s {
		if !allowed(r) {
			return fmt.Errorf("%s has the character %U, write it as an escape: %w", what, r, ErrInvalid)
		}
	}
	return nil
}

// allowed tells the characters that SQS carries: those of XML 1.0.
func allowed(r rune) bool {
	return r >= ' ' && r != '\uFFFE' && r != '\uFFFF' || r == '\t' || r == '\n' || r == '\r'
}

func validKey(key string) bool {
	if key == "" || len(key) > 256 || key[0] == '.' || key[len(key)-1] == '.' {
		return false
	}
	for _, c := range []byte(key) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}
