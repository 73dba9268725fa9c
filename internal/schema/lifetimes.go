package schema

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"fanfare/internal/table"
)

// AttrLifetimes is the attribute of the lifetimes.
const AttrLifetimes = "ttls"

const (
	// changeAhead is the time from the decision for a TTL until the TTL is in force. After changeAhead,
	// each process has read the decision. Also, each entry is written that an earlier unfollow could not
	// know of: an entry of a post that is made an hour later, by a clock that is half a day ahead.
	changeAhead = 24 * time.Hour
	// changeFixed is the time before a TTL is in force in which no decision changes the TTL, because a
	// process whose clock is half a day ahead may already use the TTL.
	changeFixed = 14 * time.Hour
)

// Lifetime is a TTL of homes and the time from which the TTL is in force.
type Lifetime struct {
	From time.Time
	TTL  time.Duration
}

// Lifetimes are the TTLs of homes, in the order of their times. All TTLs are in one stored item, so
// all processes show the same posts, whatever their settings are. A post leaves the homes once it is
// older than the shortest TTL that was in force since the post's creation. So a post whose entries
// have expired never returns (I1, I2).
type Lifetimes []Lifetime

// LifetimesKey names the item of the lifetimes.
func LifetimesKey() table.Key { return table.Key{PK: "lifetimes", SK: SortInfo} }

// Oldest returns the time of the oldest post that homes show. An entry expires in the second in which
// the age of its post reaches the TTL. In the same second a home by pull leaves the post out.
func (l Lifetimes) Oldest(now time.Time) time.Time {
	second := time.Unix(now.Unix()+1, 0).UTC()
	var oldest time.Time
	var shortest time.Duration // the shortest TTL in force since the time of the step
	for i := len(l) - 1; i >= 0; i-- {
		if i > 0 && l[i].From.After(now) {
			continue
		}
		first := shortest == 0
		if first || l[i].TTL < shortest {
			shortest = l[i].TTL
		}
		made := second.Add(-shortest)
		if l[i].From.After(made) {
			made = l[i].From
		}
		if first || made.Before(oldest) {
			oldest = made
		}
	}
	return oldest
}

// Written returns the TTL of the entries and of the delivery record of a post that was made at the
// time made: the TTL in force at that time. The time of the write does not matter. Homes show the post
// no longer than this TTL.
func (l Lifetimes) Written(made time.Time) (ttl time.Duration) {
	for i, step := range l {
		if i == 0 || !step.From.After(made) {
			ttl = step.TTL
		}
	}
	return ttl
}

// End returns the time at which a post that was made at the time made leaves the homes. A later
// decision may make this time earlier, but never later.
func (l Lifetimes) End(made time.Time) time.Time {
	end := made.Add(l.Written(made))
	for _, step := range l {
		lower := made.Add(step.TTL)
		if step.From.After(lower) {
			lower = step.From
		}
		if step.From.After(made) && lower.Before(end) {
			end = lower
		}
	}
	return end
}

// Longest returns the maximum time for which homes show a post that is made before the next decision
// is in force.
func (l Lifetimes) Longest() (longest time.Duration) {
	for _, step := range l {
		longest = max(longest, step.TTL)
	}
	return longest
}

// Decided returns the lifetimes after the decision for ttl. If ttl is already the last decision, the result
// equals l. The first decision is in force at once.
func (l Lifetimes) Decided(ttl time.Duration, now time.Time) Lifetimes {
	ttl = ttl.Truncate(time.Millisecond)
	if len(l) == 0 {
		return Lifetimes{{time.UnixMilli(0).UTC(), ttl}}
	}
	for len(l) > 1 && l[len(l)-1].From.After(now.Add(2*changeAhead)) {
		l = l[:len(l)-1] // remove a decision by a wrong clock, which would wait for years
	}
	if l[len(l)-1].TTL == ttl {
		return l
	}
	var next Lifetimes
	for i, step := range l {
		last := len(next) - 1
		switch {
		case i > 0 && step.From.After(now.Add(changeFixed)):
			continue // no process uses this step yet
		case i > 0 && !step.From.After(now.Add(-changeFixed)): // in force by any clock
			for ; last >= 0 && next[last].TTL >= step.TTL; last-- { // older posts do not live longer either
				step.From, next = next[last].From, next[:last]
			}
		}
		next = append(next, step)
	}
	last := next[len(next)-1]
	if last.TTL == ttl {
		return next
	}
	from := now.Add(changeAhead).Truncate(time.Second).UTC()
	if from.Before(last.From) {
		from = last.From
	}
	return append(next, Lifetime{from, ttl})
}

// String returns the stored form: the steps in milliseconds.
func (l Lifetimes) String() string {
	steps := make([]string, len(l))
	for i, step := range l {
		steps[i] = fmt.Sprintf("%d:%d", step.From.UnixMilli(), step.TTL.Milliseconds())
	}
	return strings.Join(steps, " ")
}

// Item encodes l.
func (l Lifetimes) Item() table.Item {
	return table.Item{Key: LifetimesKey(), Attrs: []table.Attr{str(AttrLifetimes, l.String())}}
}

// ParseLifetimes decodes the lifetimes.
func ParseLifetimes(it table.Item) (Lifetimes, error) {
	var l Lifetimes
	for step := range strings.FieldsSeq(it.Str(AttrLifetimes)) {
		from, ttl, _ := strings.Cut(step, ":")
		at, err := strconv.ParseInt(from, 10, 64)
		life, err2 := strconv.ParseInt(ttl, 10, 64)
		if err != nil || err2 != nil || life <= 0 || len(l) > 0 && at < l[len(l)-1].From.UnixMilli() {
			return nil, &ParseError{it.Key, "not the lifetimes of homes"}
		}
		l = append(l, Lifetime{time.UnixMilli(at).UTC(), time.Duration(life) * time.Millisecond})
	}
	if len(l) == 0 || it.Key != LifetimesKey() {
		return nil, &ParseError{it.Key, "not the lifetimes of homes"}
	}
	return l, nil
}
