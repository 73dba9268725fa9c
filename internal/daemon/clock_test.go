package daemon_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"fanfare/internal/config"
	"fanfare/internal/daemon"
	"fanfare/internal/queue/sqstest"
)

// A process with a wrong clock shows it in /readyz, in a metric, and once in the log. On AWS
// the replies show the right time. On the embedded engine a jump of the clock shows the fault.
func TestAWrongClockShows(t *testing.T) {
	t.Parallel()
	sqs := sqstest.New(0)
	aws := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Amzn-Requestid", "test")
		if strings.HasPrefix(r.Header.Get("X-Amz-Target"), "DynamoDB") {
			body, _ := io.ReadAll(r.Body)
			_, _ = io.WriteString(w, found(body)) // the client may have left
			return
		}
		sqs.ServeHTTP(w, r)
	})
	onAWS, err := config.Load([]string{"FANFARE_ENGINE=aws", "FANFARE_ADMIN_ADDR=127.0.0.1:0"}, config.Worker)
	require.NoError(t, err)
	for name, cfg := range map[string]config.Config{"aws": onAWS, "embedded": settings(t, t.TempDir())} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var wrong atomic.Int64
			wrong.Store(int64(-10 * 24 * time.Hour))
			core, logged := observer.New(zap.ErrorLevel)
			ctx, stop := context.WithCancel(withAWS(t.Context(), aws))
			defer stop()
			ready, ended := make(chan daemon.Addresses, 1), make(chan error, 1)
			go func() {
				ended <- daemon.Run(ctx, daemon.Options{
					Config: cfg, Roles: daemon.Roles{}, Log: zap.New(core), Grace: time.Second,
					Now:   func() time.Time { return time.Now().Add(time.Duration(wrong.Load())) },
					Ready: func(at daemon.Addresses) { ready <- at },
				})
			}()
			var at daemon.Addresses
			select {
			case at = <-ready:
			case err := <-ended:
				require.Fail(t, "not started", "%v", err)
			}
			if name == "embedded" {
				assert.NotContains(t, read(t, "http://"+at.Admin+"/readyz"), "clock", "it has not stepped yet")
				wrong.Store(int64(30 * 24 * time.Hour))
			}
			until(t, "warning of the clock", func() bool { return strings.Contains(read(t, "http://"+at.Admin+"/readyz"), "the clock is in doubt") })
			assert.Greater(t, metric(t, at.Admin, "fanfare_clock_offset_seconds")*map[bool]float64{true: 1, false: -1}[name == "embedded"], 9*86400.0)
			if name == "aws" { // the clock is in doubt from the beginning
				until(t, "line in the log", func() bool { return logged.FilterMessageSnippet("until the clock is right").Len() == 1 })
			}
			stop()
			assert.NoError(t, <-ended)
		})
	}
}
