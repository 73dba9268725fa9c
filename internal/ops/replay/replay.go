// Package replay plays a real social graph against a running Fanfare over HTTP and reports
// whether every home and every count is right.
//
// Package replay itself computes the right state (oracle.go), from its calls and their
// answers. It must never compute this state with the product's code: it uses the service
// only through the public client. It must never excuse a fault: the effect of every
// successful call must show exactly once (I1, I3, I4, I5), and no other effect may show. If
// the answer of a call is unknown, a read decides whether the call had its effect, and
// later reads must agree with this read.
//
// The ids of the users contain the name of the run, so several runs on one system do not share users.
package replay

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"fanfare/client"
	"fanfare/internal/backoff"
)

// Config holds the settings of a replay.
type Config struct {
	// Graph has the follows. Posts, Likes and Seed decide the rest of the load: equal
	// values give equal calls.
	Graph        *Graph
	Posts, Likes int
	Seed         uint64
	// Reactions are the kinds of reaction that the target has in addition to like. The seed
	// draws the kind of each like.
	Reactions []string
	// Away is the share of users whose homes are read only at the end, from 0 to 1. The target treats
	// these users as away, because their last visit is older than the active days of the target.
	Away float64
	// Rate is the maximum number of posts and likes in a second; 0 is no limit.
	Rate float64
	// Journal is the name of a new file for all calls and answers, "" for none.
	Journal string
	Service
}

// Service is the system under test.
type Service struct {
	// Target is the base URL of the API, which must issue dev tokens.
	Target string
	// Admin has the admin addresses of all processes, for queue depths and capacity units.
	// Without addresses the system counts as quiet when the reads no longer change.
	Admin []string
	// Concurrency is the maximum number of concurrent calls.
	Concurrency int
	// Settle is the time without improvement after which a missing post counts as lost; 0 is 30 seconds.
	Settle time.Duration
	// PushLimit is the target's FANFARE_PUSH_LIMIT: only posts of authors with more followers
	// may be pulled. If PushLimit is 0, no post may be pulled.
	PushLimit int
	// Rebuilt is the time between the first and the second read of the homes of away readers.
	// With 0 there is no second read. For a minute after its return, a home is read by pull.
	Rebuilt time.Duration
	// Attempts is the maximum number of attempts of a call. 0 is 12, which is enough for
	// the restart of a service, which takes 20 to 40 seconds.
	Attempts int
	// Log gets the progress and the first faults.
	Log io.Writer
}

// ErrUsage is wrapped by errors about the caller's settings.
var ErrUsage = errors.New("wrong use")

// player makes the calls of one run.
type player struct {
	*observer
	load    *load
	run     string
	record  *record
	samples *visibility
}

// Run plays the graph, waits until the service is quiet, and reads everything back. Use the
// report only if the error is nil. Report.Exact reports whether the service was right.
func Run(ctx context.Context, cfg Config) (Report, error) {
	began := time.Now()
	load, err := newLoad(cfg)
	if err != nil {
		return Report{}, err
	}
	o, err := newObserver(ctx, cfg.Service)
	if err != nil {
		return Report{}, err
	}
	defer o.close()
	record, err := newRecord(cfg.Journal)
	if err != nil {
		return Report{}, err
	}
	p := &player{
		observer: o, load: load, run: "r" + strings.ToLower(rand.Text()[:10]),
		record: record, samples: newVisibility(2 * o.Settle),
	}
	report, err := p.play(ctx, cfg.Rate)
	if closeErr := p.record.close(); closeErr != nil {
		err = errors.Join(err, closeErr)
	}
	if err != nil {
		return Report{}, p.explain(err, cfg.Journal)
	}
	report.Seconds = seconds(time.Since(began))
	return report, nil
}

// explain adds advice to the error of a run that ended early.
func (p *player) explain(err error, journal string) error {
	answered, open := p.record.count()
	if journal == "" {
		return fmt.Errorf("%w (%d calls answered, %d not; --journal makes such a run verifiable)", err, answered, open)
	}
	return fmt.Errorf("%w (%d calls answered, %d not; when the target is back, verify with --check %s)", err, answered, open, journal)
}

func (p *player) play(ctx context.Context, perSecond float64) (Report, error) {
	if err := p.reach(ctx); err != nil {
		return Report{}, err
	}
	before := p.metrics.read(ctx)
	if err := p.profiles(ctx); err != nil {
		return Report{}, err
	}
	if err := p.follows(ctx); err != nil {
		return Report{}, err
	}
	p.awaitQuiet(ctx)
	followed := p.metrics.read(ctx)
	if err := p.leave(ctx); err != nil { // these units are no part of the cost of an absence
		return Report{}, err
	}
	between := p.metrics.read(ctx)
	posting := time.Now()
	if err := p.postsAndLikes(ctx, perSecond); err != nil {
		return Report{}, err
	}
	p.awaitQuiet(ctx)
	delivering := time.Since(posting)
	after := p.metrics.read(ctx)
	p.warnOfDeadLetters(before, after)

	report, err := p.verify(ctx, p.record.facts())
	if err != nil {
		return Report{}, err
	}
	report.VisibleMS = p.samples.quantiles()
	report.DeliveriesPerSec = round(float64(report.Delivered) / delivering.Seconds())
	posted, ok := after.since(between)
	if all, followsToo := followed.since(before); ok && followsToo {
		for key, n := range posted {
			all[key] += n
		}
		wcu, rcu := all.writes(""), all.reads()
		report.WCU, report.RCU, report.WCUByFlow, report.RCUByFlow = &wcu, &rcu, all.byFlow("write"), all.byFlow("read")
		report.Skipped = new(all[skips])
	}
	if report.Away > 0 {
		p.awaitQuiet(ctx)
		if returns, ok := p.metrics.read(ctx).since(after); ok {
			wcu := returns.writes("")
			report.WCUReturns = &wcu
		}
	}
	if ok {
		report.WCUPerDelivery = per(posted.writes(flowFanout), report.Delivered-report.Posts)
		report.WCUPerLike = per(posted.writes(flowLikes), report.Likes)
	}
	return report, nil
}

func (p *player) name(user int) string { return p.run + "-" + p.load.graph.Names[user] }

// call records the intended call, makes the call, and records the answer.
func (p *player) call(e entry, do func(c *client.Client) (id string, err error)) error {
	n, err := p.record.intend(e)
	if err != nil {
		return err
	}
	id, err := do(p.sessions.of(e.User))
	return errors.Join(err, p.record.answer(n, id, err))
}

func (p *player) profiles(ctx context.Context) error {
	return p.each(ctx, "profiles", len(p.load.graph.Names), func(ctx context.Context, i int) error {
		return p.call(entry{Call: callProfile, User: p.name(i)}, func(c *client.Client) (string, error) {
			user, err := c.PutMe(ctx, client.ProfileInput{Name: p.load.graph.Names[i]})
			return user.ID, err
		})
	})
}

func (p *player) follows(ctx context.Context) error {
	return p.each(ctx, "follows", len(p.load.graph.Edges), func(ctx context.Context, i int) error {
		edge := p.load.graph.Edges[p.load.followOrder[i]]
		author := p.name(edge.To)
		return p.call(entry{Call: callFollow, User: p.name(edge.From), Object: author}, func(c *client.Client) (string, error) {
			return "", c.Follow(ctx, author)
		})
	})
}

// postsAndLikes sends posts and likes in the order of the load. A like waits for the answer
// to its post. The post was sent earlier, so there is no deadlock.
func (p *player) postsAndLikes(ctx context.Context, perSecond float64) error {
	limiter := rate.NewLimiter(rate.Inf, 1)
	if perSecond > 0 {
		limiter = rate.NewLimiter(rate.Limit(perSecond), 1)
	}
	type made struct {
		done chan struct{}
		id   string
	}
	posts := make([]made, len(p.load.authors))
	for i := range posts {
		posts[i].done = make(chan struct{})
	}
	sampling, stop := context.WithCancel(ctx)
	defer stop()
	var watchers sync.WaitGroup
	err := p.each(ctx, "posts and likes", len(p.load.actions), func(ctx context.Context, i int) error {
		if err := limiter.Wait(ctx); err != nil {
			return err
		}
		a := p.load.actions[i]
		if a.like != "" {
			select {
			case <-posts[a.post].done:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			id := posts[a.post].id
			e := entry{Call: callLike, User: p.name(a.user), Object: id}
			if a.like != kindLike {
				e.Kind = a.like
			}
			return p.call(e, func(c *client.Client) (string, error) {
				return "", p.react(ctx, c, id, e.Kind)
			})
		}
		text := fmt.Sprintf("replay %s, post %d", p.run, a.post)
		err := p.call(entry{Call: callPost, User: p.name(a.user), Object: text}, func(c *client.Client) (string, error) {
			post, err := c.CreatePost(ctx, client.PostInput{Text: text, IdempotencyKey: fmt.Sprintf("%s-%d", p.run, a.post)})
			posts[a.post].id = post.ID
			return post.ID, err
		})
		if err != nil {
			return err
		}
		if follower := p.load.watchers[a.post]; follower >= 0 {
			viewer, id, answered := p.sessions.of(p.name(follower)), posts[a.post].id, time.Now()
			p.samples.watch(&watchers, func() { p.samples.observe(sampling, viewer, id, answered) })
		}
		close(posts[a.post].done)
		return nil
	})
	if err != nil {
		stop()
	}
	watchers.Wait()
	return err
}

// react reacts to a post that was answered, with a like if kind is "". If the table was down when the
// post was answered, the post is durable, but users can react to it only after a worker has written it.
func (p *player) react(ctx context.Context, c *client.Client, post, kind string) error {
	do := func() error { return c.Like(ctx, post) }
	if kind != "" {
		do = func() error { return c.React(ctx, post, kind) }
	}
	until := time.Now().Add(likeWithin)
	for {
		err := do()
		if !gone(err) || time.Now().After(until) || backoff.Wait(ctx, likeAgain) != nil {
			return err
		}
	}
}

const (
	likeAgain = 100 * time.Millisecond
	// likeWithin is the time for which a reaction is retried. It is more than twice the
	// time for which a dead worker can hold the message of a post.
	likeWithin = 150 * time.Second
)
