package lifetime_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/clock"
	"fanfare/internal/lifetime"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

const day = 24 * time.Hour

var errDown = errors.New("the table is away")

// store is a table that can be unavailable. It counts its reads.
type store struct {
	table.Store
	away, lost atomic.Bool // lost: writes take effect, but the caller gets no answer
	reads      atomic.Int32
	wait       time.Duration
}

func newStore() *store { return &store{Store: tabletest.NewMemory()} }

func (s *store) Get(ctx context.Context, in table.GetInput) (table.GetResult, error) {
	s.reads.Add(1)
	pass(s.wait)
	if s.away.Load() {
		return table.GetResult{}, errDown
	}
	if !in.Consistent {
		return table.GetResult{}, errors.New("a stale read of the lifetimes")
	}
	return s.Store.Get(ctx, in)
}

func (s *store) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	if s.away.Load() {
		return table.WriteResult{}, errDown
	}
	res, err := s.Store.Put(ctx, in)
	if err == nil && s.lost.Load() {
		err = errDown
	}
	return res, err
}

// pass lets virtual time pass.
func pass(d time.Duration) { <-time.After(d) }

func view(s table.Store, ttl time.Duration) *lifetime.View {
	return lifetime.New(lifetime.Config{Store: s, Now: time.Now, TTL: ttl})
}

func decided(t *testing.T, s table.Store, ttl time.Duration) *lifetime.View {
	t.Helper()
	v := view(s, ttl)
	require.NoError(t, v.Decide(t.Context()))
	return v
}

// current returns the TTL that a view applies to new posts, and the TTL of the last decision.
func current(t *testing.T, v *lifetime.View) (now, last time.Duration) {
	t.Helper()
	l, err := v.Current(t.Context())
	require.NoError(t, err)
	return l.Written(time.Now()), l[len(l)-1].TTL
}

func TestTheStoredTTLCountsAndNoProcesssOwnSetting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		reader := view(s, 5*day)
		now, _ := current(t, reader)
		assert.Equal(t, 5*day, now, "its own as long as there is none")
		first := decided(t, s, 30*day)
		second := decided(t, s, 365*day)
		for _, v := range []*lifetime.View{second, view(s, 5*day)} {
			now, last := current(t, v)
			assert.Equal(t, []time.Duration{30 * day, 365 * day}, []time.Duration{now, last})
		}
		pass(61 * time.Second)
		for _, v := range []*lifetime.View{first, reader} {
			_, last := current(t, v)
			assert.Equal(t, 365*day, last, "a minute later each process knows")
		}
		pass(day)
		for _, v := range []*lifetime.View{first, second, reader} {
			now, _ := current(t, v)
			assert.Equal(t, 365*day, now)
		}
		require.NoError(t, view(s, 5*day).Keep(t.Context()))
		_, last := current(t, view(s, time.Hour))
		assert.Equal(t, 365*day, last, "a process that only keeps a decision makes none")
	})
}

func TestTwoProcessesThatStartAtOnceBothDecide(t *testing.T) {
	s := newStore()
	decided(t, s, 30*day)
	var starts sync.WaitGroup
	for _, ttl := range []time.Duration{day, 30 * day, 365 * day, day} {
		starts.Go(func() { assert.NoError(t, view(s, ttl).Decide(context.Background())) })
	}
	starts.Wait()
	res, err := s.Get(t.Context(), table.GetInput{Key: schema.LifetimesKey(), Consistent: true})
	require.NoError(t, err)
	l, err := schema.ParseLifetimes(*res.Item)
	require.NoError(t, err)
	assert.LessOrEqual(t, len(l), 2, "each replaced the decision of the one before: %s", l)
}

func TestAStartWhoseWriteHadNoAnswerDecidesOnce(t *testing.T) {
	s := newStore()
	for _, ttl := range []time.Duration{30 * day, 365 * day} { // the first decision, and a change
		s.lost.Store(true)
		v := view(s, ttl)
		require.ErrorIs(t, v.Decide(t.Context()), errDown)
		s.lost.Store(false)
		require.NoError(t, v.Decide(t.Context()))
	}
	l, err := view(s, 0).Current(t.Context())
	require.NoError(t, err)
	assert.Len(t, l, 2)
}

func TestAViewIsReadOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.wait = time.Second
		v := decided(t, s, 30*day)
		before := s.reads.Load()
		for range 10 {
			pass(50 * time.Second)
			var requests sync.WaitGroup
			for range 20 {
				requests.Go(func() { current(t, v) })
			}
			requests.Wait()
		}
		assert.LessOrEqual(t, s.reads.Load()-before, int32(9))
	})
}

func TestAViewThatCannotBeReadIsUsedForAQuarterOfAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		v := decided(t, s, 30*day)
		s.away.Store(true)
		reads := s.reads.Load()
		for range 14 * 60 {
			pass(time.Second)
			current(t, v)
		}
		assert.LessOrEqual(t, s.reads.Load()-reads, int32(14*60/5), "it rests between reads that fail")
		pass(time.Minute)
		_, err := v.Current(t.Context())
		require.ErrorIs(t, err, errDown)
		s.away.Store(false)
		current(t, v)
	})
}

// A process that slept for days may have slept through a decision.
func TestAProcessThatSleptReadsTheLifetimesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.wait = time.Second
		v := decided(t, s, 30*day)
		decided(t, s, day)
		pass(3 * day)
		var requests sync.WaitGroup
		for range 5 { // five requests, not only the request that reads
			requests.Go(func() {
				now, _ := current(t, v)
				assert.Equal(t, day, now)
			})
		}
		requests.Wait()
	})
}

// A process slept while it waited for the answer to its decision, and another process has decided meanwhile.
func TestAProcessThatSleptDuringItsDecisionReadsTheLifetimesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		decided(t, s, 30*day)
		slow := &sleeper{Store: s.Store, asleep: func() {
			decided(t, s, 30*day)
			pass(10 * day)
		}}
		now, _ := current(t, decided(t, slow, day))
		assert.Equal(t, 30*day, now)
	})
}

// sleeper is a table whose answer to a write comes after asleep.
type sleeper struct {
	table.Store
	asleep func()
}

func (s *sleeper) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	res, err := s.Store.Put(ctx, in)
	s.asleep()
	return res, err
}

func TestAClockInDoubtDecidesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		decided(t, s, 30*day)
		clk := clock.New(time.Now)
		clk.Observe(time.Now().Add(-day), 0)
		v := lifetime.New(lifetime.Config{Store: s, Now: time.Now, Clock: clk, TTL: day})
		require.NoError(t, v.Decide(t.Context()))
		_, last := current(t, v)
		assert.Equal(t, 30*day, last)
	})
}

func TestAFixedViewHasOneTTL(t *testing.T) {
	now, last := current(t, lifetime.Fixed(day))
	assert.Equal(t, []time.Duration{day, day}, []time.Duration{now, last})
}
