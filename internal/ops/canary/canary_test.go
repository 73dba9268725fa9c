package canary_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/ops/canary"
	"fanfare/internal/page"
)

// stage is a feed in which a post becomes visible after the delay visible, and a like is counted after
// the delay counted. A call whose name is in fails returns the error in fails.
type stage struct {
	mu               sync.Mutex
	visible, counted time.Duration
	alive            func()
	fails            map[string]error
	posts            map[string]time.Time
	liked            map[string]time.Time
	deleted          []string
}

func (s *stage) PutProfile(context.Context, string, feed.ProfileInput) (feed.User, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return feed.User{}, s.fails["profile"]
}

func (s *stage) Follow(context.Context, string, string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fails["follow"]
}

func (s *stage) CreatePost(context.Context, string, feed.PostInput) (feed.Post, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fails["post"]; err != nil {
		return feed.Post{}, err
	}
	id := string(rune('a' + len(s.posts)))
	s.posts[id] = time.Now()
	return feed.Post{ID: id}, nil
}

func (s *stage) Home(context.Context, string, home.Query, page.Request) (home page.List[feed.HomeItem], err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, at := range s.posts {
		if time.Since(at) >= s.visible {
			home.Items = append(home.Items, feed.HomeItem{Post: feed.Post{ID: id}})
		}
	}
	return home, s.fails["home"]
}

func (s *stage) Like(_ context.Context, _, post string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.liked[post] = time.Now()
	return s.fails["like"]
}

func (s *stage) LikeCount(_ context.Context, _ access.Viewer, post string) (count feed.LikeCount, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.liked[post]) >= s.counted {
		count.Count = 1
	}
	return count, s.fails["count"]
}

func (s *stage) DeletePost(ctx context.Context, _, post string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deleted = append(s.deleted, post)
	return errors.Join(ctx.Err(), s.fails["delete"])
}

// watch runs a canary on s for some virtual time, and calls change in the middle of this time. watch returns
// the passed steps with their durations, the failed steps, and the log.
func watch(t *testing.T, s *stage, length time.Duration, change func()) (passed map[string][]time.Duration, failed []string, log []string) {
	t.Helper()
	s.posts, s.liked = map[string]time.Time{}, map[string]time.Time{}
	passed = map[string][]time.Duration{}
	logs, lines := observer.New(zapcore.InfoLevel)
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		c := &canary.Canary{
			Feed: s, Homes: s, Log: zap.New(logs),
			Passed: func(step string, took time.Duration) { passed[step] = append(passed[step], took) },
			Failed: func(step string) { failed = append(failed, step) }, Alive: s.alive,
		}
		go func() { ended <- c.Run(ctx) }()
		<-time.After(length / 2) // virtual time
		s.mu.Lock()
		change()
		s.mu.Unlock()
		<-time.After(length - length/2)
		stop()
		require.NoError(t, <-ended)
	})
	for _, line := range lines.All() {
		log = append(log, line.Message)
	}
	return passed, failed, log
}

func TestARoundIsMadeEveryTenSeconds(t *testing.T) {
	t.Parallel()
	s := &stage{visible: 200 * time.Millisecond, counted: time.Second}
	passed, failed, log := watch(t, s, 35*time.Second, func() {})
	assert.Empty(t, failed)
	assert.Empty(t, log)
	for _, step := range canary.Steps() {
		assert.Len(t, passed[step], 4, step)
	}
	assert.InDelta(t, 0.2, passed[canary.StepVisible][0].Seconds(), 0.2)
	assert.InDelta(t, 1, passed[canary.StepCounted][0].Seconds(), 0.5)
	assert.Equal(t, []string{"a", "b", "c", "d"}, s.deleted, "no post is kept")
}

func TestAStepThatFailsIsCountedAndLoggedOnce(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		stage *stage
		want  string
	}{
		"no table":          {&stage{fails: map[string]error{"profile": broken}}, canary.StepPost},
		"no queue":          {&stage{fails: map[string]error{"post": broken}}, canary.StepPost},
		"no fan-out":        {&stage{visible: time.Hour}, canary.StepVisible},
		"homes fail":        {&stage{fails: map[string]error{"home": broken}}, canary.StepVisible},
		"likes are refused": {&stage{fails: map[string]error{"like": broken}}, canary.StepLike},
		"no aggregator":     {&stage{counted: time.Hour}, canary.StepCounted},
		"posts stay":        {&stage{fails: map[string]error{"delete": broken}}, canary.StepDelete},
	} {
		s := test.stage
		_, failed, log := watch(t, s, 200*time.Second, func() { s.visible, s.counted, s.fails = 0, 0, nil })
		assert.Equal(t, []string{"the canary failed", "the canary succeeds again"}, log, name)
		require.GreaterOrEqual(t, len(failed), 3, name)
		for _, step := range failed {
			assert.Equal(t, test.want, step, name)
		}
		assert.Len(t, s.deleted, len(s.posts), name)
	}
}

// An alarm counts the calls of Alive, so a dead or failing canary must make no such call.
func TestRoundsThatPassAreToldEveryThirtySeconds(t *testing.T) {
	t.Parallel()
	calls := 0
	_, _, log := watch(t, &stage{alive: func() { calls++ }}, 125*time.Second, func() {})
	assert.Equal(t, 5, calls)
	assert.Empty(t, log)

	calls = 0
	broken := &stage{alive: func() { calls++ }, fails: map[string]error{"like": errors.New("broken")}}
	_, _, log = watch(t, broken, 115*time.Second, func() { broken.fails = nil })
	assert.Equal(t, []string{"the canary failed", "the canary succeeds again"}, log)
	assert.Equal(t, 2, calls)
}

// A stop in the middle of a round is no failure, and the canary deletes its post.
func TestAStopInARoundDeletesThePost(t *testing.T) {
	t.Parallel()
	s := &stage{visible: time.Hour}
	_, failed, log := watch(t, s, 5*time.Second, func() {})
	assert.Empty(t, failed)
	assert.Empty(t, log)
	assert.Equal(t, []string{"a"}, s.deleted)
}
