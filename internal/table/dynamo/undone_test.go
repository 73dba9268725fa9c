package dynamo_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/table"
	"fanfare/internal/table/dynamo"
)

// paths returns two lists of calls. The failure of a sure call can prove that the call had no
// effect: sure has reads, and writes that are retried only if the previous try had no effect.
// doubtful has a batch, and writes that may be repeated: the last try of such a write proves
// nothing about earlier tries.
func paths() (sure, doubtful []write) {
	for _, w := range writes() {
		if w.repeatable {
			doubtful = append(doubtful, w)
		} else {
			sure = append(sure, w)
		}
	}
	sure = append(sure, write{"get", func(ctx context.Context, s *dynamo.Store) error {
		_, err := s.Get(ctx, table.GetInput{Key: keyN(1)})
		return err
	}, true, "GetItem"}, write{"batch get", func(ctx context.Context, s *dynamo.Store) error {
		_, err := s.BatchGet(ctx, table.BatchGetInput{Keys: []table.Key{keyN(1)}})
		return err
	}, true, "BatchGetItem"})
	sure = append(sure, bulkCalls()[1])
	return sure, append(doubtful, bulkCalls()[0])
}

// answering returns a table that gives all calls the same answer, and receives each call once.
func answering(r reply) *dynamo.Store {
	return dynamo.New(over(client(func(*http.Request) (*http.Response, error) {
		body, err := json.Marshal(r.body)
		if r.body == nil {
			body = nil
		}
		if r.cut {
			body = body[:len(body)/2]
		}
		return &http.Response{StatusCode: cmp.Or(r.status, http.StatusOK), Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body))}, err
	})), "t", dynamo.WithBackoff(func(int) time.Duration { return 0 }))
}

func TestACallThatDidNothingIsUndone(t *testing.T) {
	t.Parallel()
	internal, cut, throttle := failure(500, "InternalServerError", nil), reply{body: object{"Item": nil}, cut: true}, failure(400, "ThrottlingException", nil)
	limit := failure(400, "LimitExceededException", nil)
	for name, c := range map[string]struct {
		first, then reply // then is the reply to all later tries
		undone      bool
	}{
		"provisioned throughput":              {noCapacity, noCapacity, true},
		"throttling":                          {throttle, throttle, true},
		"request limit":                       {failure(400, "RequestLimitExceeded", nil), failure(400, "RequestLimitExceeded", nil), true},
		"one, then another":                   {throttle, noCapacity, true},
		"another transaction, then throttled": {failure(400, "TransactionConflictException", nil), throttle, true},
		"a limit of resources":                {limit, limit, false},
		"a rare throttle":                     {failure(400, "SlowDown", nil), failure(400, "SlowDown", nil), false},
		"internal error":                      {internal, internal, false},
		"a throttle that is a server's error": {failure(500, "ThrottlingException", nil), failure(500, "ThrottlingException", nil), false},
		"a throttle that is a proxy's":        {failure(503, "ProvisionedThroughputExceededException", nil), failure(503, "ProvisionedThroughputExceededException", nil), false},
		"a throttle with another status":      {failure(429, "ThrottlingException", nil), failure(429, "ThrottlingException", nil), false},
		"bad gateway":                         {reply{status: 502}, reply{status: 502}, false},
		"no permission":                       {failure(400, "AccessDeniedException", nil), failure(400, "AccessDeniedException", nil), false},
		"cut reply":                           {cut, cut, false},
		"cut throttle":                        {reply{status: 400, body: throttle.body, cut: true}, reply{status: 400, body: throttle.body, cut: true}, false},
		"throttled, then an internal error":   {throttle, internal, false},
		"throttled, then a cut reply":         {throttle, cut, false},
		"throttled, then a limit":             {throttle, limit, false},
	} {
		sure, doubtful := paths()
		for i, calls := range [][]write{sure, doubtful} {
			for _, call := range calls {
				t.Run(name+"/"+call.name, func(t *testing.T) {
					store := answering(c.then)
					if fmt.Sprint(c.first) != fmt.Sprint(c.then) {
						store = openFake(t, newFake(t, func(_ string, n int, _ object) reply {
							if n == 1 {
								return c.first
							}
							return c.then
						}))
					}
					away := awayOf(t, call.do(t.Context(), store))
					assert.Equal(t, c.undone && i == 0, away.Undone, "%v", away)
				})
			}
		}
	}
}

func awayOf(t *testing.T, err error) *table.UnavailableError {
	t.Helper()
	away, ok := errors.AsType[*table.UnavailableError](err)
	require.True(t, ok, "%v", err)
	return away
}

// The first try of a repeatable write may have taken effect, whatever reply a later try gets.
func TestALostAnswerBeforeRefusalsIsNotUndone(t *testing.T) {
	t.Parallel()
	_, doubtful := paths()
	for _, call := range doubtful {
		f := newFake(t, func(_ string, n int, _ object) reply {
			if n == 1 {
				return failure(500, "InternalServerError", nil)
			}
			return noCapacity
		})
		assert.False(t, awayOf(t, call.do(t.Context(), openFake(t, f))).Undone, call.name)
	}
}

func TestACallWithoutAConnectionIsUndone(t *testing.T) {
	t.Parallel()
	sure, doubtful := paths()
	store := open(t, "http://127.0.0.1:1", "t") // no server listens on this port
	for _, call := range sure {
		away := awayOf(t, call.do(t.Context(), store))
		assert.True(t, away.Undone, call.name)
		assert.False(t, away.Throttled(), call.name)
	}
	for _, call := range doubtful {
		assert.False(t, awayOf(t, call.do(t.Context(), store)).Undone, call.name)
	}
}

func TestACallThatTimesOutIsNotUndone(t *testing.T) {
	t.Parallel()
	sure, doubtful := paths()
	for _, call := range append(sure, doubtful...) {
		f := newFake(t, func(string, int, object) reply { return reply{hang: true} })
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		assert.False(t, awayOf(t, call.do(ctx, openFake(t, f))).Undone, call.name)
		cancel()
	}
}
