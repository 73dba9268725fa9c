// Package canary shows from the inside that Fanfare works. An author of the canary posts. A reader
// of the canary waits for the post in its home, likes the post, and waits for the count. So the
// canary notices a queue without consumers, or a worker that hangs, before a user complains.
//
// Package canary uses the domain as the API does, but without HTTP and tokens. It must
// never change the data of another user, keep a post that it made, or end the process: its
// failures are metrics and lines in the log.
package canary

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/backoff"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
	"fanfare/internal/page"
)

// The users of the canary. All processes share these users.
const (
	Author = "fanfare-canary-author"
	Reader = "fanfare-canary-reader"
)

// The steps of a round.
const (
	// StepPost makes the post. The first StepPost also makes the users and the follow.
	StepPost = "post"
	// StepVisible waits for the post in the reader's home.
	StepVisible = "visible"
	// StepLike likes the post.
	StepLike = "like"
	// StepCounted waits until the count has the like.
	StepCounted = "counted"
	// StepDelete deletes the post.
	StepDelete = "delete"
)

// Steps returns all steps in their order.
func Steps() []string { return []string{StepPost, StepVisible, StepLike, StepCounted, StepDelete} }

const (
	// every is the time between the beginnings of two rounds.
	every = 10 * time.Second
	// patience is the timeout of a step.
	patience = 30 * time.Second
	// cleaning is the timeout of the delete at a stop.
	cleaning = 2 * time.Second
	// beat is the minimum time between two calls of Alive.
	beat = 30 * time.Second
	// newest is the number of posts that the canary reads. It is above 1, because other processes also have canaries.
	newest = 10
)

// Feed is the part of the domain that the canary uses.
type Feed interface {
	PutProfile(ctx context.Context, user string, in feed.ProfileInput) (feed.User, error)
	Follow(ctx context.Context, follower, author string) error
	CreatePost(ctx context.Context, author string, in feed.PostInput) (feed.Post, error)
	Like(ctx context.Context, user, post string) error
	LikeCount(ctx context.Context, by access.Viewer, post string) (feed.LikeCount, error)
	DeletePost(ctx context.Context, user, post string) error
}

// Homes reads homes. home.Homes implements it.
type Homes interface {
	Home(ctx context.Context, viewer string, query home.Query, in page.Request) (page.List[feed.HomeItem], error)
}

// Canary tries the parts of Fanfare in rounds. All fields except Alive are required.
type Canary struct {
	Feed  Feed
	Homes Homes
	// Passed is called for each step that succeeded, with the duration of the step.
	Passed func(step string, took time.Duration)
	// Failed is called for each step that failed. After a failed step, the round only deletes the post.
	Failed func(step string)
	// Alive, if not nil, is called after a successful round, at most every 30 seconds. A dead
	// canary reports no failed step, so an alarm has to notice that these calls are missing.
	Alive func()
	Log   *zap.Logger

	entered bool
	failing bool
	alive   time.Time // the time of the last call of Alive
}

// Run starts a round every 10 seconds until ctx ends. The error is always nil.
func (c *Canary) Run(ctx context.Context) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		c.round(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// round does one round. It logs the first of several failed rounds, and the first
// successful round after a failure.
func (c *Canary) round(ctx context.Context) {
	post, failed, err := c.look(ctx)
	if post != "" {
		if deleteErr := c.remove(ctx, post); err == nil {
			failed, err = StepDelete, deleteErr
		}
	}
	switch {
	case ctx.Err() != nil:
	case err != nil && !c.failing:
		c.failing = true
		c.Log.Warn("the canary failed", zap.String("step", failed), zap.String("post_id", post), zap.Error(err))
	case err == nil:
		c.passed()
	}
}

// passed logs the end of a series of failures, and calls Alive.
func (c *Canary) passed() {
	if c.failing {
		c.failing = false
		c.Log.Info("the canary succeeds again")
	}
	if c.Alive != nil && time.Since(c.alive) >= beat {
		c.alive = time.Now()
		c.Alive()
	}
}

// look makes a post, waits for the post in the home, likes the post, and waits for the
// count. It returns the post, "" for none, and the name of the failed step.
func (c *Canary) look(ctx context.Context) (post, failed string, err error) {
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{StepPost, func(ctx context.Context) (err error) { post, err = c.post(ctx); return err }},
		{StepVisible, func(ctx context.Context) error {
			return until(ctx, func() (bool, error) { return c.visible(ctx, post) })
		}},
		{StepLike, func(ctx context.Context) error { return c.Feed.Like(ctx, Reader, post) }},
		{StepCounted, func(ctx context.Context) error {
			return until(ctx, func() (bool, error) { return c.counted(ctx, post) })
		}},
	} {
		if err := c.step(ctx, step.name, patience, step.run); err != nil {
			return post, step.name, err
		}
	}
	return post, "", nil
}

// step runs one step and reports the result. A step that a stop interrupts is not reported.
func (c *Canary) step(ctx context.Context, name string, patience time.Duration, run func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	err := run(limited)
	switch {
	case err == nil:
		c.Passed(name, time.Since(began))
	case ctx.Err() == nil:
		c.Failed(name)
	}
	return err
}

func (c *Canary) post(ctx context.Context) (string, error) {
	if !c.entered {
		for _, user := range []string{Author, Reader} {
			if _, err := c.Feed.PutProfile(ctx, user, feed.ProfileInput{Name: "Canary"}); err != nil {
				return "", err
			}
		}
		if err := c.Feed.Follow(ctx, Reader, Author); err != nil {
			return "", err
		}
		c.entered = true
	}
	post, err := c.Feed.CreatePost(ctx, Author, feed.PostInput{Content: feed.Content{Text: "canary"}})
	return post.ID, err
}

func (c *Canary) visible(ctx context.Context, post string) (bool, error) {
	shown, err := c.Homes.Home(ctx, Reader, home.Query{}, page.Request{Limit: newest})
	return slices.ContainsFunc(shown.Items, func(it feed.HomeItem) bool { return it.Post.ID == post }), err
}

func (c *Canary) counted(ctx context.Context, post string) (bool, error) {
	count, err := c.Feed.LikeCount(ctx, access.As(Reader), post)
	return count.Count == 1, err
}

// remove deletes the post. At a stop, remove does not use the ended context.
func (c *Canary) remove(ctx context.Context, post string) error {
	limit := patience
	if ctx.Err() != nil {
		ctx, limit = context.WithoutCancel(ctx), cleaning
	}
	return c.step(ctx, StepDelete, limit, func(ctx context.Context) error { return c.Feed.DeletePost(ctx, Author, post) })
}

// errLate means that the awaited result did not appear in time.
var errLate = errors.New("it did not happen in time")

// until calls done until done returns true. A failed call is repeated, and the error of
// until contains the last failure.
func until(ctx context.Context, done func() (bool, error)) error {
	waits := backoff.Exponential{First: 10 * time.Millisecond, Most: 500 * time.Millisecond}
	var last error
	for look := 1; ; look++ {
		ok, err := done()
		switch {
		case err == nil && ok:
			return nil
		case err != nil && ctx.Err() == nil:
			last = err
		}
		if backoff.Wait(ctx, waits.Bound(look)) != nil {
			if last != nil {
				return fmt.Errorf("%w: %w", errLate, last)
			}
			return errLate
		}
	}
}
