package likeagg

import (
	"context"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"fanfare/internal/invariants"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// The name of an incarnation begins with its day: the number of days since 1970 as dayDigits
// digits of base dayBase. Then 40 random bits follow. The day is only for people: no decision
// depends on the day.
const (
	dayDigits  = 3
	dayBase    = 36
	randDigits = 8
	randBits   = 5
	randAlpha  = "0123456789abcdefghjkmnpqrstvwxyz"
)

// maxLost bounds the excepted posts in the note of an incarnation's end. An incarnation that
// lost the windows of more posts writes no note, and its ledger entries stay.
const maxLost = 1000

func dayOf(t time.Time) int64 { return t.Unix() / (24 * 60 * 60) }

// newIncarnation returns a name that no other incarnation has.
func newIncarnation(day int64, random uint64) string {
	s := strconv.FormatInt(max(day, 0), dayBase)
	for len(s) < dayDigits {
		s = "0" + s
	}
	for range randDigits {
		s += string(randAlpha[random&(1<<randBits-1)])
		random >>= randBits
	}
	return s
}

// Began returns the day on which an incarnation began by the clock of its aggregator, and false if
// its name has no day. No count depends on the day.
func Began(inc string) (day time.Time, ok bool) {
	if len(inc) != dayDigits+randDigits {
		return time.Time{}, false
	}
	days, err := strconv.ParseInt(inc[:dayDigits], dayBase, 64)
	return time.Unix(days*24*60*60, 0), err == nil
}

// incarnation is one life of the aggregator. The collector's mutex guards it.
type incarnation struct {
	name     string
	day, seq int64
	// running counts the windows that have not ended. lost has the posts with a window that
	// ended without its flush.
	running int
	lost    map[string]bool
}

// stamp names the flush of a window that starts, and makes it a window of the current
// incarnation. A new incarnation begins each day and after a lost window. The caller
// holds mu.
func (c *collector) stamp(working context.Context, w *window) {
	today := dayOf(c.cfg.Now())
	if c.inc != nil && c.inc.day != today {
		c.leave(working)
	}
	if c.inc == nil {
		c.inc = &incarnation{name: newIncarnation(today, c.cfg.Random()), day: today, lost: map[string]bool{}}
	}
	c.inc.seq++
	c.inc.running++
	w.inc, w.stamp = c.inc, schema.Flush{Inc: c.inc.name, Seq: c.inc.seq}
	invariants.Check(!w.inc.lost[w.post], "I3: incarnation %s lost a window of post %s and stamps another one", w.inc.name, w.post)
}

// leave ends the current incarnation: no further window begins in it. The caller holds mu.
func (c *collector) leave(working context.Context) {
	inc := c.inc
	if c.inc = nil; inc != nil && inc.running == 0 {
		c.over(working, inc)
	}
}

// left removes an ended window from its incarnation. The caller holds mu.
func (c *collector) left(working context.Context, w *window, lost bool) {
	w.inc.running--
	if lost {
		w.inc.lost[w.post] = true
	}
	switch {
	case w.inc == c.inc && lost:
		c.leave(working)
	case w.inc != c.inc && w.inc.running == 0:
		c.over(working, w.inc)
	}
}

// over notes the end of an incarnation whose windows have all ended: the outcome of each flush
// is known. A process that dies or cannot write leaves no note; then only the ledgers show the
// outcome of a flush. The caller holds mu.
func (c *collector) over(working context.Context, inc *incarnation) {
	if len(inc.lost) > maxLost {
		c.cfg.Log.Warn("an incarnation lost too many windows to note its end", zap.String("incarnation", inc.name), zap.Int("posts", len(inc.lost)))
		return
	}
	end := schema.LikeEnd{Inc: inc.name, Lost: inc.lost}
	c.pool.enqueue(nil, 1, func(int) {
		err := c.repeat(working, &gate{}, func() bool { return false }, func() error {
			_, err := c.cfg.Store.Put(working, table.PutInput{Item: end.Item()})
			return err
		})
		if err != nil {
			c.cfg.Log.Warn("the end of an incarnation is not noted, its ledger entries stay", zap.String("incarnation", inc.name), zap.Error(err))
			return
		}
		c.ends.learn(end, true, time.Now())
	}, nil)
}

// ends has the notes of incarnations' ends that this process has read.
type ends struct {
	mu    sync.Mutex
	known map[string]knownEnd
}

// knownEnd is the note of one incarnation, or the fact that the note is missing. at is the time of the
// first read of the note, or of the last look for a missing note.
type knownEnd struct {
	ended bool
	lost  map[string]bool
	at    time.Time
}

const (
	// maxEnds bounds the number of incarnations whose ends are remembered.
	maxEnds = 20_000
	// settled is the minimum time from the read of a note to the first prune that relies on the note, and
	// from one look for a missing note to the next look. A request that was made before the note cannot
	// arrive after this time, because AWS refuses a request that is some minutes old. Only this process's
	// monotonic clock measures this time.
	settled = time.Hour
)

func (e *ends) learn(end schema.LikeEnd, ended bool, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.known) >= maxEnds || e.known == nil {
		e.known = map[string]knownEnd{}
	}
	if !e.known[end.Inc].ended {
		e.known[end.Inc] = knownEnd{ended, end.Lost, now}
	}
}

func (e *ends) get(inc string) (knownEnd, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k, ok := e.known[inc]
	return k, ok
}

// readEnds reads the notes of incarnations, consistently, and remembers them.
func (c *collector) readEnds(ctx context.Context, incs []string) error {
	keys := make([]table.Key, len(incs))
	for i, inc := range incs {
		keys[i] = schema.LikeEndKey(inc)
	}
	res, err := c.cfg.Store.BatchGet(ctx, table.BatchGetInput{Keys: keys, Consistent: true})
	if err != nil {
		return err
	}
	now := time.Now()
	for _, it := range res.Items {
		end, err := schema.ParseLikeEnd(it)
		if err != nil {
			return err
		}
		c.ends.learn(end, true, now)
	}
	for _, inc := range incs {
		c.ends.learn(schema.LikeEnd{Inc: inc}, false, now)
	}
	return nil
}
