package daemon

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"fanfare/internal/admin"
	"fanfare/internal/config"
	"fanfare/internal/table"
)

// away returns a check that fails until the time after has passed, and passes from then on.
func away(name string, needed bool, after time.Duration, err error) admin.Check {
	began := time.Now()
	return admin.Check{Name: name, Needed: needed, Ask: func(context.Context) error {
		if time.Since(began) < after {
			return err
		}
		return nil
	}}
}

func TestAStartWaitsForWhatItNeedsAsLongAsThatIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const outage = 3 * time.Hour
		core, logs := observer.New(zap.WarnLevel)
		health := admin.NewHealth(away("table", true, outage, errors.New("no route")), away("queue", false, 2*outage, errors.New("503")))
		began := time.Now()
		require.NoError(t, awaitDependencies(t.Context(), health, zap.New(core)))
		assert.WithinRange(t, time.Now(), began.Add(outage), began.Add(outage+startRetries().Most))
		waiting := logs.FilterMessage("waiting for a dependency").FilterField(zap.String("dependency", "table"))
		assert.InDelta(t, outage/waitLogged, waiting.Len(), float64(outage/waitLogged)/5, "the log of an outage")
		assert.Equal(t, 1, logs.Len()-waiting.Len(), "one line names the queue: %v", logs.All())
	})
}

func TestAStartWithoutTheRestTakesNoTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.WarnLevel)
		began := time.Now()
		health := admin.NewHealth(away("table", true, 0, nil), away("queue", false, time.Hour, errors.New("503")))
		require.NoError(t, awaitDependencies(t.Context(), health, zap.New(core)))
		assert.Zero(t, time.Since(began))
		require.Equal(t, 1, logs.Len())
		assert.Equal(t, map[string]any{"dependency": "queue", "error": "503"}, logs.All()[0].ContextMap())
	})
}

// Waiting does not create a missing queue, so the start fails at once, whether or not the
// process needs the queue.
func TestAStartThatOnlyAnOperatorMendsEndsAtOnce(t *testing.T) {
	t.Parallel()
	for _, needed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			missing := fmt.Errorf("find queue: %w", &smithy.GenericAPIError{Code: "QueueDoesNotExist", Message: "m"})
			health := admin.NewHealth(away("table", true, time.Hour, errors.New("no route")), away("queue", needed, time.Hour, missing))
			err := awaitDependencies(t.Context(), health, zap.NewNop())
			require.ErrorContains(t, err, "queue cannot be used: queue: find queue: ")
			assert.NotContains(t, err.Error(), "table")
			assert.Zero(t, time.Since(began))
		})
	}
}

// A stop ends the wait. The error of the start names the cause, and not only the timeout.
func TestAStartThatIsStoppedNamesWhatItWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		looks := 0
		health := admin.NewHealth(admin.Check{Name: "keys", Needed: true, Ask: func(ctx context.Context) error {
			if looks++; looks > 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return errors.New("the issuer answered 500")
		}})
		assert.EqualError(t, awaitDependencies(ctx, health, zap.NewNop()), "keys cannot be used: keys: the issuer answered 500")
	})
}

func TestTheErrorOfAStartNamesEachDependencyOnce(t *testing.T) {
	t.Parallel()
	err := unusable([]string{"table", "keys"}, map[string]error{
		"table": &table.UnavailableError{Op: "get", Err: errors.New("no route")}, "keys": errors.New("no answer"),
	})
	assert.EqualError(t, err, "table and keys cannot be used: table: get: unavailable, try again: no route\nkeys: no answer")
}

// draining starts a process whose drain takes setting, and stops the process when ctx ends.
// drained is closed at the end of the drain.
func draining(ctx context.Context, t *testing.T, roles Roles, setting time.Duration) (r *roots, health *admin.Health, drained <-chan struct{}) {
	t.Helper()
	p := &process{opt: Options{Roles: roles}, cfg: config.Config{Engine: config.EngineAWS, Drain: setting}, log: zap.NewNop()}
	p.roots, p.health = newRoots(t.Context(), zap.NewNop()), admin.NewHealth()
	p.roots.start("patient", func(ctx context.Context) error { <-ctx.Done(); return nil })
	done := make(chan struct{})
	go func() { defer close(done); p.drain(ctx) }()
	return p.roots, p.health, done
}

func TestOnlyAnAPIDrains(t *testing.T) {
	t.Parallel()
	const drain = 7 * time.Second
	for name, row := range map[string]struct {
		roles   Roles
		setting time.Duration
		want    time.Duration
	}{
		"an api":              {Roles{API: true}, drain, drain},
		"everything":          {Roles{API: true, Fanout: true, Likes: true}, drain, drain},
		"an api without":      {Roles{API: true}, 0, 0},
		"a fan-out":           {Roles{Fanout: true}, drain, 0},
		"an aggregator alone": {Roles{Likes: true}, drain, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				r, health, drained := draining(ctx, t, row.roles, row.setting)
				<-time.After(time.Hour)
				assert.False(t, health.Draining(), "before the stop")
				asked := time.Now()
				stop()
				synctest.Wait()
				assert.True(t, health.Draining(), "/servez has to be 503 at once")
				<-r.ctx.Done() // from this moment the roots take no more work
				assert.Equal(t, row.want, time.Since(asked))
				<-drained
				assert.NoError(t, r.wait())
			})
		})
	}
}

func TestARootThatFailsEndsTheDrain(t *testing.T) {
	t.Parallel()
	for name, failing := range map[string]time.Duration{"before the stop": time.Second, "in the drain": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
				defer stop()
				began := time.Now()
				r, health, drained := draining(ctx, t, Roles{API: true}, time.Minute)
				r.start("faulty", func(context.Context) error { <-time.After(failing); return errors.New("boom") })
				<-drained
				assert.Equal(t, failing, time.Since(began))
				assert.True(t, health.Draining())
				assert.EqualError(t, r.wait(), "faulty: boom")
			})
		})
	}
}
