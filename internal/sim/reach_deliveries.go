package sim

import (
	"strings"

	"fanfare/internal/schema"
)

func (r *reach) tombstone(e event) {
	if e.now == nil || e.now.Int(schema.AttrDeleted) == 0 || e.old != nil && e.old.Int(schema.AttrDeleted) != 0 {
		return
	}
	post, _ := schema.PostOfSK(e.key.PK)
	r.deleted[post] = true
	r.when(e.late, "a late delete happens")
	for inc := range r.open(post, "") {
		if r.lives(inc) {
			r.when(true, "a post is deleted between a put and its flush")
			break
		}
	}
	for _, c := range r.chunks[post] {
		if c.Done.IsZero() {
			r.when(true, "a delete between plan and chunk")
			break
		}
	}
}

func (r *reach) deliveryWritten(e event) {
	if e.now == nil {
		return
	}
	if plan, err := schema.ParsePlan(*e.now); err == nil {
		r.plans[plan.Post] = plan.Author
		return
	}
	c, err := schema.ParseChunk(*e.now)
	if err != nil {
		return
	}
	of := r.chunks[c.Post]
	if of == nil {
		of = map[string]schema.Chunk{}
		r.chunks[c.Post] = of
	}
	if e.old == nil {
		if c.Done.IsZero() {
			r.unsent[e.by+" "+e.op] = true
		}
		covers := func(a, b schema.Chunk) bool { return a.First < b.First && (a.End == "" || a.End > b.First) }
		for _, other := range of {
			if covers(other, c) || covers(c, other) {
				r.when(true, "a chunk lies out of the chain")
				break
			}
		}
	}
	of[c.First] = c
	r.when(c.End == "" && !c.Done.IsZero() && e.old != nil && r.pending(c.Post), "the last chunk is done before an earlier one")
}

// pending reports whether a post's delivery has begun and is not complete.
func (r *reach) pending(post string) bool {
	if _, begun := r.plans[post]; !begun || r.deleted[post] {
		return false
	}
	var chain schema.Chain
	for _, first := range sorted(r.chunks[post]) {
		chain.Add(r.chunks[post][first])
	}
	return !chain.Ended || chain.Done < chain.Total
}

// halfDone reports whether some chunks of a post are done, and some are not.
func (r *reach) halfDone(post string) bool {
	done, open := false, false
	for _, c := range r.chunks[post] {
		done, open = done || !c.Done.IsZero(), open || c.Done.IsZero()
	}
	return done && open
}

// delivering reports whether a post of the author is being delivered.
func (r *reach) delivering(author string) bool {
	for post, of := range r.plans {
		if of == author && r.pending(post) {
			return true
		}
	}
	return false
}

func (r *reach) entryWritten(e event) {
	entry, err := schema.ParseEntry(*e.now)
	if err != nil {
		return
	}
	user := strings.TrimSuffix(strings.TrimPrefix(e.key.PK, "u#"), "#timeline")
	mark := r.marks[schema.MarkKey(user, entry.Author)]
	r.when(r.deleted[entry.Post], "an entry is written after its post's delete")
	r.when(mark.Kind == schema.MarkUnfollowed, "an entry is written after the unfollow")
	r.when(entry.Post < mark.From, "an entry is written below the follow's from")
}
