package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
	"fanfare/internal/auth"
	eventlog "fanfare/internal/events"
	"fanfare/internal/httpapi"
	"fanfare/internal/queue"
)

// oneEvent is a log that gets its one event after a time.
type oneEvent struct {
	at   time.Time
	grew chan struct{}
	err  error
}

func newEvent(after time.Duration) *oneEvent {
	l := &oneEvent{at: time.Now().Add(after), grew: make(chan struct{})}
	time.AfterFunc(after, func() { close(l.grew) })
	return l
}

func (l *oneEvent) LogGrew() <-chan struct{} { return l.grew }

func (l *oneEvent) ReadLog(after string, yield func(string, []byte) bool) (string, error) {
	if l.err != nil || time.Now().Before(l.at) || !yield("7", []byte(`{"type":"Followed"}`)) {
		return after, l.err
	}
	return "7", nil
}

func withEvents(log eventlog.Log) func(*httpapi.Config) {
	return func(c *httpapi.Config) { c.Events = eventlog.NewReader(log, "set it") }
}

// A service needs only the scope to act, because it can read the notifications of any user, too.
func TestOnlyAServiceReadsEvents(t *testing.T) {
	w := newWorld(t, withEvents(newEvent(0)))
	res := w.act(t, "push", "GET", "/v1/events", "")
	require.Equal(t, 200, res.Code, res.Body)
	var read client.EventPage
	require.NoError(t, json.Unmarshal(res.Body.Bytes(), &read))
	assert.Equal(t, client.EventPage{Events: []client.Event{{Position: "7", Event: json.RawMessage(`{"type":"Followed"}`)}}, Next: "7"}, read)
	token, _, err := w.dev.Issue("push", time.Hour, auth.DeleteScope)
	require.NoError(t, err)
	for _, token := range []string{token, w.token(t, "ann")} {
		res := w.with(t, token, "GET", "/v1/events", "")
		assert.Contains(t, problem(t, res, 403, "forbidden").Detail, auth.ActScope)
	}
}

// deadlines keeps the read deadline of a connection.
type deadlines struct {
	*httptest.ResponseRecorder
	read *time.Time
}

func (d deadlines) SetReadDeadline(at time.Time) error {
	*d.read = at
	return nil
}

// A read may wait for longer than other calls, and than the server waits for a whole request.
func TestAReadOfEventsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, withEvents(newEvent(19*time.Second)))
		token, _, err := w.dev.Issue("push", time.Hour, auth.ActScope)
		require.NoError(t, err)
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/events?wait_s=20&after=6", http.NoBody)
		req.Header.Set("Authorization", "Bearer "+token)
		deadline := time.Now()
		res, began := deadlines{httptest.NewRecorder(), &deadline}, time.Now()
		w.api.ServeHTTP(res, req)
		assert.Equal(t, 200, res.Code, res.Body)
		assert.Contains(t, res.Body.String(), `"next":"7"`)
		assert.Equal(t, 19*time.Second, time.Since(began))
		assert.Greater(t, deadline.Sub(began), 20*time.Second, "the server would take the end of the wait for the end of the client")

		w = newWorld(t, withEvents(newEvent(time.Hour)))
		began = time.Now()
		answer := w.act(t, "push", "GET", "/v1/events?wait_s=20&after=6", "")
		assert.JSONEq(t, `{"events":[],"next":"6"}`, answer.Body.String())
		assert.Equal(t, 20*time.Second, time.Since(began))
		<-time.After(time.Hour) // the event of the log
	})
}

func TestTheProblemsOfEvents(t *testing.T) {
	gone := &oneEvent{grew: make(chan struct{}), err: &queue.GoneError{Resume: "42", Before: time.Unix(1e9, 0)}}
	detail := problem(t, newWorld(t, withEvents(gone)).act(t, "push", "GET", "/v1/events?after=6", ""), 410, "events-gone").Detail
	assert.Contains(t, detail, "42")
	assert.Contains(t, detail, "2001-09-09T01:46:40Z")
	wrong := &oneEvent{grew: make(chan struct{}), err: &queue.PositionError{Detail: "is wrong"}}
	p := problem(t, newWorld(t, withEvents(wrong)).act(t, "push", "GET", "/v1/events?after=6", ""), 422, "invalid")
	assert.Equal(t, []httpapi.FieldError{{Field: "after", Detail: "is wrong"}}, p.Errors)
	off := newWorld(t, func(c *httpapi.Config) { c.Events = eventlog.NewReader(nil, "set it") })
	assert.Equal(t, "set it", problem(t, off.act(t, "push", "GET", "/v1/events", ""), 404, "events-off").Detail)
	problem(t, newWorld(t).act(t, "push", "GET", "/v1/events", ""), 404, "events-off")
	stopped := eventlog.NewReader(newEvent(time.Hour), "")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.NoError(t, stopped.Run(ctx))
	res := newWorld(t, func(c *httpapi.Config) { c.Events = stopped }).act(t, "push", "GET", "/v1/events?wait_s=20", "")
	assert.Equal(t, 200, res.Code)
}
