package clock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/clock"
	"fanfare/internal/id"
	"fanfare/messages"
)

const day = 24 * time.Hour

// wall is a clock that is wrong by skew.
type wall struct {
	skew time.Duration
	*clock.Clock
}

func (w *wall) now() time.Time { return time.Now().Add(w.skew) }

// aws makes the clock observe a reply of AWS.
func (w *wall) aws() { w.Observe(time.Now().Truncate(time.Second), time.Second) }

func pass(d time.Duration) { <-time.After(d) }

func inTime(t *testing.T, test func(t *testing.T, w *wall)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &wall{}
		w.Clock = clock.New(w.now)
		test(t, w)
	})
}

func TestANilClockHasNoDoubt(t *testing.T) {
	var c *clock.Clock
	c.Observe(time.Now().Add(time.Hour), 0)
	require.NoError(t, c.Doubt())
	assert.ErrorAs(t, c.CheckAge("event_id", id.Floor(time.Now().Add(-31*day)), time.Now()), new(*messages.PermanentError))
}

func TestAWSDecidesAtOnce(t *testing.T) {
	inTime(t, func(t *testing.T, w *wall) {
		t.Helper()
		for _, skew := range []time.Duration{50 * time.Hour, -3 * time.Hour, 10 * day, -25 * day, -20 * 365 * day} {
			w.skew = skew
			w.aws()
			require.ErrorAs(t, w.Doubt(), new(*clock.DoubtError), "%s", skew)
			assert.InDelta(t, skew.Seconds(), w.Offset().Seconds(), 2)
			pass(2 * time.Hour)
			require.Error(t, w.Doubt(), "%s for hours: a clock that lasts is wrong all the same", skew)
			w.skew = 4 * time.Minute
			require.NoError(t, w.Doubt(), "set right, before AWS says so")
			w.aws()
			require.NoError(t, w.Doubt())
		}
	})
}

func TestAStepIsSeenBeforeAWSAnswers(t *testing.T) {
	inTime(t, func(t *testing.T, w *wall) {
		t.Helper()
		w.aws()
		pass(30 * day)
		require.NoError(t, w.Doubt())
		w.skew = 40 * day
		require.Error(t, w.Doubt())
		pass(day)
		require.Error(t, w.Doubt())
	})
}

// The monotonic clock stops while a machine sleeps. The next reply ends the doubt.
func TestAReplyEndsTheDoubtAfterASleep(t *testing.T) {
	inTime(t, func(t *testing.T, w *wall) {
		t.Helper()
		w.aws()
		w.skew = 8 * time.Hour // after the sleep, the wall clock seems to be ahead
		require.Error(t, w.Doubt())
		w.Observe(w.now(), time.Second)
		require.NoError(t, w.Doubt())
	})
}

func TestAReplyThatWasReadLateSaysNothing(t *testing.T) {
	inTime(t, func(t *testing.T, w *wall) {
		t.Helper()
		w.aws()
		w.Observe(time.Now().Add(-time.Hour), time.Hour)
		assert.NoError(t, w.Doubt())
	})
}

// Without AWS, a step causes doubt for an hour, and then the clock is trusted again.
func TestAStepOfAClockThatNothingConfirms(t *testing.T) {
	for _, step := range []time.Duration{30 * day, -30 * day, 50 * 365 * day} {
		inTime(t, func(t *testing.T, w *wall) {
			t.Helper()
			require.NoError(t, w.Doubt())
			pass(3 * time.Hour)
			w.skew = step
			require.Error(t, w.Doubt())
			pass(10 * time.Minute)
			require.Error(t, w.Doubt())
			w.skew = 0
			require.NoError(t, w.Doubt(), "back again")
			w.skew = step
			require.Error(t, w.Doubt())
			pass(59 * time.Minute)
			require.Error(t, w.Doubt())
			w.skew = 2 * step
			require.Error(t, w.Doubt(), "another step")
			pass(59 * time.Minute)
			require.Error(t, w.Doubt())
			pass(2 * time.Minute)
			require.NoError(t, w.Doubt(), "for an hour")
			assert.Zero(t, w.Offset())
		})
	}
}

func TestAClockThatIsSlewedIsRight(t *testing.T) {
	inTime(t, func(t *testing.T, w *wall) {
		t.Helper()
		for range 100 {
			w.skew += time.Minute
			pass(time.Minute)
			require.NoError(t, w.Doubt())
		}
	})
}

func TestAgesByAClockInDoubt(t *testing.T) {
	permanent, early, doubt := new(*messages.PermanentError), new(*messages.EarlyError), new(*clock.DoubtError)
	for name, row := range map[string]struct {
		skew, age time.Duration
		told      bool
		want      any
	}{
		"right, young":                        {0, time.Hour, true, nil},
		"right, too old":                      {0, 31 * day, true, permanent},
		"right, a peer an hour ahead":         {0, -time.Hour, true, early},
		"right, a peer days ahead":            {0, -3 * day, true, permanent},
		"40 days ahead, new":                  {40 * day, 0, true, doubt},
		"10 days ahead, new":                  {10 * day, 0, true, nil},
		"10 days ahead, near its age limit":   {10 * day, 25 * day, true, doubt},
		"6 minutes behind, new":               {-6 * time.Minute, 0, true, early},
		"3 days behind, new":                  {-3 * day, 0, true, doubt},
		"3 days behind, too old":              {-3 * day, 31 * day, true, doubt},
		"3 days behind, not too old":          {-3 * day, 28 * day, true, nil},
		"just begun, from days ahead":         {0, -3 * day, false, doubt},
		"just begun, too old":                 {0, 31 * day, false, permanent},
		"just begun, a year behind, just now": {-365 * day, 0, false, doubt},
	} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(t *testing.T, w *wall) {
				t.Helper()
				w.skew = row.skew
				if row.told {
					w.aws()
				}
				ulid := id.Floor(time.Now().Add(-row.age))
				err := w.CheckAge("event_id", ulid, w.now())
				if row.want == nil {
					require.NoError(t, err)
					return
				}
				require.ErrorAs(t, err, row.want)
				if !row.told && row.want == doubt {
					pass(2 * time.Hour)
					assert.ErrorAs(t, w.CheckAge("event_id", id.Floor(w.now().Add(3*day)), w.now()), permanent, "after hours without a step")
				}
			})
		})
	}
	inTime(t, func(t *testing.T, w *wall) {
		t.Helper()
		assert.ErrorAs(t, w.CheckAge("event_id", "no id", w.now()), permanent)
	})
}
