package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"fanfare/client"
)

// waits marks an operation that may wait for longer than callTimeout. Its value is the additional time.
const waits = "waits"

// longestWait is the longest wait for events, in seconds. Clients and proxies wait for an answer for 30 seconds at least.
const longestWait = 20

func (a *API) registerEvents() {
	type eventsIn struct {
		After string `query:"after" maxLength:"64" doc:"The next of the previous answer. Without it the oldest kept event comes first." example:"18c0a7f2b3d4e5f60000000000000012"`
		Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The most events to return. An answer has fewer where one more would exceed 256 KiB of JSON."`
		WaitS waitS  `query:"wait_s" doc:"The seconds to wait for an event if there is none. Without it an answer without events comes at once."`
	}
	type eventsOut struct{ Body client.EventPage }
	op := operation(route{http.MethodGet, "/v1/events", "list-events", "Events", "Read the events of applied work, as a service"}, http.StatusOK, http.StatusNotFound, http.StatusGone)
	op.Description = "Only for a token of a service: the header Fanfare-User has no effect. docs/PRODUCERS.md, Events for others, describes the events: PostDelivered, LikeCounted, Notified, PostTakenDown, Followed. " +
		"They have one order for all readers. Keep next once the events are done, and send it as after: each event comes at least once. An event may be repeated with the same type and event_id at another position. " +
		"If events behind after were removed unread, because they were older than FANFARE_EVENTS_KEPT, it is 410 of type events-gone, whose detail has the position to continue at. " +
		"Where no events are kept, and on DynamoDB, it is 404 of type events-off, whose detail has the setting."
	op.Metadata = map[string]any{actsAlone: "", waits: longestWait * time.Second}
	op.Middlewares = huma.Middlewares{patient}
	register(a, op, func(ctx context.Context, in *eventsIn) (*eventsOut, error) {
		read, err := a.events.Page(ctx, in.After, in.Limit, time.Duration(in.WaitS)*time.Second)
		if err != nil {
			return nil, err
		}
		out := client.EventPage{Events: make([]client.Event, len(read.Events)), Next: read.Next}
		for i, e := range read.Events {
			out.Events[i] = client.Event{Position: e.Position, Event: e.Payload}
		}
		return &eventsOut{out}, nil
	})
}

// waitS is a number of seconds up to longestWait. A struct tag could not use the constant.
type waitS int

// Schema implements huma.SchemaProvider.
func (waitS) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeInteger, Format: "int64", Minimum: new(0.0), Maximum: new(float64(longestWait))}
}

// patient lets a request wait. Otherwise the server would treat the read deadline of a body as the end of the client.
func patient(ctx huma.Context, next func(huma.Context)) {
	_, w := humago.Unwrap(ctx)
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(longestWait*time.Second + callTimeout + bodyTimeout)) // only a test has a connection without deadlines
	next(ctx)
}
