package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"fanfare/internal/admin"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/ops/audit"
)

// mending repairs one damage, and publishes two posts.
type mending struct{ oracle }

func (mending) Run(context.Context, audit.Walk) (audit.Summary, error) {
	return audit.Summary{Items: 7, Mended: map[audit.Kind]int{audit.LikeCount: 1}}, nil
}

func (mending) Reconcile(_ context.Context, _, _ time.Time, cursor string, _ int) (delivery.Reconciled, error) {
	if cursor == "fails" {
		return delivery.Reconciled{}, errors.New("away")
	}
	return delivery.Reconciled{Checked: 5, Published: 2, Next: "more"}, nil
}

// Each change by an operator is in the log, at any level, with the operator and the size of the
// change, and without a payload.
func TestEveryChangeByAnOperatorIsInTheLog(t *testing.T) {
	core, lines := observer.New(zap.ErrorLevel)
	log := zap.New(core)
	l := &letters{}
	server := httptest.NewServer(admin.NewHandler(admin.Config{
		Metrics: prometheus.NewRegistry(), Health: admin.NewHealth(), Log: log,
		Domain: admin.Domain{Letters: l, Now: time.Now, Deliveries: mending{}, Homes: mending{}, Audit: mending{}, Backups: copier{}},
	}))
	defer server.Close()
	c := admin.NewClient(strings.TrimPrefix(server.URL, "http://"), server.Client())
	ctx := admin.WithActor(t.Context(), admin.Actor{Name: "ann@desk"})
	must := func(err error) { t.Helper(); require.NoError(t, err) }
	_, err := admin.Redrive().Do(ctx, c, selected("posts", admin.Selection{IDs: []string{"1", "2"}}))
	must(err)
	_, err = admin.Drop().Do(ctx, c, selected("likes", admin.Selection{All: true}))
	must(err)
	_, err = admin.Reconcile().Do(ctx, c, admin.Reconciling{Until: time.Now(), Limit: 10})
	must(err)
	_, err = admin.Verify().Do(ctx, c, admin.Verification{Repair: true, Rate: 1})
	must(err)
	_, err = admin.MakeBackup().Do(ctx, c, admin.BackingUp{Dir: "/var/one"})
	must(err)
	var actions []string
	for _, line := range lines.TakeAll() {
		fields := line.ContextMap()
		assert.Equal(t, "an operator made a change", line.Message)
		assert.Equal(t, "ann@desk", fields["operator"])
		assert.Contains(t, fields["from"], "127.0.0.1:")
		actions = append(actions, fmt.Sprint(fields["action"]))
	}
	assert.Equal(t, []string{"redrive", "drop", "reconcile", "verify --repair", "backup"}, actions)

	// Reads and calls that fail before a change have no line.
	_, err = admin.ListLetters().Do(ctx, c, selected("posts", admin.Selection{Limit: 10}))
	must(err)
	_, err = admin.Verify().Do(ctx, c, admin.Verification{Rate: 1})
	must(err)
	_, err = admin.MakeBackup().Do(ctx, c, admin.BackingUp{Dir: "/full"})
	require.Error(t, err)
	_, err = admin.Reconcile().Do(ctx, c, admin.Reconciling{Until: time.Now(), Cursor: "fails", Limit: 10})
	require.Error(t, err)
	assert.Zero(t, lines.Len())
}

// A caller chooses its own name, so the length of the name is bounded.
func TestTheNameOfAnOperatorIsBounded(t *testing.T) {
	core, lines := observer.New(zap.InfoLevel)
	c := admin.Config{Log: zap.New(core), Domain: admin.Domain{Letters: &letters{}, Now: time.Now}}
	header := http.Header{"Fanfare-Operator": {strings.Repeat("x", 5000)}}
	require.Equal(t, http.StatusOK, call(t, c, http.MethodPost, "/admin/dead-letters/posts/drop", header, `{"all":true}`))
	require.Equal(t, 1, lines.Len())
	assert.Len(t, lines.All()[0].ContextMap()["operator"], 128)
}
