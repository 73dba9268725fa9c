package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/table"
	"fanfare/internal/table/dynamo"
)

// bulkCalls returns the kinds of calls that a fan-out makes.
func bulkCalls() []write {
	return []write{
		{"batch write", func(ctx context.Context, s *dynamo.Store) error {
			_, err := s.BatchWrite(ctx, putsOf(60))
			return err
		}, true, "BatchWriteItem"},
		{"query", func(ctx context.Context, s *dynamo.Store) error {
			_, _, err := table.Collect(s.Query(ctx, table.Query{PK: "p"}), 0)
			return err
		}, true, "Query"},
	}
}

func TestBulkCallsGetOverPassingFaults(t *testing.T) {
	t.Parallel()
	for fault, bad := range map[string]reply{
		"cut reply":           {body: object{"ConsumedCapacity": nil}, cut: true},
		"internal error":      failure(500, "InternalServerError", nil),
		"bad gateway":         {status: 502},
		"throttled":           failure(400, "ProvisionedThroughputExceededException", nil),
		"throttled otherwise": failure(400, "ThrottlingException", nil),
	} {
		for _, call := range bulkCalls() {
			t.Run(fault+"/"+call.name, func(t *testing.T) {
				// Batches are sent at the same time, so the test counts the tries of each request separately.
				var mu sync.Mutex
				times := make(map[string]int)
				f := newFake(t, func(_ string, _ int, in object) reply {
					request := fmt.Sprint(in) // fmt sorts the keys of maps
					mu.Lock()
					defer mu.Unlock()
					times[request]++
					if times[request] < 3 { // a retry has the same request
						return bad
					}
					return reply{}
				})
				if err := call.do(t.Context(), openFake(t, f)); err != nil {
					t.Errorf("after %d calls: %v", len(f.seen(call.op)), err)
				}
			})
		}
	}
}

func TestFailuresOfBulkCallsAreSorted(t *testing.T) {
	t.Parallel()
	item := func(v object) reply {
		return reply{body: object{"Count": 1, "Items": []object{{"PK": str("p"), "x": v}}}}
	}
	for name, c := range map[string]struct {
		reply       reply
		unavailable bool
		invalid     bool
		says        string
		queryOnly   bool
	}{
		"throttled for good":  {failure(400, "ThrottlingException", nil), true, false, "try again", false},
		"internal for good":   {failure(500, "InternalServerError", nil), true, false, "try again", false},
		"always cut":          {reply{body: object{"Items": []object{}}, cut: true}, true, false, "try again", false},
		"a proxy's error":     {reply{status: 503}, true, false, "try again", false},
		"no such table":       {failure(400, "ResourceNotFoundException", nil), true, false, "fanfare table create", false},
		"expired credentials": {failure(400, "ExpiredTokenException", nil), true, false, "credentials", false},
		"bad request":         {failure(400, "ValidationException", nil), false, true, "from the test", false},
		"unknown":             {failure(400, "NoSuchCodeException", nil), false, false, "NoSuchCodeException", false},
		"foreign attribute":   {item(object{"BOOL": true}), false, false, `"x"`, true},
		"fraction":            {item(object{"N": "1.5"}), false, false, `"x" of an item: not an integer of 64 bits`, true},
		"beyond 64 bits":      {item(object{"N": "9223372036854775808"}), false, false, `"x" of an item: not an integer of 64 bits`, true},
	} {
		for _, call := range bulkCalls() {
			if c.queryOnly && call.op != "Query" {
				continue
			}
			t.Run(name+"/"+call.name, func(t *testing.T) {
				f := newFake(t, func(string, int, object) reply { return c.reply })
				err := call.do(t.Context(), openFake(t, f))
				_, unavailable := errors.AsType[*table.UnavailableError](err)
				_, invalid := errors.AsType[*table.InvalidError](err)
				if err == nil || unavailable != c.unavailable || invalid != c.invalid || !strings.Contains(err.Error(), c.says) {
					t.Errorf("error %v (unavailable %t, invalid %t); want unavailable %t, invalid %t, and %q said",
						err, unavailable, invalid, c.unavailable, c.invalid, c.says)
				}
			})
		}
	}
}

func TestADeadlineEndsABulkCall(t *testing.T) {
	t.Parallel()
	for _, call := range bulkCalls() {
		f := newFake(t, func(string, int, object) reply { return reply{hang: true} })
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		err := call.do(ctx, openFake(t, f))
		cancel()
		if _, ok := errors.AsType[*table.UnavailableError](err); !ok || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: error %v, want an UnavailableError by the deadline", call.name, err)
		}
	}
}

// If a batch makes no progress, BatchWrite fails, so that its caller can send less at once. If
// a batch makes some progress, BatchWrite continues.
func TestABatchWithoutProgressGivesUp(t *testing.T) {
	t.Parallel()
	left := func(in object) reply { return reply{body: object{"UnprocessedItems": in["RequestItems"]}} }
	for name, answer := range map[string]func(in object) reply{
		"all unprocessed": left,
		"all refused":     func(object) reply { return failure(400, "ProvisionedThroughputExceededException", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, func(_ string, _ int, in object) reply { return answer(in) })
			var attempts []int
			store := open(t, f.URL, "t", dynamo.WithBackoff(func(attempt int) time.Duration {
				attempts = append(attempts, attempt)
				return 0
			}))
			_, err := store.BatchWrite(t.Context(), putsOf(3))
			if _, ok := errors.AsType[*table.UnavailableError](err); !ok || !strings.Contains(err.Error(), "3 parts of a batch are left") {
				t.Errorf("error %v, want an UnavailableError that says how much is left", err)
			}
			assert.Equalf(t, "[1 2 3 4 5]", fmt.Sprint(attempts), "backoff was asked for attempts %v", attempts)
		})
	}
	t.Run("slow progress", func(t *testing.T) {
		f := newFake(t, func(_ string, n int, in object) reply {
			writes := in["RequestItems"].(object)["t"].([]any)
			done := 0
			if n%5 == 0 {
				done = 1
			}
			return reply{body: object{"UnprocessedItems": object{"t": writes[done:]}}}
		})
		_, err := openFake(t, f).BatchWrite(t.Context(), putsOf(10))
		assert.NoError(t, err)
		assert.Len(t, f.seen("BatchWriteItem"), 50)
	})
}

// Exactly the unprocessed writes are sent again, unchanged.
func TestUnprocessedWritesAreSentAgainAsTheyWere(t *testing.T) {
	t.Parallel()
	writes := putsOf(3)
	writes[1].Put.Attrs = []table.Attr{{Name: "a", Value: table.S("\"é\n")}, {Name: "n", Value: table.N(-5)}}
	writes[2] = table.BatchWrite{Delete: keyN(2)}
	f := newFake(t, func(_ string, n int, in object) reply {
		if all := in["RequestItems"].(object)["t"].([]any); n == 1 {
			return reply{body: object{"UnprocessedItems": object{"t": all[1:]}}}
		}
		return reply{}
	})
	res, err := open(t, f.URL, "t").BatchWrite(t.Context(), writes)
	if err != nil || !res.Throttled() {
		t.Fatalf("error %v, throttled %t; want no error, and that capacity was short", err, res.Throttled())
	}
	calls := f.seen("BatchWriteItem")
	first, second := calls[0]["RequestItems"].(object)["t"].([]any), calls[1]["RequestItems"].(object)["t"].([]any)
	if len(calls) != 2 || fmt.Sprint(first[1:]) != fmt.Sprint(second) {
		t.Errorf("%d requests, then %v; want %v", len(calls), second, first[1:])
	}
}

// If DynamoDB reports a write as unprocessed that was never sent, the call fails, because one of the sent
// writes would otherwise be lost.
func TestAWriteThatWasNotSentCannotBeLeft(t *testing.T) {
	t.Parallel()
	for name, left := range map[string]object{
		"another put":    {"PutRequest": object{"Item": object{"PK": str("p"), "SK": str("other")}}},
		"another delete": {"DeleteRequest": object{"Key": object{"PK": str("p"), "SK": str("other")}}},
		"neither":        {},
	} {
		f := newFake(t, func(string, int, object) reply {
			return reply{body: object{"UnprocessedItems": object{"t": []object{left}}}}
		})
		_, err := openFake(t, f).BatchWrite(t.Context(), putsOf(3))
		assert.ErrorContains(t, err, "left unprocessed, but not sent", name)
	}
}

// Throttled reports only a lack of capacity. A cut connection is a different fault.
func TestThrottlingOfABatchIsReported(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first reply
		want  bool
	}{
		"nothing": {reply{}, false}, "a cut reply": {reply{body: object{"a": 1}, cut: true}, false},
		"an internal error": {failure(500, "InternalServerError", nil), false},
		"throttled once":    {failure(400, "ProvisionedThroughputExceededException", nil), true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, func(_ string, n int, _ object) reply {
				if n == 1 {
					return c.first
				}
				return reply{}
			})
			res, err := openFake(t, f).BatchWrite(t.Context(), putsOf(3))
			if err != nil || res.Throttled() != c.want {
				t.Errorf("error %v, throttled %t; want %t", err, res.Throttled(), c.want)
			}
		})
	}
}

func TestItemsBesidesACountAreNoEnds(t *testing.T) {
	t.Parallel()
	items := []object{{"PK": str("p"), "SK": str("a")}, {"PK": str("p"), "SK": str("b")}}
	f := newFake(t, func(_ string, n int, _ object) reply {
		if n == 1 {
			return reply{body: object{"Count": 2, "Items": items, "LastEvaluatedKey": items[1]}}
		}
		return reply{body: object{"Count": 2, "Items": items}}
	})
	ends, _, err := table.Collect(openFake(t, f).Query(t.Context(), table.Query{PK: "p", EndsOnly: true}), 0)
	if err != nil || len(ends) != 1 || ends[0].Key.SK != "b" {
		t.Errorf("ends %v, %v", ends, err)
	}
}
