package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"fanfare/client"
	"fanfare/internal/auth"
)

const changesID = "T31"

// change is a kind of change of a post that an open page shows.
type change struct {
	name string
	make func(ctx context.Context, c changers, post string) error
	// seen reports whether an update of the page's stream tells the change.
	seen func(u client.Update, post string) bool
}

// changers are the callers of changes: the author of the posts, and a service that takes posts down.
type changers struct{ author, moderator *client.Client }

func changesOfPosts() []change {
	deleted := func(u client.Update, post string) bool { return u.Deleted != nil && u.Deleted.PostID == post }
	text := "edited"
	return []change{
		{"deletion", func(ctx context.Context, c changers, post string) error { return c.author.DeletePost(ctx, post) }, deleted},
		{"edit", func(ctx context.Context, c changers, post string) error {
			_, err := c.author.EditPost(ctx, post, client.PostEdit{Text: &text})
			return err
		}, func(u client.Update, post string) bool { return u.Edited != nil && u.Edited.Post.ID == post }},
		{"take-down", func(ctx context.Context, c changers, post string) error {
			_, err := c.moderator.TakeDown(ctx, post, "measured")
			return err
		}, deleted},
	}
}

// changesSeen is benchmark T31: the time from the call that changes a post until the stream of an open page has the
// change. With AWS_ENDPOINT_URL, the page is also served by another process than the call.
func changesSeen(ctx context.Context, e *env) (_ []Result, err error) {
	dir, remove, err := e.tempDir()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	s, err := e.up(ctx, dir, "FANFARE_RATE_LIMIT=0")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	results, err := e.changes(ctx, place{"this process", s.http, s.http, 2000}, s.tokens)
	if err != nil || os.Getenv("AWS_ENDPOINT_URL") == "" {
		return results, err
	}
	apart, err := e.changesApart(ctx)
	return append(results, apart...), err
}

// place is where a page is served: by the process that has the calls, or by another.
type place struct {
	name        string
	calls, page string // addresses
	most        int    // the target in milliseconds
}

// changes measures each change, with the calls to one address and the page's stream from another.
func (e *env) changes(ctx context.Context, p place, tokens tokens) ([]Result, error) {
	as := func(addr, user string, scopes ...string) (*client.Client, error) {
		token, _, err := tokens.Issue(user, time.Hour, scopes...)
		if err != nil {
			return nil, err
		}
		anyone, err := client.New("http://"+addr, client.WithHTTPClient(new(http.Client)))
		return anyone.AsToken(token), err
	}
	author, err1 := as(p.calls, "author")
	moderator, err2 := as(p.calls, "moderator", auth.ActScope, auth.DeleteScope)
	reader, err3 := as(p.page, "reader")
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	for _, c := range []*client.Client{author, reader} {
		if _, err := c.PutMe(ctx, client.ProfileInput{Name: "measured"}); err != nil {
			return nil, err
		}
	}
	if err := reader.Follow(ctx, "author"); err != nil {
		return nil, err
	}
	page := openPage(ctx, reader)
	defer page.close()
	if err := page.await(ctx, func(u client.Update) bool { return u.Open }); err != nil {
		return nil, fmt.Errorf("open the page: %w", err)
	}
	var results []Result
	rounds := e.size(100, 10)
	for _, kind := range changesOfPosts() {
		e.say("%d rounds of %s, page served by %s", rounds, kind.name, p.name)
		times := newHistogram()
		for range rounds {
			if err := page.round(ctx, kind, changers{author, moderator}, times); err != nil {
				return nil, fmt.Errorf("%s, page served by %s: %w", kind.name, p.name, err)
			}
		}
		latency := latencyOf(times)
		results = append(results, Result{
			ID: changesID, Name: kind.name + " seen on an open page of " + p.name + ", p99", Value: latency.P99, Unit: "ms", Latency: latency,
			Note: fmt.Sprintf("%d rounds, from the call until the event", rounds),
		}.reach(fmt.Sprintf("≤ %d ms", p.most), latency.P99 <= float64(p.most)))
	}
	return results, nil
}

// openedPage is the stream of a reader's home.
type openedPage struct {
	updates chan client.Update
	failed  chan error
	close   context.CancelFunc
}

func openPage(ctx context.Context, reader *client.Client) openedPage {
	ctx, stop := context.WithCancel(ctx)
	p, ended := openedPage{updates: make(chan client.Update), failed: make(chan error, 1)}, make(chan struct{})
	go func() {
		defer close(ended)
		for u, err := range reader.Live(ctx, "") {
			if err != nil {
				p.failed <- err
				return
			}
			select {
			case p.updates <- u:
			case <-ctx.Done():
				return
			}
		}
	}()
	p.close = func() { stop(); <-ended }
	return p
}

// round makes a post, waits until the page shows the post, changes it, and records the time until the page
// has the change.
func (p openedPage) round(ctx context.Context, kind change, by changers, times *hdrhistogram.Histogram) error {
	post, err := by.author.CreatePost(ctx, client.PostInput{Text: "to be changed"})
	if err != nil {
		return err
	}
	if err := p.await(ctx, func(u client.Update) bool { return u.Entry != nil && u.Entry.Post.ID == post.ID }); err != nil {
		return fmt.Errorf("await the post: %w", err)
	}
	began := time.Now()
	calls := make(chan error, 1)
	go func() { calls <- kind.make(ctx, by, post.ID) }()
	err = p.await(ctx, func(u client.Update) bool { return kind.seen(u, post.ID) })
	record(times, time.Since(began))
	return errors.Join(err, <-calls)
}

// await reads updates of the page until one is right.
func (p openedPage) await(ctx context.Context, right func(client.Update) bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("no event within a minute"))
	defer cancel()
	for {
		select {
		case u := <-p.updates:
			if right(u) {
				return nil
			}
		case err := <-p.failed:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// changesApart measures changes on the table and the queues of AWS_ENDPOINT_URL: one process has the calls, another
// process the page.
func (e *env) changesApart(ctx context.Context) (_ []Result, err error) {
	name, secret := "bench-"+strings.ToLower(rand.Text()[:10]), rand.Text()+rand.Text()
	env := []string{
		"AWS_ENDPOINT_URL=" + os.Getenv("AWS_ENDPOINT_URL"), "AWS_REGION=" + cmp.Or(os.Getenv("AWS_REGION"), "us-east-1"),
		"AWS_ACCESS_KEY_ID=" + cmp.Or(os.Getenv("AWS_ACCESS_KEY_ID"), "test"), "AWS_SECRET_ACCESS_KEY=" + cmp.Or(os.Getenv("AWS_SECRET_ACCESS_KEY"), "test"),
		"FANFARE_ENGINE=aws", "FANFARE_TABLE=" + name, "FANFARE_QUEUE_PREFIX=" + name, "FANFARE_LOG_LEVEL=error", "FANFARE_RATE_LIMIT=0",
		"FANFARE_AUTH=dev", "FANFARE_DEV_AUTH_ON_AWS=allow", "FANFARE_DEV_SECRET=" + secret, "FANFARE_CANARY=off", "FANFARE_AUDIT=off",
	}
	for _, what := range []string{"table", "queues"} {
		made, err := start(env, e.Fanfare, what, "create")
		if err == nil {
			err = made.wait()
		}
		if err != nil {
			return nil, err
		}
	}
	var apis []string
	for _, kind := range []string{"api", "api", "fanout"} {
		addr, err := freeAddress()
		if err != nil {
			return nil, err
		}
		admin, err := freeAddress()
		if err != nil {
			return nil, err
		}
		p, err := start(append([]string{"FANFARE_HTTP_ADDR=" + addr, "FANFARE_ADMIN_ADDR=" + admin}, env...), e.Fanfare, kind)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, p.stop()) }()
		if err := awaitReady(ctx, admin); err != nil {
			return nil, err
		}
		if kind == "api" {
			apis = append(apis, addr)
		}
	}
	tokens, err := auth.NewDev([]byte(secret), time.Now)
	if err != nil {
		return nil, err
	}
	return e.changes(ctx, place{"another process", apis[0], apis[1], 5000}, tokens)
}

// awaitReady waits until the process with this admin address is ready.
func awaitReady(ctx context.Context, admin string) error {
	return until(ctx, func() bool {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/readyz", http.NoBody)
		if err != nil {
			return false
		}
		res, err := (&http.Client{Timeout: 10 * time.Second}).Do(req)
		if err != nil {
			return false
		}
		return res.Body.Close() == nil && res.StatusCode == http.StatusOK
	})
}

// freeAddress returns an address of loopback that was free a moment ago.
func freeAddress() (string, error) {
	free, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // loopback
	if err != nil {
		return "", err
	}
	return free.Addr().String(), free.Close()
}
