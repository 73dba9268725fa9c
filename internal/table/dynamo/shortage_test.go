package dynamo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/table"
	"fanfare/internal/table/dynamo"
)

// throttle returns a refusal in DynamoDB's own form. The field of the reasons has another
// spelling in ThrottlingException than in the two other errors.
func throttle(code string, reasons ...string) reply {
	list := make([]object, len(reasons))
	for i, r := range reasons {
		list[i] = object{"reason": r, "resource": "arn:aws:dynamodb:us-east-1:123456789012:table/fanfare"}
	}
	field := "ThrottlingReasons"
	if code == "ThrottlingException" {
		field = "throttlingReasons"
	}
	return failure(400, code, object{field: list})
}

func TestARefusalNamesItsReason(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reasons []string
		reason  table.Shortage
		index   bool
	}{
		{[]string{"TableWriteKeyRangeThroughputExceeded"}, table.ShortKeyRange, false},
		{[]string{"IndexWriteKeyRangeThroughputExceeded"}, table.ShortKeyRange, true},
		{[]string{"TableReadAccountLimitExceeded"}, table.ShortAccount, false},
		{[]string{"IndexReadMaxOnDemandThroughputExceeded"}, table.ShortMaxOnDemand, true},
		{[]string{"TableReadProvisionedThroughputExceeded"}, table.ShortProvisioned, false},
		{[]string{"TableWriteKeyRangeThroughputExceeded", "TableWriteMaxOnDemandThroughputExceeded"}, table.ShortMaxOnDemand, false},
		{[]string{"IndexWriteKeyRangeThroughputExceeded", "TableWriteKeyRangeThroughputExceeded"}, table.ShortKeyRange, true},
		{[]string{"TableWriteSomethingNew", "IndexWriteAccountLimitExceeded"}, table.ShortAccount, true},
		{[]string{"IndexWriteSomethingNew"}, table.ShortUnknown, true},
		{[]string{"KeyRangeThroughputExceeded "}, table.ShortUnknown, false},
		{[]string{""}, table.ShortUnknown, false},
		{nil, table.ShortUnknown, false},
	} {
		for _, code := range []string{"ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded"} {
			backwards := slices.Clone(c.reasons)
			slices.Reverse(backwards)
			for _, reasons := range [][]string{c.reasons, backwards} {
				t.Run(fmt.Sprint(code, reasons), func(t *testing.T) {
					_, err := answering(throttle(code, reasons...)).Get(t.Context(), table.GetInput{Key: keyN(1)})
					away := awayOf(t, err)
					assert.Equal(t, c.reason, away.Reason)
					assert.Equal(t, c.index, away.Index)
					assert.True(t, away.Throttled())
				})
			}
		}
	}
}

// All calls handle every kind of refusal in the same way.
func TestEachCallReadsTheReason(t *testing.T) {
	t.Parallel()
	sure, doubtful := paths()
	for _, call := range append(sure, doubtful...) {
		for _, code := range []string{"ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded"} {
			away := awayOf(t, call.do(t.Context(), answering(throttle(code, "IndexWriteMaxOnDemandThroughputExceeded"))))
			assert.Equal(t, table.ShortMaxOnDemand, away.Reason, "%s %s", call.name, code)
			assert.True(t, away.Index, "%s %s", call.name, code)
			assert.ErrorContains(t, away, "(index, max_on_demand)")
		}
	}
}

// refusals collects the refusals that an observer gets.
type refusals struct {
	mu  sync.Mutex
	all []table.Refusal
}

func (r *refusals) add(of table.Refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, of)
}

// The observer gets each refused try, including the tries that the SDK then repeats successfully.
func TestEachRefusedTryIsObserved(t *testing.T) {
	t.Parallel()
	liked := table.Item{Key: table.Key{PK: "p#1#likelist", SK: "u#ann"}, Attrs: []table.Attr{
		{Name: table.AttrGSI1PK, Value: table.S("u#ann#like")}, {Name: table.AttrGSI1SK, Value: table.S("1")},
	}}
	other := table.Key{PK: "p#1", SK: "info"}
	for op, do := range map[table.Op]func(context.Context, *dynamo.Store) error{
		table.OpGet: func(ctx context.Context, s *dynamo.Store) error {
			_, err := s.Get(ctx, table.GetInput{Key: other})
			return err
		},
		table.OpPut: func(ctx context.Context, s *dynamo.Store) error {
			_, err := s.Put(ctx, table.PutInput{Item: liked, If: table.Absent{}})
			return err
		},
		table.OpUpdate: func(ctx context.Context, s *dynamo.Store) error {
			_, err := s.Update(ctx, table.UpdateInput{Key: other, Set: []table.Attr{{Name: "n", Value: table.N(1)}}})
			return err
		},
		table.OpDelete: func(ctx context.Context, s *dynamo.Store) error {
			_, err := s.Delete(ctx, table.DeleteInput{Key: other})
			return err
		},
		table.OpQuery: func(ctx context.Context, s *dynamo.Store) error {
			_, _, err := table.Collect(s.Query(ctx, table.Query{PK: "u#ann#like", Index: true}), 0)
			return err
		},
		table.OpScan: func(ctx context.Context, s *dynamo.Store) error {
			_, err := s.Scan(ctx, table.ScanInput{})
			return err
		},
		table.OpBatchGet: func(ctx context.Context, s *dynamo.Store) error {
			_, err := s.BatchGet(ctx, table.BatchGetInput{Keys: []table.Key{other}})
			return err
		},
		table.OpBatchWrite: func(ctx context.Context, s *dynamo.Store) error {
			_, err := s.BatchWrite(ctx, []table.BatchWrite{{Delete: other}, {Put: &liked}})
			return err
		},
		table.OpTransact: func(ctx context.Context, s *dynamo.Store) error {
			_, err := s.Transact(ctx, table.TransactInput{Ops: []table.TransactOp{{Delete: &table.DeleteInput{Key: other}}, {Put: &table.PutInput{Item: liked}}}})
			return err
		},
	} {
		for _, index := range []bool{false, true} {
			t.Run(fmt.Sprint(op, "/", index), func(t *testing.T) {
				want := table.Refusal{Op: op, Reason: table.ShortKeyRange, Index: index, PK: "p#1"}
				reason, keys := "TableWriteKeyRangeThroughputExceeded", map[table.Op]string{
					table.OpPut: "p#1#likelist", table.OpQuery: "u#ann#like", table.OpScan: "",
				}
				if index {
					reason = "IndexWriteKeyRangeThroughputExceeded"
					keys[table.OpPut], keys[table.OpBatchWrite], keys[table.OpTransact] = "u#ann#like", "u#ann#like", "u#ann#like"
				}
				if pk, other := keys[op]; other {
					want.PK = pk
				}
				f := newFake(t, func(_ string, n int, _ object) reply {
					if n <= 2 {
						return throttle("ThrottlingException", reason)
					}
					return reply{}
				})
				var seen refusals
				require.NoError(t, do(t.Context(), openFake(t, f, dynamo.WithRefusals(seen.add))))
				assert.Equal(t, []table.Refusal{want, want}, seen.all)
			})
		}
	}
}

// Unprocessed parts of batches, and cancelled transactions, name no reason.
func TestARefusalWithoutAReasonIsObserved(t *testing.T) {
	t.Parallel()
	var seen refusals
	f := newFake(t, func(op string, n int, in object) reply {
		switch {
		case op == "TransactWriteItems":
			return failure(400, "TransactionCanceledException", object{"CancellationReasons": []object{{"Code": "None"}, {"Code": "ThrottlingError"}}})
		case n > 1:
			return reply{}
		case op == "BatchGetItem":
			keys := in["RequestItems"].(object)["t"].(object)["Keys"].([]any)
			return reply{body: object{"UnprocessedKeys": object{"t": object{"Keys": keys[1:]}}}}
		}
		return reply{body: object{"UnprocessedItems": object{"t": in["RequestItems"].(object)["t"].([]any)[1:]}}}
	})
	store := openFake(t, f, dynamo.WithRefusals(seen.add))
	a, b := table.Key{PK: "a", SK: "s"}, table.Key{PK: "b", SK: "s"}
	_, err := store.BatchGet(t.Context(), table.BatchGetInput{Keys: []table.Key{a, b}})
	require.NoError(t, err)
	_, err = store.BatchWrite(t.Context(), []table.BatchWrite{{Delete: a}, {Delete: b}})
	require.NoError(t, err)
	_, err = store.Transact(t.Context(), table.TransactInput{Ops: []table.TransactOp{{Delete: &table.DeleteInput{Key: a}}, {Delete: &table.DeleteInput{Key: b}}}})
	require.Error(t, err)
	assert.Equal(t, []table.Refusal{
		{Op: table.OpBatchGet, Reason: table.ShortUnknown, PK: "b"}, {Op: table.OpBatchWrite, Reason: table.ShortUnknown, PK: "b"},
		{Op: table.OpTransact, Reason: table.ShortUnknown, PK: "b"},
	}, seen.all)
}

// An answer may have any bytes and any status. It counts as a refusal only if it is complete, and has the
// status 400 and one of the three codes. The reason of a refusal is always a known reason.
func FuzzRefusals(f *testing.F) {
	for _, body := range []string{
		``, `{`, `[]`, `null`, `{"__type":7}`, `{"__type":"#ThrottlingException"}`, `{"__type":"ThrottlingException","throttlingReasons":[]}`,
		`{"__type":"x#ThrottlingException","throttlingReasons":[{"reason":"TableReadAccountLimitExceeded","resource":"arn"}]}`,
		`{"__type":"x#ThrottlingException","throttlingReasons":"many"}`, `{"__type":"x#ThrottlingException","throttlingReasons":[null,{},{"reason":null},{"reason":7}]}`,
		`{"__type":"x#ProvisionedThroughputExceededException","ThrottlingReasons":[{"reason":"IndexWriteKeyRangeThroughputExceeded"}]}`,
		`{"__type":"x#RequestLimitExceeded","ThrottlingReasons":[{"reason":"TableWriteMaxOnDemandThroughputExceeded"},{"reason":"New"}]}`,
		`{"__type":"x#LimitExceededException"}`, `{"__type":"x#ThrottlingException"`,
	} {
		for _, status := range []int{400, 500, 200} {
			f.Add(status, []byte(body))
		}
	}
	known := []table.Shortage{table.ShortKeyRange, table.ShortAccount, table.ShortMaxOnDemand, table.ShortProvisioned, table.ShortUnknown}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		if status < 200 || status > 599 {
			return
		}
		store := dynamo.New(over(client(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body))}, nil
		})), "t")
		_, err := store.Put(t.Context(), table.PutInput{Item: table.Item{Key: keyN(1)}, If: table.Absent{}})
		away, ok := errors.AsType[*table.UnavailableError](err)
		if !ok {
			return
		}
		assert.Equal(t, away.Throttled(), away.Undone, "%v", err)
		if !away.Throttled() {
			assert.False(t, away.Index)
			return
		}
		assert.Equal(t, http.StatusBadRequest, status)
		assert.Contains(t, known, away.Reason)
		var answer map[string]any
		require.NoError(t, json.Unmarshal(body, &answer), "%s", body)
		assert.True(t, strings.Contains(string(body), "Throughput") || strings.Contains(string(body), "Throttling") || strings.Contains(string(body), "RequestLimit"))
	})
}
