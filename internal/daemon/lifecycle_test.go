package daemon

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"fanfare/internal/backoff"
	"fanfare/internal/disk"
)

func TestCleanupsRunLastFirstAndAllOfThem(t *testing.T) {
	t.Parallel()
	var order []string
	var c cleanups
	for _, name := range []string{"a", "b", "c"} {
		c.add(name, func(ctx context.Context) error {
			_, ok := ctx.Deadline()
			assert.True(t, ok, "no deadline")
			order = append(order, name)
			return errors.New("stuck")
		})
	}
	err := c.run(t.Context(), time.Second)
	if !slices.Equal(order, []string{"c", "b", "a"}) || err == nil || !strings.Contains(err.Error(), "close b: stuck") {
		t.Errorf("order is %v, error %v", order, err)
	}
	if err := c.run(t.Context(), time.Second); err != nil || len(order) != 3 {
		t.Errorf("a second run undid things again: %v, %v", order, err)
	}
}

func TestCloserThatHangsIsGivenUpAtTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		closed := false
		var c cleanups
		c.add("first", func(context.Context) error { closed = true; return nil })
		c.addCloser("queue", func() error { <-release; return nil })
		err := c.run(t.Context(), time.Minute)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "close queue: not closed in time") {
			t.Errorf("error is %v", err)
		}
		assert.True(t, closed, "the earlier steps were not undone")
	})
}

func TestCloserIsWaitedForAndItsErrorNamed(t *testing.T) {
	t.Parallel()
	var c cleanups
	c.addCloser("quick", func() error { return errors.New("broken") })
	if err := c.run(t.Context(), time.Minute); err == nil || err.Error() != "close quick: broken" {
		t.Errorf("error is %v", err)
	}
}

// A step with limits of its own is not cut, and takes no time from the earlier steps.
func TestACleanupMayHaveLimitsOfItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c cleanups
		takes := func(d time.Duration) func(context.Context) error {
			return func(ctx context.Context) error { return backoff.Wait(ctx, d) }
		}
		c.add("first", takes(3*time.Second))
		c.addOwn("hand over", takes(time.Minute))
		c.add("last", takes(4*time.Second))
		require.NoError(t, c.run(t.Context(), 5*time.Second))
	})
}

func TestFirstRootThatEndsEndsAll(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(context.Context) error{
		"error":   func(context.Context) error { return errors.New("boom") },
		"panic":   func(context.Context) error { panic("boom") },
		"nothing": func(context.Context) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRoots(t.Context(), zap.NewNop())
			r.start("patient", func(ctx context.Context) error { <-ctx.Done(); return nil })
			r.start("faulty", run)
			err := r.wait()
			if err == nil || !strings.HasPrefix(err.Error(), "faulty: ") {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func TestStopIsNoFailure(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	r := newRoots(ctx, zap.NewNop())
	for _, name := range []string{"a", "b"} {
		r.start(name, func(ctx context.Context) error { <-ctx.Done(); return nil })
	}
	cancel()
	assert.NoError(t, r.wait())
}

func TestRootsMayStopWhileOthersStart(t *testing.T) {
	t.Parallel()
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		r := newRoots(ctx, zap.NewNop())
		var wg sync.WaitGroup
		wg.Go(cancel)
		for range 4 {
			r.start("root", func(ctx context.Context) error { <-ctx.Done(); return nil })
		}
		wg.Wait()
		require.NoError(t, r.wait())
	}
}

// serveOne starts a server whose handler waits for leave, and sends one request. The stop
// begins while the request is unanswered.
func serveOne(t *testing.T, grace time.Duration, leave <-chan struct{}) (answer <-chan string, served <-chan error) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	entered := make(chan struct{})
	srv := newServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		select {
		case <-leave:
		case <-r.Context().Done():
		}
		if _, err := io.WriteString(w, "whole"); err != nil {
			t.Log(err) // the test cuts the connection
		}
	}), zap.NewNop())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, srv, l, func() time.Duration { return grace }) }()
	answers := make(chan string, 1)
	go func() {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := client.Get("http://" + l.Addr().String())
		if err != nil {
			answers <- ""
			return
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Log(err) // the test cuts the connection
		}
		answers <- string(body)
	}()
	<-entered
	stop()
	return answers, ended
}

func TestOpenRequestIsAnsweredDuringTheStop(t *testing.T) {
	t.Parallel()
	leave := make(chan struct{})
	answer, served := serveOne(t, time.Minute, leave)
	close(leave)
	assert.Equal(t, "whole", <-answer)
	assert.NoError(t, <-served)
}

func TestRequestThatDoesNotEndIsCutAfterTheGrace(t *testing.T) {
	t.Parallel()
	answer, served := serveOne(t, 10*time.Millisecond, nil)
	err := <-served
	assert.ErrorContains(t, err, "still unanswered")
	assert.NotEqual(t, "whole", <-answer, "the request was answered")
}

// Probes and browsers open connections without sending a request.
func TestConnectionWithoutARequestIsNoFailure(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	silent, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	defer func() { _ = silent.Close() }() // the server has closed the connection already
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serve(ctx, newServer(http.NotFoundHandler(), zap.NewNop()), l, func() time.Duration { return 10 * time.Millisecond })
	}()
	// The server accepts connections in the order of their dials.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + l.Addr().String())
	require.NoError(t, err)
	_ = res.Body.Close() // the test needs only the answer itself
	stop()
	assert.NoError(t, <-ended)
	_, err = silent.Read(make([]byte, 1))
	assert.ErrorIs(t, err, io.EOF, "the connection was not closed")
}

func TestDiskThatFailedEndsTheProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		well := func() error { return disk.ErrFull } // a full disk can recover, so it is no failure
		core, logs := observer.New(zap.WarnLevel)
		low := func() error { return errors.New("1 of 100 MiB are free") }
		err := watchDisk(t.Context(), zap.New(core), low, well, func() error {
			if looks++; looks < 3 {
				return nil
			}
			return disk.ErrFailed
		})
		if !errors.Is(err, disk.ErrFailed) || looks != 3 || logs.FilterMessage("the disk is nearly full").Len() != 1 {
			t.Errorf("after %d looks: %v; the log: %v", looks, err, logs.All())
		}
	})
}
