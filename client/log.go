package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Event is an event of applied work. Package messages decodes Event.Event.
type Event struct {
	Position string          `json:"position" doc:"The place of the event in the order of all events. Positions are compared by their bytes."`
	Event    json.RawMessage `json:"event" doc:"The event, as docs/asyncapi.json has it. Ignore an unknown type, and unknown members." example:"{\"type\":\"Followed\",\"version\":1,\"event_id\":\"01JZ0000000000000000000000\",\"time\":\"2026-12-01T09:00:00Z\",\"follower_id\":\"bob\",\"author_id\":\"alice\"}"`
}

// EventPage is a part of the events in their order. Next is the position to continue after, also if there are no events.
type EventPage struct {
	Events []Event `json:"events" nullable:"false"`
	Next   string  `json:"next" doc:"Send it as after to read on, also if events is empty."`
}

// Events reads at most limit events (1..1000; 0 is the service's default) behind the position after, the oldest event first. ""
// is the position before the oldest kept event. If there is no event, the call waits for one, at most for wait, in whole seconds up to
// 20. The token must be a service's token, and ActAs has no effect. The call fails with ErrEventsGone if events behind after
// were removed: the Detail of the Problem has the position to continue at.
func (c *Client) Events(ctx context.Context, after string, limit int, wait time.Duration) (EventPage, error) {
	query := url.Values{}
	if after != "" {
		query.Set("after", after)
	}
	if limit != 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	if seconds := int(wait / time.Second); seconds != 0 {
		query.Set("wait_s", strconv.Itoa(seconds))
	}
	var read EventPage
	err := c.do(ctx, call{method: http.MethodGet, path: path("v1", "events"), query: query}, &read)
	return read, err
}

// ErrEventsGone matches the Problem of a read of events that were removed before the read, by errors.Is.
var ErrEventsGone = errors.New("events gone")
