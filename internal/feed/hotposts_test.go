package feed

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

	"fanfare/internal/backoff"
	"fanfare/internal/panics"
	"fanfare/internal/table"
)

// slowTable answers each read a second later, with the time of the read in
// milliseconds after start.
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
		s := newSharedReads(slow.read)
		var wg sync.WaitGroup
		request := func(want map[string]int64, names ...string) {
			wg.Go(func() {
				got, err := s.get(t.Context(), keysOf(names...))
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
		request(map[string]int64{"hot": 0, "a": 0}, "hot", "a", "absent")
		request(map[string]int64{"hot": 1000, "b": 0}, "hot", "b") // b is read at once, hot after the read under way
		request(map[string]int64{"hot": 1000}, "hot")
		request(map[string]int64{"hot": 1000}, "hot", "absent")
		if err := backoff.Wait(t.Context(), 1500*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		request(map[string]int64{"hot": 2000}, "hot") // the second read is under way
		wg.Wait()
		slices.Sort(slow.reads)
		if want := []string{"a absent hot", "absent", "b", "hot", "hot"}; !slices.Equal(slow.reads, want) {
			t.Errorf("reads %q, want %q", slow.reads, want)
		}
		if len(s.underway) != 0 {
			t.Errorf("%d reads are left", len(s.underway))
		}
	})
}

func TestACancelledRequestLeavesOthersTheirAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowTable{}
		s := newSharedReads(slow.read)
		impatient, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		request := func(ctx context.Context, stays bool) {
			wg.Go(func() {
				got, err := s.get(ctx, keysOf("hot"))
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
		request(impatient, false) // makes the next read
		request(t.Context(), true)
		request(impatient, false)
		leave()
		synctest.Wait()
		request(t.Context(), true) // makes the next read instead, while the first is still under way
		request(t.Context(), true)
		wg.Wait()
		if len(s.underway) != 0 {
			t.Errorf("%d reads are left", len(s.underway))
		}
	})
}

func TestAFailedReadFailsItsRequestsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowTable{fail: errors.New("down")}
		s := newSharedReads(slow.read)
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if got, err := s.get(t.Context(), keysOf("hot")); err == nil {
					t.Errorf("got %v", got)
				}
			})
		}
		wg.Wait()
		slow.fail = nil
		if got, err := s.get(t.Context(), keysOf("hot")); err != nil || len(got) != 1 {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

// If a read panics, no request that waited for it may take the post for an absent one.
func TestAPanicInASharedReadFailsItsRequestsAndEndsTheirTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowTable{}
		broken := true
		s := newSharedReads(func(ctx context.Context, keys []table.Key) (map[table.Key]table.Item, error) {
			items, err := slow.read(ctx, keys)
			if broken {
				panic("boom")
			}
			return items, err
		})
		var wg sync.WaitGroup
		for range 5 { // the first reads, the second reads next, the others join it
			wg.Go(func() {
				err := panics.Catch(func() error { _, err := s.get(t.Context(), keysOf("hot")); return err })
				if _, ok := errors.AsType[*panics.Error](err); !ok {
					t.Errorf("error is %v", err)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		if len(s.underway) != 0 {
			t.Errorf("%d reads are left", len(s.underway))
		}
		broken = false
		if got, err := s.get(t.Context(), keysOf("hot")); err != nil || len(got) != 1 {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

func TestManyRequestsOfManyKeysAllEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowTable{}
		s := newSharedReads(slow.read)
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
				got, err := s.get(ctx, keysOf(names...))
				if err == nil && len(got) != len(names) {
					t.Errorf("%d of %d keys", len(got), len(names))
				}
			})
		}
		wg.Wait()
		if len(s.underway) != 0 {
			t.Errorf("%d reads are left", len(s.underway))
		}
	})
}
