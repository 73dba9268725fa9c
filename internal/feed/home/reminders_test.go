package home

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// While an event has no effect, home reads ask for it less and less often.
func TestAMarkIsRemindedOfLessAndLessOften(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	r := newReminders(func() time.Time { return now })
	began, at := now, []int{}
	for ; now.Sub(began) < time.Hour; now = now.Add(10 * time.Second) {
		if r.allow("a") {
			at = append(at, int(now.Sub(began).Minutes()))
		}
	}
	assert.Equal(t, []int{0, 1, 3, 7, 15, 30, 45}, at)
}

func TestAMarkIsRemindedOfOnceAMinute(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	r := newReminders(func() time.Time { return now })
	assert.True(t, r.allow("a"))
	now = now.Add(time.Second)
	assert.True(t, r.allow("b"))
	now = now.Add(time.Minute - time.Second - 1)
	assert.False(t, r.allow("a"), "a minute is not over")
	now = now.Add(1)
	assert.False(t, r.allow("b"), "its own minute is not over")
	assert.True(t, r.allow("a"))
	assert.False(t, r.allow("a"))
	now = now.Add(time.Hour)
	assert.True(t, r.allow("a"))
	assert.True(t, r.allow("b"))
}

// A process sends 1024 reminders a minute at most.
func TestTheMemoryOfRemindersIsBounded(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	r := newReminders(func() time.Time { return now })
	for range 3 {
		for i := range 1024 {
			assert.True(t, r.allow(fmt.Sprint(i)))
		}
		assert.False(t, r.allow("one more"))
		now = now.Add(time.Hour)
	}
	for i := range 1_000_000 {
		if now = now.Add(time.Second); i%2 == 0 {
			r.allow(fmt.Sprint(i))
		}
	}
	assert.Equal(t, maxReminded, r.sent.Len())
}
