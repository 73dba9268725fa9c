package admin_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"fanfare/internal/admin"
)

func TestHealthWaitsTwoSecondsForEachAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		h := admin.NewHealth(admin.Check{Name: "table", Ask: stuck}, admin.Check{Name: "queue", Ask: stuck},
			admin.Check{Name: "keys", Ask: func(context.Context) error { return nil }})
		start := time.Now()
		failing := h.Failing(t.Context())
		if len(failing) != 2 || failing[0].Name != "table" || failing[1].Name != "queue" || time.Since(start) != 2*time.Second {
			t.Errorf("failing are %v after %s", failing, time.Since(start))
		}
	})
}

func TestACheckThatPanicsFails(t *testing.T) {
	h := admin.NewHealth(admin.Check{Name: "table", Ask: func(context.Context) error { panic("boom") }})
	if failing := h.Failing(t.Context()); len(failing) != 1 || failing[0].Name != "table" {
		t.Errorf("failing are %v", failing)
	}
}

func TestDrainingIsNotReadyButAlive(t *testing.T) {
	h := admin.NewHealth()
	h.Drain()
	mux := admin.NewHandler(prometheus.NewRegistry(), h, nil, time.Now)
	for path, want := range map[string]int{"/readyz": http.StatusServiceUnavailable, "/healthz": http.StatusOK, "/debug/pprof/cmdline": http.StatusOK} {
		res := httptest.NewRecorder()
		mux.ServeHTTP(res, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if res.Code != want {
			t.Errorf("%s answered %d", path, res.Code)
		}
	}
}
