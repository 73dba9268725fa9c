package fanout_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"fanfare/internal/feed/access"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/lifetime"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// hookedService returns a service that uses the hooks of the world.
func (w *world) hookedService(days int) domain {
	return newDomain(access.Config{
		Store: table.HideExpired(w.store, w.clock), Publisher: publisher{w}, IDs: w.ids, Now: w.clock, Lifetimes: lifetime.Fixed(timelineTTL), ActiveDays: days,
	})
}

// Once a reader is put away, fan-out skips the reader. When the reader returns, the reader sees the skipped
// posts at once, and later posts are delivered again.
func TestAReaderThatIsPutAwayIsSkippedAndReturns(t *testing.T) {
	for _, enrolled := range []int{14, 0} { // with a presence, and without
		w := newWorld(t, 0, active(14))
		w.followed(enrolled, append(slices.Clone(authors), author)...)
		before := w.posted()
		s := w.service(14)
		w.must(s.PutAway(t.Context(), reader))
		w.must(s.PutAway(t.Context(), reader))
		past := schema.DayOf(w.now) - 2
		assert.Equal(t, append(all(past), past), append(w.days(authors...), w.presence().Until))

		missed := w.posted()
		assert.Equal(t, int64(1), *w.delivery(missed).Skipped)
		assert.NotContains(t, w.entriesIn(reader), missed)
		assert.Equal(t, []string{before, missed}, w.shown(reader), "at once")
		w.drain(w.worker)
		w.now = w.now.Add(2 * time.Minute)
		after := w.posted()
		assert.Equal(t, []string{before, missed, after}, w.entriesIn(reader))
		assert.Equal(t, []string{before, missed, after}, w.shown(reader), "by push")
	}
}

// At each call to the table, the reader returns and the return ends, or a refresh ends, or the
// reader follows or unfollows. Afterwards the day of each edge is at least the presence's day,
// so no post is missed.
func TestAReaderIsPutAwayWhileItsEdgesAreRaised(t *testing.T) {
	for name, meanwhile := range map[string]func(w *world){
		"a return": func(w *world) { w.shown(reader); w.drain(w.newWorker(active(14))) },
		"a refresh": func(w *world) {
			w.must(handle(w.Context(), w.newWorker(active(14)), w.seen()))
		},
		"an unfollow": func(w *world) { w.must(w.service(14).Unfollow(w.Context(), reader, "a07")) },
		"a follow":    func(w *world) { w.must(w.service(14).Follow(w.Context(), reader, "late")) },
	} {
		t.Run(name, func(t *testing.T) {
			followees := []string{author}
			for i := range 30 { // so many that they need more than one transaction
				followees = append(followees, fmt.Sprintf("a%02d", i))
			}
			at := 0
			for fired := true; fired; at++ {
				w := newWorld(t, 0, active(14))
				w.followed(3, followees...)
				_, err := w.service(14).PutProfile(t.Context(), "late", feed.ProfileInput{Name: "late"})
				w.must(err)
				change := w.atCall(at, func() {
					w.store.around = nil
					meanwhile(w)
				})
				err = w.hookedService(14).PutAway(t.Context(), reader)
				var refusal *fault.Error
				require.True(t, err == nil || errors.As(err, &refusal) && refusal.Kind == fault.Unavailable, "%v", err)
				fired = change()
				w.store.around = nil
				w.drain(w.worker)
				for _, day := range w.days(followees...) {
					require.True(t, day == -1 || day >= w.presence().Until, "at call %d: an edge has day %d, the presence %d", at, day, w.presence().Until)
				}
				post := w.posted()
				w.now = w.now.Add(2 * time.Minute)
				require.Equal(t, []string{post}, w.shown(reader), "at call %d", at)
			}
			require.Greater(t, at, 3)
		})
	}
}
