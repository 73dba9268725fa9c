package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/panics"
	"fanfare/internal/table"
	"fanfare/internal/table/dynamo"
)

func keyN(n int) table.Key { return table.Key{PK: "p", SK: fmt.Sprintf("%04d", n)} }

func putsOf(n int) []table.BatchWrite {
	writes := make([]table.BatchWrite, n)
	for i := range writes {
		writes[i].Put = &table.Item{Key: keyN(i)}
	}
	return writes
}

// partial is a table that never does a whole batch at once. A call does a third of the batch. Every
// fourth call does nothing: it returns all writes as unprocessed, or is refused.
type partial struct {
	mu      sync.Mutex
	written map[string]int
	// tries counts the calls of each part. The part's last key, which is done last, identifies the part.
	// Parts are sent at the same time, and no single part may get all the failures.
	tries map[string]int
	// forgetful is the planted bug: the table does not report the writes that it left undone,
	// as if the adapter dropped them.
	forgetful bool
}

func (p *partial) answer(op string, _ int, in object) reply {
	p.mu.Lock()
	defer p.mu.Unlock()
	requests := in["RequestItems"].(object)["t"]
	n := p.try(op, requests)
	if n%8 == 0 {
		return failure(400, "ProvisionedThroughputExceededException", nil)
	}
	units := []object{{"TableName": "t", "CapacityUnits": 1.0}}
	if op == "BatchGetItem" {
		keys := requests.(object)["Keys"].([]any)
		do := p.share(n, len(keys))
		body := object{"Responses": object{"t": keys[:do]}, "ConsumedCapacity": units}
		if do < len(keys) && !p.forgetful {
			body["UnprocessedKeys"] = object{"t": object{"Keys": keys[do:]}}
		}
		return reply{body: body}
	}
	writes := requests.([]any)
	do := p.share(n, len(writes))
	for _, w := range writes[:do] {
		p.written[keyOf(w.(object)["PutRequest"].(object)["Item"])]++
	}
	body := object{"ConsumedCapacity": units}
	if do < len(writes) && !p.forgetful {
		body["UnprocessedItems"] = object{"t": writes[do:]}
	}
	return reply{body: body}
}

func (p *partial) try(op string, requests any) int {
	var last string
	if op == "BatchGetItem" {
		keys := requests.(object)["Keys"].([]any)
		last = keyOf(keys[len(keys)-1])
	} else {
		writes := requests.([]any)
		last = keyOf(writes[len(writes)-1].(object)["PutRequest"].(object)["Item"])
	}
	if p.tries == nil {
		p.tries = make(map[string]int)
	}
	p.tries[last]++
	return p.tries[last]
}

func (p *partial) share(call, n int) int {
	if call%4 == 0 {
		return 0
	}
	return (n + 2) / 3
}

// lostWrites runs a batch write of 160 items against p. It returns how many of these items are
// missing although the batch succeeded.
func lostWrites(t *testing.T, p *partial) int {
	t.Helper()
	p.written = make(map[string]int)
	f := newFake(t, p.answer)
	res, err := openFake(t, f).BatchWrite(t.Context(), putsOf(160))
	require.NoError(t, err)
	if res.Units.Write == 0 || res.Units.Read != 0 {
		t.Errorf("units %+v: the write units of each answer count", res.Units)
	}
	return 160 - len(p.written)
}

// lostReads runs a batch get of 250 keys against p. It returns how many of these keys were not read.
func lostReads(t *testing.T, p *partial) int {
	t.Helper()
	f := newFake(t, p.answer)
	in := table.BatchGetInput{Consistent: true, Project: []string{"a"}}
	for i := range 250 {
		in.Keys = append(in.Keys, keyN(i))
	}
	res, err := openFake(t, f).BatchGet(t.Context(), in)
	require.NoError(t, err)
	for _, call := range f.seen("BatchGetItem") {
		want := call["RequestItems"].(object)["t"].(object)
		if want["ConsistentRead"] != true || want["ProjectionExpression"] == nil {
			t.Fatalf("a request forgot consistency or projection: %v", want)
		}
	}
	seen := make(map[table.Key]bool)
	for _, it := range res.Items {
		assert.Falsef(t, seen[it.Key], "%v was returned twice", it.Key)
		seen[it.Key] = true
	}
	return 250 - len(seen)
}

func TestUnprocessedPartsOfABatchAreNotLost(t *testing.T) {
	t.Parallel()
	t.Run("writes", func(t *testing.T) {
		assert.Zero(t, lostWrites(t, &partial{}), "writes were lost")
	})
	t.Run("reads", func(t *testing.T) {
		assert.Zero(t, lostReads(t, &partial{}), "keys were not read")
	})
}

// The checks of lostWrites and lostReads fail if unprocessed parts are dropped.
func TestPlantedDroppingUnprocessedPartsIsFound(t *testing.T) {
	t.Parallel()
	t.Run("writes", func(t *testing.T) {
		assert.NotZero(t, lostWrites(t, &partial{forgetful: true}), "dropped writes were not noticed")
	})
	t.Run("reads", func(t *testing.T) {
		assert.NotZero(t, lostReads(t, &partial{forgetful: true}), "dropped keys were not noticed")
	})
}

func TestABatchThatIsThrottledForGoodEndsWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := newFake(t, func(string, int, object) reply {
		return failure(400, "ProvisionedThroughputExceededException", nil)
	})
	var attempts []int
	store := open(t, f.URL, "t", dynamo.WithBackoff(func(attempt int) time.Duration {
		attempts = append(attempts, attempt)
		if attempt == 5 {
			cancel()
		}
		return 0
	}))
	_, err := store.BatchWrite(ctx, putsOf(3))
	unavailable, ok := errors.AsType[*table.UnavailableError](err)
	if !ok || !errors.Is(err, context.Canceled) || unavailable.Op != "batch_write" {
		t.Errorf("error %v, want an UnavailableError by the context's end", err)
	}
	assert.Equalf(t, "[1 2 3 4 5]", fmt.Sprint(attempts), "backoff was asked for attempts %v", attempts)
}

func TestABatchHasABoundedNumberOfRequestsInFlight(t *testing.T) {
	t.Parallel()
	var now, most atomic.Int64
	f := newFake(t, func(string, int, object) reply {
		for n := now.Add(1); ; {
			if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
				break
			}
		}
		defer now.Add(-1)
		return reply{}
	})
	store := open(t, f.URL, "t", dynamo.WithParallel(3))
	_, err := store.BatchWrite(t.Context(), putsOf(1000))
	require.NoError(t, err)
	if n := len(f.seen("BatchWriteItem")); n != 40 || most.Load() > 3 {
		t.Errorf("%d requests, %d at once; want 40, at most 3 at once", n, most.Load())
	}
}

// write is a call that writes. Some of these calls must not take effect twice.
type write struct {
	name string
	do   func(context.Context, *dynamo.Store) error
	// repeatable means that the call may be sent again after a lost answer.
	repeatable bool
	op         string
}

func writes() []write {
	one := []table.Attr{{Name: "n", Value: table.N(1)}}
	key := keyN(1)
	return []write{
		{"put", func(ctx context.Context, s *dynamo.Store) error {
			_, err := s.Put(ctx, table.PutInput{Item: table.Item{Key: key}})
			return err
		}, true, "PutItem"},
		{"put if absent", func(ctx context.Context, s *dynamo.Store) error {
			_, err := s.Put(ctx, table.PutInput{Item: table.Item{Key: key}, If: table.Absent{}})
			return err
		}, false, "PutItem"},
		{"set", func(ctx context.Context, s *dynamo.Store) error {
			_, err := s.Update(ctx, table.UpdateInput{Key: key, Set: one})
			return err
		}, true, "UpdateItem"},
		{"set on a condition", func(ctx context.Context, s *dynamo.Store) error {
			_, err := s.Update(ctx, table.UpdateInput{Key: key, Set: one, If: table.AttrAbsent{Name: "n"}})
			return err
		}, false, "UpdateItem"},
		{"add", func(ctx context.Context, s *dynamo.Store) error {
			_, err := s.Update(ctx, table.UpdateInput{Key: key, Add: one})
			return err
		}, false, "UpdateItem"},
		{"delete", func(ctx context.Context, s *dynamo.Store) error {
			_, err := s.Delete(ctx, table.DeleteInput{Key: key})
			return err
		}, true, "DeleteItem"},
		{"delete on a condition", func(ctx context.Context, s *dynamo.Store) error {
			_, err := s.Delete(ctx, table.DeleteInput{Key: key, If: table.Exists{}})
			return err
		}, false, "DeleteItem"},
		{"transaction", func(ctx context.Context, s *dynamo.Store) error {
			_, err := s.Transact(ctx, table.TransactInput{Ops: []table.TransactOp{
				{Update: &table.UpdateInput{Key: key, Add: one, If: table.Exists{}}},
			}})
			return err
		}, true, "TransactWriteItems"},
	}
}

// A write whose answer was lost is sent again only if the write may take effect twice. Otherwise the caller
// gets an error that means that the outcome is unknown.
func TestOnlyRepeatableWritesAreSentAgainAfterALostAnswer(t *testing.T) {
	t.Parallel()
	for fault, lost := range map[string]reply{
		"cut reply":      {body: object{"ConsumedCapacity": object{"CapacityUnits": 1.0}}, cut: true},
		"internal error": failure(500, "InternalServerError", nil),
		"bad gateway":    {status: 502},
	} {
		for _, w := range writes() {
			t.Run(fault+"/"+w.name, func(t *testing.T) {
				f := newFake(t, func(_ string, n int, _ object) reply {
					if n == 1 {
						return lost
					}
					return reply{}
				})
				err := w.do(t.Context(), openFake(t, f))
				_, unavailable := errors.AsType[*table.UnavailableError](err)
				calls := len(f.seen(w.op))
				if w.repeatable && (err != nil || calls != 2) {
					t.Errorf("error %v after %d calls, want success by the second", err, calls)
				}
				if !w.repeatable && (!unavailable || calls != 1) {
					t.Errorf("error %v after %d calls, want an UnavailableError after one", err, calls)
				}
			})
		}
	}
}

// A write that certainly had no effect is sent again.
func TestRefusedWritesAreSentAgain(t *testing.T) {
	t.Parallel()
	for _, code := range []string{
		"ProvisionedThroughputExceededException", "ThrottlingException", "TransactionConflictException",
	} {
		for _, w := range writes() {
			t.Run(code+"/"+w.name, func(t *testing.T) {
				f := newFake(t, func(_ string, n int, _ object) reply {
					if n < 3 {
						return failure(400, code, nil)
					}
					return reply{}
				})
				assert.NoError(t, w.do(t.Context(), openFake(t, f)))
			})
		}
	}
}

func TestFailuresAreSorted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reply       reply
		unavailable bool
		invalid     bool
		says        string
	}{
		"throttled for good":   {failure(400, "ThrottlingException", nil), true, false, "try again"},
		"internal for good":    {failure(500, "InternalServerError", nil), true, false, "try again"},
		"always cut":           {reply{body: object{"Item": object{"PK": str("p")}}, cut: true}, true, false, "try again"},
		"a proxy's error":      {reply{status: 503}, true, false, "try again"},
		"a proxy's limit":      {reply{status: 429}, true, false, "try again"},
		"unknown code, 429":    {failure(429, "NoSuchCodeException", nil), true, false, "try again"},
		"a rare throttle":      {failure(400, "SlowDown", nil), true, false, "try again"},
		"requests throttled":   {failure(400, "RequestThrottledException", nil), true, false, "try again"},
		"too many requests":    {failure(400, "TooManyRequestsException", nil), true, false, "try again"},
		"request timed out":    {failure(400, "RequestTimeoutException", nil), true, false, "try again"},
		"key service limit":    {failure(400, "KMS.ThrottlingException", nil), true, false, "try again"},
		"internal, status 400": {failure(400, "InternalFailure", nil), true, false, "try again"},
		"no such table":        {failure(400, "ResourceNotFoundException", nil), true, false, "fanfare table create"},
		"no permission":        {failure(400, "AccessDeniedException", nil), true, false, "credentials"},
		"expired credentials":  {failure(400, "ExpiredTokenException", nil), true, false, "credentials"},
		"no key":               {failure(400, "KMSAccessDeniedException", nil), true, false, "key"},
		"clock too wrong":      {failure(403, "RequestTimeTooSkewed", nil), true, false, "credentials"},
		"another region":       {failure(400, "ReplicatedWriteConflictException", nil), true, false, "try again"},
		"bad request":          {failure(400, "ValidationException", nil), false, true, "from the test"},
		"unknown":              {failure(400, "NoSuchCodeException", nil), false, false, "NoSuchCodeException"},
		"foreign attribute":    {reply{body: object{"Item": object{"PK": str("p"), "x": object{"BOOL": true}}}}, false, false, `"x"`},
		"fraction":             {reply{body: object{"Item": object{"PK": str("p"), "x": object{"N": "1.5"}}}}, false, false, `"x"`},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, func(string, int, object) reply { return c.reply })
			_, err := openFake(t, f).Get(t.Context(), table.GetInput{Key: keyN(1)})
			_, unavailable := errors.AsType[*table.UnavailableError](err)
			_, invalid := errors.AsType[*table.InvalidError](err)
			if err == nil || unavailable != c.unavailable || invalid != c.invalid || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v (unavailable %t, invalid %t); want unavailable %t, invalid %t, and %q said",
					err, unavailable, invalid, c.unavailable, c.invalid, c.says)
			}
		})
	}
}

// The role may read, but not write. Ping succeeds, and Refused still returns the refusal.
func TestARefusalOfWritesShows(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(op string, _ int, _ object) reply {
		if op == "PutItem" {
			return failure(400, "AccessDeniedException", nil)
		}
		return reply{body: object{"Item": markOf("1")}}
	})
	store := openFake(t, f)
	require.NoError(t, store.Ping(t.Context()))
	require.NoError(t, store.Refused())
	_, err := store.Put(t.Context(), table.PutInput{Item: table.Item{Key: keyN(1)}})
	require.ErrorAs(t, err, new(*table.UnavailableError))
	assert.ErrorContains(t, store.Refused(), "AccessDeniedException")
	assert.NoError(t, store.Ping(t.Context()))
}

func TestATransactionThatIsRefusedIsUnavailable(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(string, int, object) reply {
		return failure(400, "TransactionCanceledException", object{"CancellationReasons": []object{{"Code": "AccessDenied", "Message": "from the test"}}})
	})
	_, err := openFake(t, f).Transact(t.Context(), table.TransactInput{Ops: []table.TransactOp{{Put: &table.PutInput{Item: table.Item{Key: keyN(1)}}}}})
	assert.ErrorAs(t, err, new(*table.UnavailableError))
}

func TestAnEndpointThatIsDownIsUnavailable(t *testing.T) {
	t.Parallel()
	store := open(t, "http://127.0.0.1:1", "t") // no server listens on this port
	for _, w := range writes() {
		err := w.do(t.Context(), store)
		assert.ErrorAs(t, err, new(*table.UnavailableError), w.name)
	}
	assert.Error(t, store.Ping(t.Context()), "ping succeeded")
}

func TestADeadlineEndsASlowCall(t *testing.T) {
	t.Parallel()
	for _, w := range writes() {
		// Each call has its own endpoint, because a request of the previous call may arrive late.
		f := newFake(t, func(string, int, object) reply { return reply{hang: true} })
		store := openFake(t, f)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		err := w.do(ctx, store)
		cancel()
		_, ok := errors.AsType[*table.UnavailableError](err)
		assert.Truef(t, ok, "%s: error %v, want an UnavailableError by the deadline", w.name, err)
		assert.ErrorIs(t, err, context.DeadlineExceeded, w.name)
		n := len(f.seen(w.op))
		assert.LessOrEqualf(t, n, 1, "%s: %d calls", w.name, n)
	}
}

func TestAFailedConditionBringsTheOldItemAndItsCost(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(string, int, object) reply {
		return failure(400, "ConditionalCheckFailedException", object{
			"Item": object{"PK": str("p"), "SK": str("0001"), "text": str(strings.Repeat("x", 3000)), "n": num(-7)},
		})
	})
	_, err := openFake(t, f).Put(t.Context(), table.PutInput{Item: table.Item{Key: keyN(1)}, If: table.Absent{}})
	failed, ok := errors.AsType[*table.ConditionError](err)
	if !ok || failed.Key != keyN(1) || failed.Old == nil || failed.Old.Int("n") != -7 {
		t.Fatalf("error %v, want a ConditionError with the old item", err)
	}
	assert.Equal(t, table.Units{Write: 3}, failed.Units)
}

func TestACancelledTransactionSaysWhy(t *testing.T) {
	t.Parallel()
	reason := func(code string, item object) object {
		out := object{"Code": code}
		if item != nil {
			out["Item"] = item
		}
		return out
	}
	ops := make([]table.TransactOp, 4)
	for i := range ops {
		ops[i].Put = &table.PutInput{Item: table.Item{Key: keyN(i)}, If: table.Absent{}}
	}
	answer := func(reasons ...object) *dynamo.Store {
		return openFake(t, newFake(t, func(string, int, object) reply {
			return failure(400, "TransactionCanceledException", object{"CancellationReasons": reasons})
		}))
	}
	t.Run("conditions, conflicts and throttling", func(t *testing.T) {
		old := object{"PK": str("p"), "SK": str("0001"), "n": num(1)}
		store := answer(reason("None", nil), reason("ConditionalCheckFailed", old),
			reason("TransactionConflict", nil), reason("ThrottlingError", nil))
		_, err := store.Transact(t.Context(), table.TransactInput{Ops: ops})
		cancelled, ok := errors.AsType[*table.CancelledError](err)
		require.Truef(t, ok, "error %v, want a CancelledError", err)
		want := []table.CancelReason{table.CancelNone, table.CancelCondition, table.CancelConflict, table.CancelThrottled}
		for i, r := range cancelled.Reasons {
			if r.Reason != want[i] || r.Key != keyN(i) || (r.Old != nil) != (i == 1) {
				t.Errorf("operation %d: %+v, want reason %d", i, r, want[i])
			}
		}
		if !cancelled.Failed(1) || cancelled.Retryable() || cancelled.Units != (table.Units{Write: 8}) {
			t.Errorf("failed %t, retryable %t, units %+v", cancelled.Failed(1), cancelled.Retryable(), cancelled.Units)
		}
	})
	t.Run("invalid", func(t *testing.T) {
		store := answer(reason("None", nil), reason("ValidationError", nil), reason("None", nil), reason("None", nil))
		_, err := store.Transact(t.Context(), table.TransactInput{Ops: ops})
		assert.ErrorAs(t, err, new(*table.InvalidError))
	})
	t.Run("unknown", func(t *testing.T) {
		store := answer(reason("None", nil), reason("Whatever", nil), reason("None", nil), reason("None", nil))
		_, err := store.Transact(t.Context(), table.TransactInput{Ops: ops})
		assert.ErrorContains(t, err, "Whatever")
	})
	t.Run("too few reasons", func(t *testing.T) {
		_, err := answer(reason("None", nil)).Transact(t.Context(), table.TransactInput{Ops: ops})
		if _, ok := errors.AsType[*table.CancelledError](err); err == nil || ok {
			t.Errorf("error %v, want one that is no CancelledError", err)
		}
	})
}

func TestATransactionKeepsItsTokenOverRetries(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(_ string, n int, _ object) reply {
		switch n {
		case 1:
			return failure(500, "InternalServerError", nil)
		case 2:
			return failure(400, "TransactionInProgressException", nil)
		case 3: // the first try took effect although its answer was lost, so this try is billed as a read
			return reply{body: object{"ConsumedCapacity": []object{{"CapacityUnits": 2.0, "ReadCapacityUnits": 2.0}}}}
		}
		return reply{body: object{"ConsumedCapacity": []object{{"CapacityUnits": 2.0}}}}
	})
	store := openFake(t, f)
	in := table.TransactInput{Ops: []table.TransactOp{{Put: &table.PutInput{Item: table.Item{Key: keyN(1)}}}}}
	for call, want := range []table.Units{{Read: 2}, {Write: 2}} {
		res, err := store.Transact(t.Context(), in)
		require.NoError(t, err)
		assert.Equalf(t, want, res.Units, "call %d", call)
	}
	var tokens []any
	for _, call := range f.seen("TransactWriteItems") {
		tokens = append(tokens, call["ClientRequestToken"])
	}
	if len(tokens) != 4 || tokens[0] == nil || tokens[0] != tokens[1] || tokens[1] != tokens[2] || tokens[2] == tokens[3] {
		t.Errorf("tokens %v: want one for three tries of one call, and another for the next call", tokens)
	}
}

// A connection may break in a way that the SDK does not recognise. The error must show that another try may
// succeed, because otherwise a consumer would make a dead letter of a valid message.
func TestABrokenConnectionIsUnavailable(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]error{
		"end of the stream": io.EOF,
		"cut reply":         io.ErrUnexpectedEOF,
		"reset":             &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET},
	} {
		for call, do := range map[string]func(*dynamo.Store) error{
			"get": func(s *dynamo.Store) error {
				_, err := s.Get(t.Context(), table.GetInput{Key: keyN(1)})
				return err
			},
			"batch write": func(s *dynamo.Store) error {
				_, err := s.BatchWrite(t.Context(), putsOf(1))
				return err
			},
			"query": func(s *dynamo.Store) error {
				for _, err := range s.Query(t.Context(), table.Query{PK: "p", PageSize: 1}) {
					return err
				}
				return nil
			},
		} {
			t.Run(name+"/"+call, func(t *testing.T) {
				err := do(dynamo.New(over(client(func(*http.Request) (*http.Response, error) { return nil, broken })), "t"))
				assert.ErrorAs(t, err, new(*table.UnavailableError))
			})
		}
	}
}

// client is an HTTP client that is a function.
type client func(*http.Request) (*http.Response, error)

func (c client) Do(req *http.Request) (*http.Response, error) { return c(req) }

// The requests of a batch run on separate goroutines, so BatchWrite has to recover their panics.
func TestAPanicInARequestOfABatchIsAnError(t *testing.T) {
	t.Parallel()
	store := dynamo.New(over(client(func(*http.Request) (*http.Response, error) { panic("boom") })), "t")
	_, err := store.BatchWrite(t.Context(), putsOf(60))
	assert.ErrorAs(t, err, new(*panics.Error))
}
