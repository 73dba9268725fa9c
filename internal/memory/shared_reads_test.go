package memory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/backoff"
	"fanfare/internal/panics"
	"fanfare/internal/table"
)

// slowTable answers each read a second later. The answer is the time of the read in milliseconds after
// start.
type slowTable struct {
	start time.Time
	mu    sync.Mutex
	reads []string
	fail  error
}

func (s *slowTable) read(ctx context.Context, keys []table.Key) (map[table.Key]table.Item, error) {
	s.mu.Lock()
	names := []string{}
	for _, key := range keys {
		names = append(names, key.PK)
	}
	slices.Sort(names)
	s.reads = append(s.reads, strings.Join(names, " "))
	at, fail := time.Since(s.start).Milliseconds(), s.fail
	s.mu.Unlock()
	if err := backoff.Wait(ctx, time.Second); err != nil {
		return nil, err
	}
	if fail != nil {
		return nil, fail
	}
	items := map[table.Key]table.Item{}
	for _, key := range keys {
		if key.PK != "absent" {
			items[key] = table.Item{Key: key, Attrs: []table.Attr{{Name: "at", Value: table.N(at)}}}
		}
	}
	return items, nil
}

func keysOf(names ...string) []table.Key {
	var keys []table.Key
	for _, name := range names {
		keys = append(keys, table.Key{PK: name, SK: "x"})
	}
	return keys
}

func TestRequestsForAHotPostShareAReadThatBeganAfterThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowTable{start: time.Now()}
		s := Share(slow.read)
		var wg sync.WaitGroup
		request := func(want map[string]int64, names ...string) {
			wg.Go(func() {
				got, err := s.Get(t.Context(), keysOf(names...))
				if err != nil {
					t.Error(err)
				}
				seen := map[string]int64{}
				for key, it := range got {
					seen[key.PK] = it.Int("at")
				}
				if !maps.Equal(seen, want) {
					t.Errorf("%v saw %v, want %v", names, seen, want)
				}
			})
			synctest.Wait()
		}
		wait := func() {
			require.NoError(t, backoff.Wait(t.Context(), 500*time.Millisecond))
		}
		request(map[string]int64{"hot": 0, "a": 0}, "hot", "a", "absent")
		wait()
		request(map[string]int64{"hot": 500, "b": 500}, "hot", "b") // the first batch, without a previous batch
		request(map[string]int64{"hot": 1500}, "hot")
		request(map[string]int64{"hot": 1500, "a": 1500}, "a", "hot", "absent")
		wait()
		wait()
		wait()
		request(map[string]int64{"hot": 2500}, "hot") // the second batch is being read
		wg.Wait()
		slices.Sort(slow.reads)
		want := []string{"a absent hot", "a absent hot", "b", "hot", "hot"}
		assert.Truef(t, slices.Equal(slow.reads, want), "reads %q, want %q", slow.reads, want)
		wantIdle(t, s)
	})
}

func wantIdle(t *testing.T, s *Reads[table.Key, table.Item]) {
	t.Helper()
	if len(s.single) != 0 || s.running != nil || s.waiting != nil {
		t.Errorf("reads are left: %v, %v, %v", s.single, s.running, s.waiting)
	}
}

// At any number of requests, each request waits only for the read in progress and for its own read.
func TestAReaderOfHotPostsWaitsForTwoReadsAtAnyRate(t *testing.T) {
	const read = 5 * time.Millisecond
	for _, c := range []struct{ rate, posts int }{{100, 100}, {500, 100}, {1000, 100}, {2000, 100}, {4000, 1000}} {
		t.Run(fmt.Sprintf("%d requests a second, %d hot posts", c.rate, c.posts), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				under := map[table.Key]int{}
				calls, keys := 0, 0
				count := func(read []table.Key, n int) {
					mu.Lock()
					defer mu.Unlock()
					for _, key := range read {
						if under[key] += n; under[key] > 2 {
							t.Errorf("%v is in %d reads", key, under[key])
						}
					}
				}
				s := Share(func(ctx context.Context, wanted []table.Key) (map[table.Key]table.Item, error) {
					mu.Lock()
					calls, keys = calls+1, keys+len(wanted)
					mu.Unlock()
					count(wanted, 1)
					defer count(wanted, -1)
					return nil, backoff.Wait(ctx, read)
				})
				rng := rand.New(rand.NewPCG(1, 2))
				var longest time.Duration
				var wg sync.WaitGroup
				for range c.rate {
					err := backoff.Wait(t.Context(), time.Duration(rng.ExpFloat64()*float64(time.Second)/float64(c.rate)))
					require.NoError(t, err)
					var names []string
					for _, n := range rng.Perm(c.posts)[:20] {
						names = append(names, fmt.Sprint(n))
					}
					wg.Go(func() {
						began := time.Now()
						if _, err := s.Get(t.Context(), keysOf(names...)); err != nil {
							t.Error(err)
						}
						mu.Lock()
						defer mu.Unlock()
						longest = max(longest, time.Since(began))
					})
				}
				wg.Wait()
				if longest > 2*read {
					t.Errorf("a request waited for %s, that is %.1f reads", longest, float64(longest)/float64(read))
				}
				t.Logf("the longest wait was %s; %.1f calls a request, %.2f of the keys asked for were read", longest, float64(calls)/float64(c.rate), float64(keys)/float64(20*c.rate))
				wantIdle(t, s)
			})
		})
	}
}

func TestACancelledRequestLeavesOthersTheirAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowTable{}
		s := Share(slow.read)
		impatient, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		request := func(ctx context.Context, stays bool) {
			wg.Go(func() {
				got, err := s.Get(ctx, keysOf("hot"))
				if stays && (err != nil || len(got) != 1) {
					t.Errorf("got %v, %v", got, err)
				}
				if !stays && !errors.Is(err, context.Canceled) {
					t.Errorf("gave up, but got %v, %v", got, err)
				}
			})
			synctest.Wait()
		}
		request(t.Context(), true)
		request(impatient, false) // this request reads the first batch
		request(t.Context(), true)
		request(impatient, false)
		leave()
		synctest.Wait()
		request(t.Context(), true)
		request(t.Context(), true)
		wg.Wait()
		wantIdle(t, s)
	})
}

func TestAFailedReadFailsItsRequestsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowTable{fail: errors.New("down")}
		s := Share(slow.read)
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if got, err := s.Get(t.Context(), keysOf("hot")); err == nil {
					t.Errorf("got %v", got)
				}
			})
		}
		wg.Wait()
		slow.fail = nil
		if got, err := s.Get(t.Context(), keysOf("hot")); err != nil || len(got) != 1 {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

// If a read panics, waiting requests must not treat the post as absent.
func TestAPanicInASharedReadFailsItsRequestsAndEndsTheirTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowTable{}
		broken := true
		s := Share(func(ctx context.Context, keys []table.Key) (map[table.Key]table.Item, error) {
			items, err := slow.read(ctx, keys)
			if broken {
				panic("boom")
			}
			return items, err
		})
		var wg sync.WaitGroup
		for range 5 { // the first request reads, the second reads next, and the last three join the second read
			wg.Go(func() {
				err := panics.Catch(func() error { _, err := s.Get(t.Context(), keysOf("hot")); return err })
				if _, ok := errors.AsType[*panics.Error](err); !ok {
					t.Errorf("error is %v", err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		wantIdle(t, s)
		broken = false
		if got, err := s.Get(t.Context(), keysOf("hot")); err != nil || len(got) != 1 {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

func TestManyRequestsOfManyKeysAllEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowTable{}
		s := Share(slow.read)
		var wg sync.WaitGroup
		rng := rand.New(rand.NewPCG(3, 4))
		for range 300 {
			var names []string
			for i := range 6 {
				if rng.IntN(2) == 0 {
					names = append(names, fmt.Sprint(i))
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rng.IntN(5000))*time.Millisecond)
			wait := time.Duration(rng.IntN(20_000)) * time.Millisecond
			wg.Go(func() {
				defer cancel()
				if backoff.Wait(t.Context(), wait) != nil {
					return
				}
				got, err := s.Get(ctx, keysOf(names...))
				if err == nil && len(got) != len(names) {
					t.Errorf("%d of %d keys", len(got), len(names))
				}
			})
		}
		wg.Wait()
		wantIdle(t, s)
	})
}
