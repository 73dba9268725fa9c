package httpapi

import (
	"bytes"
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"fanfare/internal/feed/access"
)

const (
	// bodyTimeout is the maximum time until the whole body of a request has arrived.
	bodyTimeout = 5 * time.Second
	// answerTimeout and answerRate limit the time in which a client must take an answer: answerTimeout,
	// plus one second for each answerRate bytes of the answer.
	answerTimeout = 5 * time.Second
	answerRate    = 128 << 10
)

// Limits bound the work in progress in an API (I9). A user's limits are below the limits of the process,
// so that no user can use up the process alone.
type Limits struct {
	// Requests bounds the requests that the process handles at once; 0 is 1,024.
	Requests int
	// UserRequests bounds the requests of one user in progress, including requests whose body is still
	// arriving; 0 is 32.
	UserRequests int
	// Unread bounds the bytes of answers that clients have not taken; 0 is 64 MiB. At this bound, the
	// users with the most unread bytes lose answers first.
	Unread int
	// UserUnread bounds the same bytes for one user; 0 is 4 MiB.
	UserUnread int
	// ServiceRequests and ServiceUnread are the limits of a service that acts for users; 0 is 256 and 16
	// MiB, a quarter of the limits of the process. An answer to a service counts for the service, and not
	// for the user.
	ServiceRequests, ServiceUnread int
	// ServiceStreams bounds the open streams of a service; 0 is a quarter of the streams
	// of the process.
	ServiceStreams int
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Requests: cmp.Or(l.Requests, 1024), UserRequests: cmp.Or(l.UserRequests, 32),
		Unread: cmp.Or(l.Unread, 64<<20), UserUnread: cmp.Or(l.UserUnread, 4<<20),
		ServiceRequests: cmp.Or(l.ServiceRequests, 256), ServiceUnread: cmp.Or(l.ServiceUnread, 16<<20), ServiceStreams: l.ServiceStreams,
	}
}

// admission counts the work in progress of each caller, by the caller's keys. The map users has only keys
// with work.
type admission struct {
	limits Limits

	mu       sync.Mutex
	requests int
	unread   int
	users    map[string]*load
	// now counts the requests of the current window, and before counts the requests of the previous
	// window.
	now, before tally
}

// overloadWindow is the length of a window. overloaded counts the requests of the current window and of
// the previous window.
const overloadWindow = 5 * time.Second

// tally counts the accepted requests, and the requests that were refused because the process was too
// busy.
type tally struct {
	since       time.Time
	taken, shed int
}

// load is the work of one user or service. unread has the sizes of the answers, oldest first.
// Only services' streams are counted here.
type load struct {
	requests, unread, streams int
	answers                   []*unread
}

// unread is an answer that its client has not taken.
type unread struct {
	user string
	size int
	// cut ends the wait for the client.
	cut func()
}

func newAdmission(limits Limits) *admission {
	return &admission{limits: limits.withDefaults(), users: map[string]*load{}}
}

// of returns the limits that apply to a key.
func (l Limits) of(key string) (requests, unread int) {
	if strings.HasPrefix(key, servicePrefix) {
		return l.ServiceRequests, l.ServiceUnread
	}
	return l.UserRequests, l.UserUnread
}

// enter reports whether a caller may send another request now. Requests without a user,
// which ask for dev tokens, have no limit of their own. Each successful enter needs a leave.
func (a *admission) enter(c caller) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, key := range c.keys() {
		requests, unread := a.limits.of(key)
		if u := a.users[key]; u != nil && key != "" && (u.requests >= requests || u.unread >= unread) {
			return false
		}
	}
	for _, key := range c.keys() {
		a.user(key).requests++
	}
	return true
}

func (a *admission) leave(c caller) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, key := range c.keys() {
		a.user(key).requests--
		a.forget(key)
	}
}

// openStream reports whether a caller may open another stream. The hub counts the streams
// of a user. Each successful openStream needs a closeStream.
func (a *admission) openStream(c caller) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.service == "" {
		return true
	}
	u := a.user(c.keys()[0]) // this key also counts the request of the stream
	if u.streams >= a.limits.ServiceStreams {
		return false
	}
	u.streams++
	return true
}

func (a *admission) closeStream(c caller) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.service != "" {
		a.user(c.keys()[0]).streams--
		a.forget(c.keys()[0])
	}
}

// start reports whether the process may handle another request now. Each successful start
// needs a finish.
func (a *admission) start() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.requests >= a.limits.Requests {
		a.window().shed++
		return false
	}
	a.window().taken++
	a.requests++
	return true
}

func (a *admission) finish() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests--
}

// hold keeps an answer of size bytes in memory until its client has taken the answer. It returns nil if
// the memory for answers is used up. The first waiting answer of a user is always allowed, whatever its
// size. The answer to a write is always allowed, too: the write has had its effect, and the answer is
// small. Each held answer needs a release.
func (a *admission) hold(user string, size int, read bool, cut func()) *unread {
	a.mu.Lock()
	defer a.mu.Unlock()
	u := a.user(user)
	_, most := a.limits.of(user)
	if read && (u.unread > 0 && u.unread+size > most || !a.room(size, u.unread+size)) {
		a.forget(user)
		return nil
	}
	if !read {
		a.room(size, 0)
	}
	w := &unread{user, size, cut}
	a.unread += size
	u.unread += size
	u.answers = append(u.answers, w)
	return w
}

// room reports whether size more bytes may wait. To make room, it cuts the oldest answer of the user with
// the most waiting bytes, while this user has more than own bytes. So slow readers, however many, lose
// their answers before any user with fewer bytes does. The caller holds the lock.
func (a *admission) room(size, own int) bool {
	for a.unread > 0 && a.unread+size > a.limits.Unread {
		most := &load{}
		for _, u := range a.users {
			if u.unread > most.unread {
				most = u
			}
		}
		if most.unread <= own {
			return false
		}
		oldest := most.answers[0]
		oldest.cut()
		a.drop(oldest)
	}
	return true
}

func (a *admission) release(w *unread) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drop(w)
	a.forget(w.user)
}

// drop stops counting an answer, unless it was cut before. The caller holds the lock.
func (a *admission) drop(w *unread) {
	u := a.user(w.user)
	if i := slices.Index(u.answers, w); i >= 0 {
		u.answers = slices.Delete(u.answers, i, i+1)
		u.unread -= w.size
		a.unread -= w.size
	}
}

// overloaded reports whether the process was too busy for nearly all requests of the last
// seconds. Requests above a user's own limits do not count, so that a single user cannot
// cause an overload.
func (a *admission) overloaded() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.window()
	taken, shed := now.taken+a.before.taken, now.shed+a.before.shed
	return shed >= 100 && shed >= 9*taken
}

// window returns the tally of the current window. The caller holds the lock.
func (a *admission) window() *tally {
	now := time.Now()
	if age := now.Sub(a.now.since); age >= overloadWindow {
		a.before = a.now
		if age >= 2*overloadWindow {
			a.before = tally{}
		}
		a.now = tally{since: now}
	}
	return &a.now
}

// user returns the work of a user. The caller holds the lock, and calls forget when the
// work may have ended.
func (a *admission) user(user string) *load {
	u, ok := a.users[user]
	if !ok {
		u = &load{}
		a.users[user] = u
	}
	return u
}

// forget drops a user without work. The caller holds the lock.
func (a *admission) forget(user string) {
	if u := a.users[user]; u != nil && u.requests == 0 && u.streams == 0 && len(u.answers) == 0 {
		delete(a.users, user)
	}
}

func busy() *Problem { return unavailable("the server is busy: try again", time.Second) }

// admit bounds the work of one user. It makes the answer in memory, stops counting the request, and then
// sends the answer. So a client that does not read holds only the bytes of its answer.
func (a *API) admit(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	who := callerOf(ctx.Context())
	out, ok := a.answer(ctx, who, next)
	if !ok {
		busy().write(w)
		return
	}
	if out.stream != nil {
		out.stream(w, r)
		return
	}
	size := out.body.Len()
	limitTime(w, size)
	held := a.work.hold(who.keys()[0], size, r.Method == http.MethodGet || r.Method == http.MethodHead, func() {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Unix(1, 0)) // only a test has a connection without deadlines
	})
	if held == nil {
		busy().write(w)
		return
	}
	defer a.work.release(held)
	maps.Copy(w.Header(), out.header)
	write(w, out.status, out.body.Bytes())
}

// answer runs a request and returns its answer. It returns false if the caller has too much work in
// progress.
func (a *API) answer(ctx huma.Context, who caller, next func(huma.Context)) (*answer, bool) {
	if !a.work.enter(who) {
		return nil, false
	}
	defer a.work.leave(who)
	r, w := humago.Unwrap(ctx)
	out := &answer{to: w, header: http.Header{}, status: http.StatusOK}
	next(humago.NewContext(ctx.Operation(), r.WithContext(ctx.Context()), out))
	return out, true
}

// handle bounds the requests that the process handles at once, and charges the user for
// their capacity units. A request above the bound gets a fast 503 instead of a slow
// answer.
func (a *API) handle(ctx huma.Context, next func(huma.Context)) {
	if !a.work.start() {
		_, w := humago.Unwrap(ctx)
		busy().write(w)
		return
	}
	defer a.work.finish()
	withCost, cost := access.WithCost(ctx.Context())
	defer func() { a.charge(callerOf(withCost), cost.Units()) }()
	next(huma.WithContext(ctx, withCost))
}

// answer is an answer in memory.
type answer struct {
	to     http.ResponseWriter
	header http.Header
	status int
	body   bytes.Buffer
	// stream, if not nil, sends the answer itself, and body is unused.
	stream func(http.ResponseWriter, *http.Request)
}

func (o *answer) Header() http.Header { return o.header }

func (o *answer) Write(b []byte) (int, error) { return o.body.Write(b) }

func (o *answer) WriteHeader(status int) { o.status = status }

// Unwrap lets http.ResponseController find the connection.
func (o *answer) Unwrap() http.ResponseWriter { return o.to }

// send sends a whole answer, and disconnects a client that does not take the answer in time.
func send(w http.ResponseWriter, status int, body []byte) {
	limitTime(w, len(body))
	write(w, status, body)
}

// limitTime sets the deadline by which the client must have taken an answer of size bytes.
func limitTime(w http.ResponseWriter, size int) {
	limit := answerTimeout + time.Duration(size)*time.Second/answerRate
	// Only a test has a connection without deadlines.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit))
}

func write(w http.ResponseWriter, status int, body []byte) {
	if len(body) > 0 {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	// A failed write means that the client has left.
	_, _ = w.Write(body)
}
