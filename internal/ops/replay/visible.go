package replay

import (
	"context"
	"math"
	"sync"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"fanfare/client"
	"fanfare/internal/backoff"
)

const (
	// watching is the maximum number of homes that are watched at the same time, so that
	// these reads do not become the load. If no place is free, the post is not measured.
	watching  = 4
	firstLook = time.Millisecond
	maxLook   = 50 * time.Millisecond
)

// visibility measures the time until a follower's home shows a post.
type visibility struct {
	// unseen is the maximum time of a measurement. A post that shows later counts with this time. A post
	// that never shows counts as missing at the end.
	unseen time.Duration
	places chan struct{}
	mu     sync.Mutex
	micros *hdr.Histogram
}

func newVisibility(unseen time.Duration) *visibility {
	return &visibility{unseen: unseen, places: make(chan struct{}, watching), micros: hdr.New(1, unseen.Microseconds(), 3)}
}

// watch runs observe if one of the places is free.
func (v *visibility) watch(owner *sync.WaitGroup, observe func()) {
	select {
	case v.places <- struct{}{}:
		owner.Go(func() {
			defer func() { <-v.places }()
			observe()
		})
	default:
	}
}

// observe reads the viewer's home until the home has the post.
func (v *visibility) observe(ctx context.Context, viewer *client.Client, post string, answered time.Time) {
	ctx, cancel := context.WithDeadline(ctx, answered.Add(v.unseen))
	defer cancel()
	for look := firstLook; ; look = min(2*look, maxLook) {
		found, err := inHome(ctx, viewer, post)
		if found && err == nil {
			v.add(time.Since(answered))
			return
		}
		if backoff.Wait(ctx, look) != nil {
			break
		}
	}
	if time.Since(answered) >= v.unseen {
		v.add(v.unseen)
	}
}

// inHome reads a home from its newest post down to the position of the post.
func inHome(ctx context.Context, viewer *client.Client, post string) (bool, error) {
	for item, err := range viewer.Home(client.Push).All(ctx) {
		if err != nil {
			return false, err
		}
		if item.Post.ID <= post {
			return item.Post.ID == post, nil
		}
	}
	return false, nil
}

func (v *visibility) add(d time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.micros.RecordValue(min(max(1, d.Microseconds()), v.unseen.Microseconds())); err != nil {
		panic(err) // the value is in range
	}
}

func (v *visibility) quantiles() Quantiles {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.micros.TotalCount() == 0 {
		return Quantiles{}
	}
	ms := func(micros int64) float64 { return math.Round(float64(micros)) / 1000 }
	return Quantiles{P50: ms(v.micros.ValueAtQuantile(50)), P99: ms(v.micros.ValueAtQuantile(99)), Max: ms(v.micros.Max())}
}
