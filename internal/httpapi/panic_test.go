package httpapi_test

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"fanfare/internal/feed/access"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"fanfare/internal/feed"
	"fanfare/internal/httpapi"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/obs"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// bomb is a table that panics at calls of one kind.
type bomb struct {
	table.Store
	mu    sync.Mutex
	at    table.Op
	blown bool
}

// arm makes every call of the kind at panic; with "" no call panics.
func (b *bomb) arm(at table.Op) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at, b.blown = at, false
}

func (b *bomb) hasBlown() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.blown
}

func (b *bomb) pass(op table.Op) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at == op {
		b.blown = true
		panic("boom")
	}
}

func (b *bomb) Get(ctx context.Context, in table.GetInput) (table.GetResult, error) {
	b.pass(table.OpGet)
	return b.Store.Get(ctx, in)
}

func (b *bomb) BatchGet(ctx context.Context, in table.BatchGetInput) (table.BatchGetResult, error) {
	b.pass(table.OpBatchGet)
	return b.Store.BatchGet(ctx, in)
}

func (b *bomb) Query(ctx context.Context, q table.Query) iter.Seq2[table.Page, error] {
	b.pass(table.OpQuery)
	return b.Store.Query(ctx, q)
}

func (b *bomb) Put(ctx context.Context, in table.PutInput) (table.WriteResult, error) {
	b.pass(table.OpPut)
	return b.Store.Put(ctx, in)
}

func (b *bomb) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	b.pass(table.OpTransact)
	return b.Store.Transact(ctx, in)
}

// TestPanicOfTheTableIsA500OnAnyGoroutine makes the table panic at each kind of call that a request makes, and
// sends the request. Most requests read on goroutines of their own, where an uncaught panic ends the process.
func TestPanicOfTheTableIsA500OnAnyGoroutine(t *testing.T) {
	store := &bomb{Store: tabletest.NewMemory()}
	core, logged := observer.New(zapcore.ErrorLevel)
	w := newWorld(t, func(c *httpapi.Config) {
		c.Log = zap.New(core)
		serve(c, access.Config{
			Store: store, Publisher: &published{}, IDs: id.NewGenerator(time.Now), Now: time.Now, Lifetimes: lifetime.Fixed(time.Hour), RequestID: obs.RequestID, Log: zap.NewNop(),
		}, feed.Config{LikesByUser: true})
	})
	w.profile(t, "ann")
	w.profile(t, "ben")
	var post struct{ ID string }
	if err := json.Unmarshal(w.call(t, "ann", "POST", "/v1/posts", `{"text":"t"}`).Body.Bytes(), &post); err != nil || post.ID == "" {
		t.Fatalf("post: %+v, %v", post, err)
	}
	of := "/v1/posts/" + post.ID
	for _, c := range []struct {
		method, path, body string
		// panics are the kinds of call that the request must make.
		panics []table.Op
	}{
		{"PUT", "/v1/me", `{"name":"n"}`, []table.Op{table.OpQuery, table.OpPut}},
		{"GET", "/v1/me", "", []table.Op{table.OpQuery}},
		{"POST", "/v1/posts", `{"text":"t"}`, []table.Op{table.OpQuery}},
		{"GET", of, "", []table.Op{table.OpGet}},
		{"GET", "/v1/users/ann/posts", "", []table.Op{table.OpQuery}},
		{"GET", "/v1/home", "", []table.Op{table.OpQuery, table.OpBatchGet}},
		{"GET", "/v1/home?source=pull", "", []table.Op{table.OpQuery, table.OpBatchGet}},
		{"PUT", "/v1/me/following/ben", "", []table.Op{table.OpBatchGet, table.OpQuery, table.OpTransact}},
		{"GET", "/v1/users/ann/friends", "", []table.Op{table.OpQuery}},
		{"GET", "/v1/users/ann/relationships/ben", "", []table.Op{table.OpBatchGet}},
		{"PUT", of + "/like", "", []table.Op{table.OpGet}},
		{"DELETE", of + "/like", "", []table.Op{table.OpGet}},
		{"GET", of + "/likes", "", []table.Op{table.OpGet, table.OpQuery}},
		{"GET", of + "/likes/count", "", []table.Op{table.OpGet}},
		{"GET", "/v1/users/ann/likes", "", []table.Op{table.OpQuery}},
		{"PUT", of + "/reactions/like", "", []table.Op{table.OpGet}},
		{"DELETE", of + "/reactions/love", "", []table.Op{table.OpGet}},
		{"GET", of + "/reactions", "", []table.Op{table.OpGet, table.OpQuery}},
		{"GET", of + "/reactions/count", "", []table.Op{table.OpGet}},
		{"GET", "/v1/users/ann/reactions", "", []table.Op{table.OpQuery}},
		{"POST", of + "/comments", `{"text":"c"}`, []table.Op{table.OpGet}},
		{"GET", of + "/comments", "", []table.Op{table.OpGet, table.OpQuery}},
		{"GET", "/v1/users/ann/comments", "", []table.Op{table.OpQuery}},
	} {
		t.Run(c.method+strings.ReplaceAll(c.path, "/", "."), func(t *testing.T) {
			for _, op := range c.panics {
				store.arm(op)
				logged.TakeAll()
				res := w.call(t, "ann", c.method, c.path, c.body, "X-Request-Id", "req-7")
				assert.Truef(t, store.hasBlown(), "%s was not called", op)
				p := problem(t, res, 500, "internal")
				if p.RequestID != "req-7" || strings.Contains(res.Body.String(), "boom") {
					t.Errorf("%s: answer is %s", op, res.Body)
				}
				entries := logged.TakeAll()
				require.Lenf(t, entries, 1, "%s", op)
				fields := entries[0].ContextMap()
				if stack, _ := fields["stack"].(string); fields["request_id"] != "req-7" || !strings.Contains(stack, "bomb") {
					t.Errorf("%s: logged %v", op, fields)
				}
			}
			store.arm("")
			res := w.call(t, "ann", c.method, c.path, c.body)
			assert.Lessf(t, res.Code, 300, "afterwards: %d %s", res.Code, res.Body)
		})
	}
}
