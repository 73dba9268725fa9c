package live

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"fanfare/internal/backoff"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/home"
)

const (
	// mostHints is the maximum number of posts with a hint in one home (I9). A further hint names no post.
	mostHints = 64
	// missedAge is the time for which the agenda keeps a hint whose post did not arrive.
	missedAge = 5 * time.Minute
	// jitterPart is the random part of the time to the next slow look, so that the looks of many homes do
	// not stay simultaneous.
	jitterPart = 0.05
	// hintTry is the time from a hint to the first look, after which an ordinary delivery is done. nearTry
	// is this time for a post that this process stored: the post's entries wake the homes directly, and a
	// home that pulls the author needs no delivery.
	hintTry = 200 * time.Millisecond
	nearTry = 50 * time.Millisecond
	// aWrite and somePost are the names of hints without a post. aWrite is for a write of this process
	// into the home, and somePost is for all other hints without a post. No post has such an id.
	aWrite   = ""
	somePost = "+"
)

// laterTries returns the times, counted from the hint, of the further looks at the home. These looks
// end when a look finds the post.
func laterTries() []time.Duration {
	return []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 15 * time.Second}
}

// hint means that a post by an author exists. A hint makes the next look at the home begin earlier. A
// hint never makes an event.
type hint struct {
	author author
	at     time.Time
	// since is the number of looks that had begun when the hint arrived. These looks do not answer the
	// hint.
	since int
	// due are the times of the remaining looks. A hint without remaining looks only explains a late post.
	due []time.Time
}

// pass removes the looks that were due up to now.
func (h *hint) pass(now time.Time) {
	for len(h.due) > 0 && !h.due[0].After(now) {
		h.due = h.due[1:]
	}
}

// agenda decides when the next look at a home is due: a slow look at a fixed time after the last look,
// or an earlier look because of a hint. Its methods are safe for concurrent use.
type agenda struct {
	jitter func() float64
	// changed has a value if the agenda may have an earlier next look.
	changed chan struct{}

	mu sync.Mutex
	// slow is the time between two looks without a hint. likes is the time between two looks at like
	// counts.
	slow, likes     time.Duration
	slowAt, likesAt time.Time
	// noticed is set if the number of unread notifications may have changed.
	noticed bool
	// free is the time from which the next look may begin. begun is the number of looks that have begun.
	free  time.Time
	begun int
	// hints has the hints by post, or by the name of a hint without a post.
	hints map[string]*hint
	// edited has the edited posts that the look at editedAt reads. editFails is the number of such looks
	// that failed after the last successful one.
	edited    map[string]access.Ref
	editedAt  time.Time
	editFails int
}

func newAgenda(slow, likes time.Duration, jitter func() float64) *agenda {
	now := time.Now()
	a := &agenda{
		jitter: jitter, changed: make(chan struct{}, 1), slow: slow, likes: likes, likesAt: now.Add(likes), hints: map[string]*hint{}, edited: map[string]access.Ref{},
	}
	a.slowAt = a.slowAfter(now)
	return a
}

func (a *agenda) slowAfter(t time.Time) time.Time {
	return t.Add(time.Duration(float64(a.slow) * (1 - jitterPart*a.jitter())))
}

func (a *agenda) tell() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// hint adds a hint whose first look is due after first. If the post already has a hint, hint changes
// nothing. A hint without a post ends with the first successful look, for whatever reason that look
// begins. So such a hint begins again if a look has begun after it.
func (a *agenda) hint(post string, by author, first time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	named := post != aWrite && post != somePost
	if named && a.hints[post] == nil && len(a.hints) >= mostHints && !a.forgetMissed() {
		post, named = somePost, false
	}
	if known := a.hints[post]; known != nil && (named || known.since == a.begun) {
		return
	}
	h := &hint{author: by, at: now, since: a.begun, due: []time.Time{now.Add(first)}}
	for _, after := range laterTries() {
		h.due = append(h.due, now.Add(after))
	}
	a.hints[post] = h
	a.tell()
}

// edit requests a look at an edited post. If too many posts wait, edit drops all of them, and reports
// false: the streams' clients have to read their pages again.
func (a *agenda) edit(ref access.Ref) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, waits := a.edited[ref.Post]; !waits && len(a.edited) >= mostEdited {
		clear(a.edited)
		return false
	}
	if at := time.Now().Add(editTry); len(a.edited) == 0 && a.editedAt.Before(at) {
		a.editedAt = at
	}
	a.edited[ref.Post] = ref
	a.tell()
	return true
}

// lookedAtEdited ends a look at edited posts. A failed look is repeated, after a longer wait each time (H5).
func (a *agenda) lookedAtEdited(refs []access.Ref, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		a.editFails = 0
		return
	}
	a.editFails++
	failed := backoff.Exponential{First: failedLook, Most: mostGap}
	a.editedAt = time.Now().Add(failed.Bound(a.editFails))
	for _, ref := range refs {
		a.edited[ref.Post] = ref
	}
}

// notice requests a read of the number of unread notifications.
func (a *agenda) notice() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.noticed = true
	a.tell()
}

// forgetMissed removes a hint whose post did not arrive, so that a new hint fits in.
func (a *agenda) forgetMissed() bool {
	for post, h := range a.hints {
		if len(h.due) == 0 && post != aWrite && post != somePost {
			delete(a.hints, post)
			return true
		}
	}
	return false
}

// next returns the time of the next look at the home.
func (a *agenda) next() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.noticed {
		return a.free
	}
	at := a.slowAt
	if a.likesAt.Before(at) {
		at = a.likesAt
	}
	for _, h := range a.hints {
		if len(h.due) > 0 && h.due[0].Before(at) {
			at = h.due[0]
		}
	}
	if len(a.edited) > 0 && a.editedAt.Before(at) {
		at = a.editedAt
	}
	if at.Before(a.free) {
		return a.free
	}
	return at
}

// wanted are the parts of a look.
type wanted struct {
	// home is a look at the home itself, likes is a look at the home's like counts, and unread is a look
	// at the number of unread notifications.
	home, likes, unread bool
	// edited are edited posts to read.
	edited []access.Ref
}

// wants returns the parts of a look that are due now. wants records the like counts and the unread
// notifications as read; if the look fails, the next slow look reads them. Each slow look includes the
// unread notifications.
func (a *agenda) wants() (w wanted) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	w.home = !a.slowAt.After(now)
	w.unread = w.home || a.noticed
	a.noticed = false
	if len(a.edited) > 0 && !a.editedAt.After(now) {
		w.edited = slices.SortedFunc(maps.Values(a.edited), func(a, b access.Ref) int { return cmp.Compare(a.Post, b.Post) })
		clear(a.edited)
		a.editedAt = now.Add(editGap)
	}
	for _, h := range a.hints {
		w.home = w.home || len(h.due) > 0 && !h.due[0].After(now)
	}
	if w.likes = !a.likesAt.After(now); w.likes {
		a.likesAt = now.Add(a.likes)
	}
	return w
}

// rest makes the next look of any kind begin gap from now at the earliest.
func (a *agenda) rest(gap time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free = time.Now().Add(gap)
}

// setSlow changes the time between two looks without a hint.
func (a *agenda) setSlow(slow time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.slow = slow; a.slowAt.After(time.Now().Add(slow)) {
		a.slowAt = a.slowAfter(time.Now())
		a.tell()
	}
}

// begin counts a look, and returns the number and the time of the look.
func (a *agenda) begin() (look int, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begun++
	return a.begun, time.Now()
}

// looked ends the look with the number look, which began at began, whether or not it succeeded. The
// next look begins at least gap later. No earlier look replaces a failed look, so a failing table gets
// fewer looks, and never more.
func (a *agenda) looked(look int, began time.Time, gap time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free = began.Add(gap)
	a.slowAt = a.slowAfter(began)
	for _, h := range a.hints {
		if h.since < look {
			h.pass(began)
		}
	}
}

// answer ends the hints of posts in seen. If the look with the number look has succeeded, answer also
// ends the hints that this look answers. The number 0 means no look. The caller has the home's turn.
func (a *agenda) answer(seen *home.Streamed, look int, began time.Time) (of []came) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for post, h := range a.hints {
		named := post != aWrite && post != somePost
		switch {
		case named && seen.Saw(post):
			of = append(of, came{author: h.author, late: len(h.due) == 0})
			delete(a.hints, post)
		case h.since >= look: // the look may have begun before the post arrived
		case !named, began.Sub(h.at) > missedAge:
			delete(a.hints, post)
		case len(h.due) > 0:
			if h.pass(began); len(h.due) == 0 {
				of = append(of, came{author: h.author, missed: true})
			}
		}
	}
	return of
}

// came is the outcome of a hinted post. The post arrived, or arrived after the last look for its hint
// (late), or had not arrived by that look (missed).
type came struct {
	author       author
	late, missed bool
}
