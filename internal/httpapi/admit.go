package httpapi

import (
	"bytes"
	"cmp"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

const (
	// bodyTimeout is the time in which a body must arrive.
	bodyTimeout = 5 * time.Second
	// answerTimeout is the time in which a client must take an answer, and one second
	// more for each answerRate bytes.
	answerTimeout = 5 * time.Second
	answerRate    = 128 << 10
)

// Limits bound the work that an API has in hand (I9). The limits of a user are below those
// of the process, so that no user can stop it for the others.
type Limits struct {
	// Requests bounds the requests that are handled at once; 0 is 1,024.
	Requests int
	// UserRequests bounds the requests of one user whose body is read or that are
	// handled; 0 is 32.
	UserRequests int
	// Unread bounds the bytes of the answers that clients have not taken; 0 is 64 MiB.
	Unread int
	// UserUnread is Unread for one user; 0 is 4 MiB.
	UserUnread int
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Requests: cmp.Or(l.Requests, 1024), UserRequests: cmp.Or(l.UserRequests, 32),
		Unread: cmp.Or(l.Unread, 64<<20), UserUnread: cmp.Or(l.UserUnread, 4<<20),
	}
}

// admission counts the work in hand. A user is in the map only while it has some.
type admission struct {
	limits Limits

	mu       sync.Mutex
	requests int
	unread   int
	users    map[string]load
	// now and before count the requests of this window and of the one before it.
	now, before tally
}

// overloadWindow is the time over which overloaded looks back, once or twice.
const overloadWindow = 5 * time.Second

// tally counts the requests that the process took, and those that it was too busy for.
type tally struct {
	since       time.Time
	taken, shed int
}

// load is the work of one user.
type load struct{ requests, unread int }

func newAdmission(limits Limits) *admission {
	return &admission{limits: limits.withDefaults(), users: map[string]load{}}
}

// enter reports whether user may send one more request now. Requests without a user, for
// dev tokens, have no limit of their own. Each enter that succeeds needs a leave.
func (a *admission) enter(user string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	u := a.users[user]
	if a.unread >= a.limits.Unread {
		a.window().shed++
		return false
	}
	if user != "" && (u.requests >= a.limits.UserRequests || u.unread >= a.limits.UserUnread) {
		return false
	}
	u.requests++
	a.users[user] = u
	return true
}

func (a *admission) leave(user string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.change(user, load{requests: -1})
}

// start reports whether the process may handle one more request now. Each start that
// succeeds needs a finish.
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

// hold reports whether an answer of size bytes may wait in memory for its client. One
// answer always may, whatever its size. The effect of a write has happened, so its answer
// may wait too; it is small. Each hold that succeeds needs a release.
func (a *admission) hold(user string, size int, read bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	unread := a.users[user].unread
	if read && (a.unread > 0 && a.unread+size > a.limits.Unread || unread > 0 && unread+size > a.limits.UserUnread) {
		return false
	}
	a.unread += size
	a.change(user, load{unread: size})
	return true
}

func (a *admission) release(user string, size int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unread -= size
	a.change(user, load{unread: -size})
}

// overloaded reports whether the process was too busy for nearly all requests of the last
// seconds. Requests above a user's own limits do not count: no user can bring it about
// alone.
func (a *admission) overloaded() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.window()
	taken, shed := now.taken+a.before.taken, now.shed+a.before.shed
	return shed >= 100 && shed >= 9*taken
}

// window returns the tally of the present. The caller holds the lock.
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

// change adds by to the work of user. The caller holds the lock.
func (a *admission) change(user string, by load) {
	u := a.users[user]
	u.requests += by.requests
	u.unread += by.unread
	if u == (load{}) {
		delete(a.users, user)
	} else {
		a.users[user] = u
	}
}

func busy() *Problem { return unavailable("the server is busy: try again", time.Second) }

// admit bounds the work of one user. The answer is made in memory, and sent when the
// request counts no more: a client that does not read holds its answer's bytes only.
func (a *API) admit(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	user := userOf(ctx.Context())
	out, ok := a.answer(ctx, user, next)
	if !ok {
		busy().write(w)
		return
	}
	size := out.body.Len()
	if !a.work.hold(user, size, r.Method == http.MethodGet || r.Method == http.MethodHead) {
		busy().write(w)
		return
	}
	defer a.work.release(user, size)
	maps.Copy(w.Header(), out.header)
	send(w, out.status, out.body.Bytes())
}

// answer runs a request of user and returns its answer. It reports false if the user has
// too much in hand.
func (a *API) answer(ctx huma.Context, user string, next func(huma.Context)) (*answer, bool) {
	if !a.work.enter(user) {
		return nil, false
	}
	defer a.work.leave(user)
	r, w := humago.Unwrap(ctx)
	out := &answer{to: w, header: http.Header{}, status: http.StatusOK}
	next(humago.NewContext(ctx.Operation(), r.WithContext(ctx.Context()), out))
	return out, true
}

// handle bounds the requests that the process handles at once. One more gets a fast 503
// instead of a slow answer.
func (a *API) handle(ctx huma.Context, next func(huma.Context)) {
	if !a.work.start() {
		_, w := humago.Unwrap(ctx)
		busy().write(w)
		return
	}
	defer a.work.finish()
	next(ctx)
}

// answer is an answer in memory.
type answer struct {
	to     http.ResponseWriter
	header http.Header
	status int
	body   bytes.Buffer
}

func (o *answer) Header() http.Header { return o.header }

func (o *answer) Write(b []byte) (int, error) { return o.body.Write(b) }

func (o *answer) WriteHeader(status int) { o.status = status }

// Unwrap lets http.ResponseController find the connection.
func (o *answer) Unwrap() http.ResponseWriter { return o.to }

// send sends a whole answer. A client that does not take it in time is cut.
func send(w http.ResponseWriter, status int, body []byte) {
	if len(body) > 0 {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	limit := answerTimeout + time.Duration(len(body))*time.Second/answerRate
	// A connection without deadlines is a test's.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit))
	w.WriteHeader(status)
	// A failed write means that the client is gone.
	_, _ = w.Write(body)
}
