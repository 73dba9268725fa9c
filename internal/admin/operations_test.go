package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/admin"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/ops/audit"
	"fanfare/internal/pair"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

func emptyDomain() admin.Domain {
	way := access.New(access.Config{Store: tabletest.NewMemory(), Now: time.Now, Lifetimes: lifetime.Fixed(time.Hour)})
	posts := feed.New(feed.Config{Access: way})
	return admin.Domain{Deliveries: delivery.New(way), Homes: home.New(home.Config{Access: way, Items: posts, Mutes: posts})}
}

func TestIDsThatNobodyHasAreNotFound(t *testing.T) {
	d := emptyDomain()
	for _, tt := range []struct{ user, post string }{{"a/b", ""}, {"ann", "x"}, {"ann", ""}, {"ann", id.Min}} {
		_, err := admin.Explain().Do(t.Context(), d, admin.Explained{User: tt.user, Post: tt.post})
		assert.ErrorAs(t, err, new(*admin.RefusalError), tt)
	}
	for _, post := range []string{"x", id.Min} {
		_, err := admin.Delivery().Do(t.Context(), d, admin.Delivered{Post: post})
		assert.ErrorAs(t, err, new(*admin.RefusalError), post)
	}
}

// The total is an estimate. So a verification works without a total.
func TestTheProgressOfAVerificationHasTheTotal(t *testing.T) {
	store := tabletest.NewMemory()
	_, err := store.Put(t.Context(), table.PutInput{Item: table.Item{Key: table.Key{PK: "a", SK: "b"}}})
	require.NoError(t, err)
	for _, row := range []struct {
		items func(context.Context) (int64, error)
		want  int64
	}{
		{nil, 0},
		{func(context.Context) (int64, error) { return 9, nil }, 9},
		{func(context.Context) (int64, error) { return 9, errors.New("refused") }, 0},
	} {
		d := admin.Domain{Audit: audit.New(audit.Config{Store: store, Now: time.Now, Lifetimes: lifetime.Fixed(time.Hour)}), Items: row.items}
		var events []admin.VerifyEvent
		event := func(e admin.VerifyEvent) error { events = append(events, e); return nil }
		_, err := admin.Verify().Do(t.Context(), d, admin.Verification{Rate: 1000, Event: event})
		require.NoError(t, err)
		require.Len(t, events, 1)
		assert.Equal(t, row.want, events[0].Total)
		assert.Equal(t, 1, events[0].Progress.Items)
	}
}

func TestABadCursorOfReconcileIsTheCallersFault(t *testing.T) {
	assert.Equal(t, http.StatusBadRequest, call(t, admin.Config{Domain: emptyDomain()}, http.MethodPost, "/admin/reconcile", nil, `{"limit":1,"cursor":"x"}`))
}

// Programs of other authors read these JSON texts.
func TestTheOperationsHaveTheirJSON(t *testing.T) {
	at := time.UnixMilli(0).UTC()
	sum := audit.Summary{
		Items: 9, Undecided: 1, Found: map[audit.Kind]int{audit.LikeCount: 2}, Mended: map[audit.Kind]int{audit.LikeCount: 1}, Left: 1,
		ReadUnits: 2.5, WriteUnits: 3,
	}
	for want, value := range map[string]any{
		`{"finding":{"kind":"like-count","pk":"p","sk":"s","detail":"d","advice":"a","mended":true}}`: admin.VerifyEvent{
			Finding: &audit.Finding{Kind: audit.LikeCount, PK: "p", SK: "s", Detail: "d", Advice: "a", Mended: true},
		},
		`{"progress":{"items":9,"undecided":1,"found":{"like-count":2},"mended":{"like-count":1},"left":1,"read_units":2.5,"write_units":3}}`: admin.VerifyEvent{Progress: &sum},
		`{"state":"running","planned":1,"delivered":2,"skipped":3,"chunks_done":4,"chunks_total":null,"accepted_at":"1970-01-01T00:00:00Z","started_at":"1970-01-01T00:00:00Z","completed_at":null,"attempts":5}`: delivery.Progress{
			State: delivery.Running, Planned: new(int64(1)), Delivered: new(int64(2)), Skipped: new(int64(3)), ChunksDone: new(int64(4)),
			AcceptedAt: at, StartedAt: &at, Attempts: 5,
		},
		`{"checked":2,"published":1,"next_cursor":"c"}`: delivery.Reconciled{Checked: 2, Published: 1, Next: "c"},
		`{"checked":2,"published":0}`:                   delivery.Reconciled{Checked: 2},
		`{"post_id":"p","author_id":"a","in_home":true,"reason":"pushed","chunk":1,"at":"1970-01-01T00:00:00Z","dead_letter":"l","topic":"t","post_text":"y","text":"x"}`: home.Explanation{
			PostText: "y", Post: "p", Author: "a", User: "u", TakenDown: &schema.TakeDown{}, InHome: true, Reason: home.ReasonPushed, Chunk: 1, At: at, DeadLetter: "l", Topic: "t", Text: "x",
		},
		`{"role":"primary","mode":"paired","term":2,"peer":"h:1","connected":true,"joining":false,"lag_bytes":3,"ack_ms":4,"promise_ms":5,"seeded_bytes":6,"seed_bytes":7,"alone_ms":8,"register":{"term":2,"primary":"a","standby":"b","mode":"paired","since":"1970-01-01T00:00:00Z","age_ms":9}}`: pair.Status{
			Role: "primary", Mode: "paired", Term: 2, Peer: "h:1", Connected: true, Lag: 3, Ack: millis(4), Promise: millis(5), Seeded: 6, SeedSize: 7, AloneFor: millis(8), AloneTotal: time.Hour,
			Register: &pair.Registered{Term: 2, Primary: "a", Standby: "b", Mode: "paired", Since: at, Age: millis(9)},
		},
	} {
		got, err := json.Marshal(value)
		assert.NoError(t, err)
		assert.Equal(t, want, string(got))
	}
}

// millis returns a duration of n milliseconds and a part of one.
func millis(n int) pair.Millis { return pair.Millis{Duration: time.Duration(n)*time.Millisecond + 1} }
