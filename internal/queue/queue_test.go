package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"

	"fanfare/internal/queue"
	"fanfare/internal/table"
	"fanfare/messages"
)

func TestBackoffDoublesToFiveMinutes(t *testing.T) {
	t.Parallel()
	for receives, want := range map[int]time.Duration{
		-1: time.Second, 0: time.Second, 1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second,
		9: 256 * time.Second, 10: 5 * time.Minute, 11: 5 * time.Minute, 1 << 30: 5 * time.Minute,
	} {
		assert.Equalf(t, want, queue.Backoff(receives), "receive %d", receives)
	}
}

func TestDelayOfANackIsTheBackoffUnlessSet(t *testing.T) {
	t.Parallel()
	r := queue.NewReceive(3)
	assert.Equal(t, queue.Backoff(3), r.Delay())
	for ask, want := range map[time.Duration]time.Duration{
		-time.Second: 0, 0: 0, time.Minute: time.Minute, 24 * time.Hour: 12 * time.Hour,
	} {
		r.RetryAfter(ask)
		assert.Equalf(t, want, r.Delay(), "asked for %s", ask)
	}
}

func TestDeadLetterComesBackAsItWas(t *testing.T) {
	t.Parallel()
	msg := message.NewMessage("id", []byte("payload"))
	msg.Metadata.Set(queue.MetaGroup, "g")
	at := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	letter := queue.NewDeadLetter("posts", msg, "broken \x01 \xff "+strings.Repeat("é", 1000), at)
	if len(letter.Reason) > 1000 || !strings.HasPrefix(letter.Reason, "broken \uFFFD \uFFFD é") {
		t.Errorf("reason of %d bytes: %.30q", len(letter.Reason), letter.Reason)
	}
	stored := letter.Message()
	assert.NoError(t, queue.Check(stored), "a backend could not store it")
	got := queue.ParseDeadLetter("posts", stored)
	if got.Reason != letter.Reason || !got.FailedAt.Equal(at) || got.Receives != 1 || got.Topic != "posts" {
		t.Errorf("came back as %+v, was %+v", got, letter)
	}
	original := got.Original()
	assert.Truef(t, original.Equals(msg), "original %v %q", original.Metadata, original.Payload)
}

func TestDeadLetterOfTheTransportHasAReason(t *testing.T) {
	t.Parallel()
	got := queue.ParseDeadLetter("posts", message.NewMessage("id", []byte("x")))
	assert.NotEmpty(t, got.Reason)
	assert.NotNil(t, got.Metadata)
}

func TestTransientErrors(t *testing.T) {
	t.Parallel()
	cause := errors.New("some defect")
	for _, test := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{cause, false},
		{queue.ErrTooLarge, false},
		{&messages.PermanentError{Reason: "no such post"}, false},
		{&queue.UnavailableError{Op: "send", Err: cause}, true},
		{&table.UnavailableError{Op: "put", Err: cause}, true},
		{queue.ErrClosed, true},
		{context.Canceled, true},
		{context.DeadlineExceeded, true},
	} {
		err := test.err
		if err != nil {
			err = fmt.Errorf("publish: %w", err)
		}
		assert.Equalf(t, test.want, queue.Transient(err), "%v", err)
	}
}

func TestUnavailableErrorCarriesItsCause(t *testing.T) {
	t.Parallel()
	cause := errors.New("throttled")
	err := error(&queue.UnavailableError{Op: "send", Err: cause})
	if !errors.Is(err, cause) || !strings.Contains(err.Error(), "try again") {
		t.Errorf("error %v", err)
	}
}

// The suite (queuetest) tests the limits of Check. FuzzCheck looks for a text that makes Check
// panic, or for an invalid text that Check accepts.
func FuzzCheck(f *testing.F) {
	f.Add("id", "key", "value", "payload")
	f.Add("", "a b", "\xff", "\x00")
	f.Fuzz(func(t *testing.T, id, key, value, payload string) {
		msg := message.NewMessage(id, []byte(payload))
		msg.Metadata.Set(key, value)
		err := queue.Check(msg)
		bad := id == "" || value == "" || payload == "" || strings.ContainsAny(id+value+payload, "\x00\x01\x1f\uFFFE\uFFFF") ||
			strings.ToValidUTF8(id+"\x7f"+value+"\x7f"+payload, "") != id+"\x7f"+value+"\x7f"+payload
		if bad && !errors.Is(err, queue.ErrInvalid) && !errors.Is(err, queue.ErrTooLarge) {
			t.Errorf("%q %q %q %q: error %v", id, key, value, payload, err)
		}
	})
}
