package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"go.uber.org/zap"

	"fanfare/client"
	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/home"
	"fanfare/internal/feed/notices"
	"fanfare/internal/live"
	"fanfare/internal/panics"
)

// Streams are the settings of live homes.
type Streams struct {
	// Process bounds the open streams; 0 is 4,096.
	Process int
	// User bounds the open streams of one user; 0 is 8.
	User int
	// SlowLook is the time between two looks at a home without hints, and Likes is the time between two
	// looks at the like counts of a home. 0 means the default of package live.
	SlowLook, Likes time.Duration
	// Alone means that no other process writes the table. Otherwise the process reads the posts of
	// other processes, and bounds the units of its streams.
	Alone bool
	// Wakes, if not nil, wakes streams when this process writes into their homes.
	Wakes *live.Wakes
}

// maxStreams is the default of Streams.Process.
const maxStreams = 4096

// stopTime is the time in which a client can take the end of its stream when the process stops.
const stopTime = time.Second

// newStreams returns the hub of the streams. The limits on bytes and capacity units hold for streams as
// for answers (I11).
func (a *API) newStreams(cfg Streams) *live.Hub {
	of := live.Config{
		Homes: a.homes, SlowLook: cfg.SlowLook, LikesEach: cfg.Likes, Streams: cfg.Process, UserStreams: cmp.Or(cfg.User, 8),
		Frames: live.Frames{
			Entry: func(item feed.HomeItem) ([]byte, error) {
				return event("entry", item.Post.ID, toHomeItem(item))
			},
			Likes: func(likes home.PostLikes) ([]byte, error) {
				return event("likes", "", client.LikesUpdate{PostID: likes.PostID, Count: likes.Count, Reactions: likes.Reactions})
			},
			Edited:  func(item feed.HomeItem) ([]byte, error) { return event("edited", "", toHomeItem(item)) },
			Deleted: func(post string) ([]byte, error) { return event("deleted", "", client.DeletedUpdate{PostID: post}) },
			Changed: func(post string) ([]byte, error) { return event("changed", "", client.ChangedUpdate{PostID: post}) },
			Stale:   []byte("event: stale\ndata: {}\n\n"),
			Unread:  func(n int) ([]byte, error) { return event("notifications", "", Unread{n}) },
			// A block without data is not an event: it sets the client's Last-Event-ID.
			Position:  func(position string) []byte { return []byte("id: " + position + "\n\n") },
			Heartbeat: []byte(": heartbeat\n\n"),
		},
		Hold: func(user string, size int, cut func()) func() {
			held := a.work.hold(user, size, true, cut)
			if held == nil {
				return nil
			}
			return func() { a.work.release(held) }
		},
		Charge:        func(user string, units float64) time.Duration { return a.limiter.carry(user, units, a.now()) },
		ChargeService: func(service string, units float64) time.Duration { return a.services.carry(service, units, a.now()) },
		Counters:      a.counters, Now: a.now, Log: a.log,
	}
	if a.notices.On() {
		of.Unread = func(ctx context.Context, user string) (live.Unread, error) {
			n, mark, err := a.notices.UnreadAbove(ctx, user, notices.DefaultUnread)
			return live.Unread{Number: n, Mark: mark}, err
		}
	}
	if !cfg.Alone {
		of.Posts, of.Units = a.homes, live.DefaultUnits
	}
	hub := live.New(of)
	if cfg.Wakes != nil {
		cfg.Wakes.Wake(hub)
	}
	return hub
}

// Run ends the streams and the exports when ctx ends.
func (a *API) Run(ctx context.Context) error {
	defer a.exports.stop() // otherwise a new export could begin after Run has returned
	context.AfterFunc(ctx, a.exports.stop)
	return a.streams.Run(ctx)
}

// event encodes a server-sent event.
func event(name, id string, data any) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("event: " + name + "\n")
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	b.WriteString("data: ")
	if err := huma.DefaultJSONFormat.Marshal(&b, data); err != nil { // the JSON has one newline, at its end
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// eventSchema describes one kind of event, whose data is JSON.
func eventSchema(kind string, data *huma.Schema) *huma.Schema {
	return &huma.Schema{
		Type: huma.TypeObject, Required: []string{"event", "data"},
		Properties: map[string]*huma.Schema{
			"event": {Type: huma.TypeString, Enum: []any{kind}},
			"id":    {Type: huma.TypeString},
			"data": {Type: huma.TypeString, Extensions: map[string]any{
				"contentMediaType": "application/json", "contentSchema": data,
			}},
		},
	}
}

func (a *API) registerStream() {
	type streamIn struct {
		LastEventID string `header:"Last-Event-ID" doc:"The last id that the client received on a stream of this home: the newer posts come first, oldest first. A post id, or the id of lines without data. Without it the stream begins with what comes."` //nolint:tagliatelle // its name in the HTML standard
	}
	op := operation(route{http.MethodGet, "/v1/home/stream", "stream-home", "Home", "Receive the posts of your home as they come"}, http.StatusOK, http.StatusConflict)
	schemas := a.huma.OpenAPI().Components.Schemas
	entry, likes := huma.SchemaFromType(schemas, reflect.TypeFor[client.HomeItem]()), huma.SchemaFromType(schemas, reflect.TypeFor[client.LikesUpdate]())
	unread, deleted := huma.SchemaFromType(schemas, reflect.TypeFor[Unread]()), huma.SchemaFromType(schemas, reflect.TypeFor[client.DeletedUpdate]())
	changed := huma.SchemaFromType(schemas, reflect.TypeFor[client.ChangedUpdate]())
	nothing := &huma.Schema{Type: huma.TypeObject}
	op.Responses = map[string]*huma.Response{"200": {
		Description: "Server-sent events until the client or the server ends them, with a comment every 15 seconds. " +
			"`entry` is a post that came into the home; its id is the post's. It may be older than the one before: deliveries take their time. It comes mostly within two seconds of the post, and a minute after the post came into the home at the latest, unless the server is set otherwise. " +
			"`likes` has the new counts of one of the newest 20 posts. " +
			"`notifications` is the number of your unread notifications, as GET /v1/me/notifications/unread counts them: one comes at the start, and one within a minute after the number has changed. None comes where notifications are switched off. " +
			"`deleted` has the id of a post that its author or a service deleted; it may come twice. " +
			"`edited` has the post as `entry` has it, after an edit: replace the post if you show it. " +
			"`changed` has the id of an edited post that your home does not have, but to which other posts refer: read the post again if you show it as the original of a repost, or quoted. " +
			"`stale` means that your page may lack changes: read it again, as after each opening of the stream. These four have no id. " +
			"Lines with an id and without data give the place of the stream after all events before them. " +
			"A client that sends this id as Last-Event-ID gets each later event, and none twice; one that sends the id of a post gets newer posts only. Clients that follow the standard send the last id by themselves.",
		Content: map[string]*huma.MediaType{"text/event-stream": {
			Schema: &huma.Schema{Description: "One event.", OneOf: []*huma.Schema{
				eventSchema("entry", entry), eventSchema("edited", entry), eventSchema("deleted", deleted), eventSchema("changed", changed), eventSchema("stale", nothing),
				eventSchema("likes", likes), eventSchema("notifications", unread),
			}},
			Example: map[string]string{"event": "likes", "data": `{"post_id":"01JZ0000000000000000000000","count":3}`},
		}},
	}}
	register(a, op, func(ctx context.Context, in *streamIn) (*huma.StreamResponse, error) {
		who := callerOf(ctx)
		if !a.work.openStream(who) {
			return nil, newProblem(http.StatusTooManyRequests, typeRateLimited, "Too many requests",
				"your service has too many open streams: close one, or share one").retryAfter(live.Heartbeat)
		}
		st, err := a.streams.Open(ctx, live.Caller{User: who.user, Service: who.service}, in.LastEventID)
		if err != nil {
			a.work.closeStream(who)
		}
		owes, owing := errors.AsType[*live.OwesError](err)
		waits, waiting := errors.AsType[*live.BusyError](err)
		switch {
		case owing:
			return nil, newProblem(http.StatusTooManyRequests, typeRateLimited, "Too many requests",
				"your streams have read more than your share: open this one later").retryAfter(owes.For)
		case errors.Is(err, live.ErrUserFull):
			return nil, newProblem(http.StatusTooManyRequests, typeRateLimited, "Too many requests",
				"you have too many open streams: close one, or share one").retryAfter(live.Heartbeat)
		case waiting:
			return nil, busy().retryAfter(waits.For)
		case errors.Is(err, live.ErrFull), errors.Is(err, live.ErrStopping):
			return nil, busy()
		case errors.Is(err, live.ErrNoProfile):
			return nil, fault.NoProfile(who.user)
		case err != nil:
			return nil, err
		}
		return &huma.StreamResponse{Body: func(ctx huma.Context) {
			_, w := humago.Unwrap(ctx)
			w.(*answer).stream = func(w http.ResponseWriter, r *http.Request) { a.serve(w, r, who, st) } //nolint:forcetypeassert // admit gives each operation one
		}}, nil
	})
}

// serve sends a stream until its end. A stream holds no slot of a request. The client has as long to take
// the bytes of one event as to take an answer of the same size.
func (a *API) serve(w http.ResponseWriter, r *http.Request, who caller, st *live.Stream) {
	defer a.work.closeStream(who)
	defer st.Close()
	if rec, ok := w.(*recorder); ok {
		rec.answered = a.now()
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // turns off the buffering of a proxy
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	conn := http.NewResponseController(w)
	// Otherwise the server would treat the read deadline of the request as the end of the client.
	_ = conn.SetReadDeadline(time.Time{}) // only a test has a connection without deadlines
	ctx, cancel := context.WithCancelCause(r.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel(nil)
	watching.Go(func() { cancel(panics.Catch(func() error { return a.untilRefused(ctx, r, who) })) })
	ended := func() {
		left := time.Now().Add(stopTime)
		if errors.Is(context.Cause(st.Ended()), live.ErrSlow) {
			left = time.Unix(1, 0) // the client must not mistake half an event for a whole one
		}
		_ = conn.SetWriteDeadline(left) // only a test has a connection without deadlines
	}
	defer context.AfterFunc(st.Ended(), ended)()
	defer context.AfterFunc(ctx, ended)()
	err := st.Serve(ctx, func(frames []byte) error {
		limitTime(w, len(frames))
		if st.Ended().Err() != nil || ctx.Err() != nil {
			ended()
		}
		if _, err := w.Write(frames); err != nil {
			return err
		}
		return conn.Flush()
	})
	ended() // limits the time for the end of the answer
	a.log.Debug("stream ended", zap.String("user_id", who.user), zap.Error(err))
}
