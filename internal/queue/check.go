package queue

import (
	"fmt"
	"regexp"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"
)

// topicName matches the names that SQS allows for a queue, with room for a prefix and for
// the suffix of the dead-letter queue.
var topicName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,60}$`)

// CheckTopic refuses a topic whose name some backend cannot use. Its error wraps ErrInvalid.
func CheckTopic(topic string) error {
	if !topicName.MatchString(topic) {
		return fmt.Errorf("topic %q: want 1 to 60 letters, digits, - or _: %w", topic, ErrInvalid)
	}
	return nil
}

// Check is for backends. It refuses a message that SQS would refuse, so that all backends
// accept the same messages. A backend calls Check before each send. The error wraps ErrTooLarge
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
	if err := CheckText("payload", msg.Payload); err != nil {
		return err
	}
	if err := CheckText("UUID", msg.UUID); err != nil {
		return err
	}
	for key, value := range msg.Metadata {
		if !validKey(key) {
			return fmt.Errorf("metadata key %q: want 1 to 256 letters, digits, -, _ or inner dots: %w", key, ErrInvalid)
		}
		if key == MetaWait {
			return fmt.Errorf("metadata key %q belongs to the transport: %w", key, ErrInvalid)
		}
		if err := CheckText(key, value); err != nil {
			return fmt.Errorf("metadata %w", err)
		}
	}
	return nil
}

// Size returns the bytes of msg that count against MaxMessageBytes.
func Size(msg *message.Message) int {
	size := len(msg.UUID) + len(msg.Payload) + wireOverhead
	for key, value := range msg.Metadata {
		size += len(key) + len(value) + attributeOverhead
	}
	return size
}

const (
	// attributeOverhead is the size of the data type that SQS stores with an attribute.
	attributeOverhead = len("String")
	// wireOverhead is the size of the attribute that carries the UUID on SQS.
	wireOverhead = len("_watermill_message_uuid") + attributeOverhead
)

// CheckText is for backends. It refuses a text that SQS cannot carry as a body or as the
// value of an attribute. what names the text in the error, which wraps ErrInvalid.
func CheckText[T ~string | ~[]byte](what string, text T) error {
	if printable(text) {
		return nil
	}
	s := string(text)
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

// printable reports whether text is not empty and all its characters are printable ASCII,
// as in nearly every message.
func printable[T ~string | ~[]byte](text T) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' {
			return false
		}
	}
	return len(text) > 0
}

// allowed reports whether SQS carries r. SQS carries the characters of XML 1.0.
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
