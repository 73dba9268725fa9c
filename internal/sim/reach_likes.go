package sim

import (
	"strings"
	"time"

	"fanfare/internal/id"
	"fanfare/internal/schema"
	"fanfare/messages"
)

// open returns the incarnations that have stamped likes of a post whose flushes are not in the
// ledger.
func (r *reach) open(post, except string) map[string]bool {
	incs := map[string]bool{}
	for user, like := range r.book.likes[post] {
		if user != except && !r.book.counted(like) {
			incs[like.Flush.Inc] = true
		}
	}
	return incs
}

// lives reports whether the process of an incarnation has lived since the incarnation began.
func (r *reach) lives(inc string) bool { return r.alive[r.owner[inc]] }

func (r *reach) never(g schema.Flush, post string) bool {
	return r.book.counts[post].Fenced[g.Inc] && !r.book.counted(schema.Like{Post: post, Flush: g})
}

func (r *reach) likeWritten(e event, post string) {
	if e.now == nil {
		r.when(e.by == "", "an unlike expires")
		return
	}
	next, err := schema.ParseLike(*e.now)
	if err != nil {
		return // the oracle of the ledger reports it
	}
	inc, flush := next.Flush.Inc, next.Flush.String()+" "+post
	if r.owner[inc] == "" {
		r.owner[inc] = r.life(e.by)
	}
	if r.stamped[flush].IsZero() {
		r.stamped[flush] = e.at
	}
	together := 0
	open := r.open(post, next.User)
	open[inc] = true
	for inc := range open {
		if r.lives(inc) {
			together++
		}
	}
	r.when(together > 2, "three aggregators hold open stamps of one post")
	old, met := r.book.likes[post][next.User]
	if !met {
		return
	}
	if r.never(old.Flush, post) {
		r.when(next.Version == old.Version, "a window leaves its newer state to another")
		r.when(next.Version > old.Version && old.Kind != old.Base, "an action follows one that was never counted")
		kinds := map[string]bool{"": true, next.Kind: true, old.Kind: true}
		r.when(next.Version > old.Version && len(kinds) == 3, "a kind replaces one that another window left open")
	}
	acted, err := id.Time(old.Version)
	r.when(err == nil && e.at.Sub(acted) > 24*time.Hour, "a like is settled days after its stamp")
}

func (r *reach) countWritten(e event, post string) {
	was, is := r.book.counts[post], schema.ParseLikeCount(e.now)
	open := r.open(post, "")
	for inc := range is.Fenced {
		if was.Fenced[inc] || !open[inc] {
			continue
		}
		r.when(r.lives(inc), "a fence lands between a put and its flush")
		r.when(!r.lives(inc), "a fence comes after its aggregator died")
		r.when(len(is.Fenced) == 2, "two fences stand on one post")
	}
	for inc, seq := range is.Done {
		began := r.stamped[schema.Flush{Inc: inc, Seq: seq}.String()+" "+post]
		r.when(seq > was.Done[inc] && !began.IsZero() && began.YearDay() != e.at.YearDay(), "a window crosses midnight")
	}
}

func (r *reach) ended(e event) {
	end, err := schema.ParseLikeEnd(*e.now)
	if err != nil || e.old != nil {
		return
	}
	r.when(len(end.Lost) > 0, "an incarnation ends but for a lost window")
	for flush, began := range r.stamped {
		if strings.HasPrefix(flush, end.Inc+"#") && began.YearDay() != e.at.YearDay() {
			r.when(true, "an incarnation of a former day ends")
			return
		}
	}
}

func (r *reach) likeRefused(e event) {
	next, err := schema.ParseLike(*e.now)
	if err != nil || e.old == nil {
		return
	}
	old, err := schema.ParseLike(*e.old)
	if err != nil {
		return
	}
	r.when(old.Flush == next.Flush, "a put finds its own stamp")
	r.when(old.Flush != next.Flush && e.restamp, "two windows want the same like")
}

func (r *reach) countRefused(e event) {
	post, _, _ := postOfLikes(e.key.PK)
	wanted, stored := schema.ParseLikeCount(e.now), schema.ParseLikeCount(e.old)
	r.when(len(wanted.Fenced) > 0, "a flush is quicker than the fence")
	for inc, seq := range wanted.Done {
		done := stored.Done[inc] >= seq
		r.when(done, "a flush finds that it happened")
		fenced := stored.Fenced[inc] && !done
		r.when(fenced, "a fenced flush is refused")
		slept := r.paused[e.by].After(r.stamped[schema.Flush{Inc: inc, Seq: seq}.String()+" "+post])
		r.when(fenced && slept, "a sleeper wakes and its flush is refused")
	}
}

// likeOf returns the like that an event carries, nil for other events.
func likeOf(e messages.Event) *messages.Like {
	like, _, _ := messages.ActionOf(e)
	return like
}
