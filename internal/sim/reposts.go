package sim

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"

	"fanfare/internal/feed"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/messages"
)

// This file has the operations on reposts, and their part of the oracle: a post shows once in a paging of a home, at its
// newest visible reference, and at most one repost of a post by a user lives (I16).

// repostOps is added to the numbers of the operations on reposts. As a read, each belongs to an operation of the workload.
const repostOps = 200_000

// besideReposts adds reposts, and ends of reposts, to some of the planned operations.
func (w *World) besideReposts(of []planned) []planned {
	if w.seed%probeEvery == 0 {
		return of // the calm part counts calls
	}
	var all []planned
	for _, p := range of {
		all = append(all, p)
		if r := draws(w.seed, p.number, 14); p.number < readOps && r.IntN(4) == 0 {
			kind := []string{"repost", "repost", "unrepost"}[r.IntN(3)]
			all = append(all, planned{repostOps + p.number, w.load.users[r.IntN(len(w.load.users))], kind, p.skip})
		}
	}
	return all
}

// reposts is the oracle's view of the reposts.
type reposts struct {
	of map[string]string // the original, by repost
	// ended has the users and posts whose last answered call ended the repost, if no other call began since.
	ended map[likeKey]bool
}

// by returns the durable reposts of a post by a user.
func (l *workload) repostsBy(k likeKey) (all []string) {
	for repost, of := range l.reposts.of {
		if of == k.post && l.created[repost] == k.user {
			all = append(all, repost)
		}
	}
	slices.Sort(all)
	return all
}

// repost makes or ends a repost of one of the newest posts. Some users call twice at the same time, and some ends delete
// the repost as a post.
func (l *workload) repost(r *rand.Rand, user string, on bool) *operation {
	if len(l.posts) == 0 {
		return nil
	}
	k := likeKey{l.choose(r, l.posts[max(0, len(l.posts)-3):]), user}
	delete(l.reposts.ended, k)
	two := r.IntN(3) == 0
	again := func(ctx context.Context, s *domain) error { _, err := s.Repost(ctx, user, k.post); return err }
	end := func(ctx context.Context, s *domain) error { return s.EndRepost(ctx, user, k.post) }
	if own := l.repostsBy(k); !on && len(own) > 0 && r.IntN(4) == 0 {
		l.doubtful[own[len(own)-1]] = true
		return l.deleteOf(user, own[len(own)-1])
	}
	if !on {
		op := &operation{name: "unrepost " + k.post, user: user, do: end, settle: func(err error) { l.endedRepost(k, err == nil && !two) }}
		l.endedRepost(k, false)
		if two {
			op.do = beside(end, again)
		}
		return op
	}
	op := l.repostOf(k)
	if two {
		op.do = beside(op.do, again)
	}
	return op
}

// repostOf makes a user repost a post.
func (l *workload) repostOf(k likeKey) *operation {
	refused := l.refusedFor(k.user, l.owner[k.post], 0)
	var made feed.Post
	return &operation{name: "repost " + k.post, user: k.user, do: func(ctx context.Context, s *domain) (err error) {
		made, err = s.Repost(ctx, k.user, k.post)
		return err
	}, settle: func(err error) {
		if err != nil {
			return
		}
		refused()
		if made.RepostOf != k.post || l.created[made.ID] != k.user {
			l.fail("I5", "the repost %s of %s by %s was answered before it was durable: %+v", made.ID, k.post, k.user, made)
		}
		l.owner[made.ID], l.accepted[made.ID] = k.user, true
	}}
}

// endedRepost notes that the reposts of a user have ended, for certain or perhaps.
func (l *workload) endedRepost(k likeKey, certain bool) {
	for _, repost := range l.repostsBy(k) {
		l.doubtful[repost] = true
		l.deleted[repost] = l.deleted[repost] || certain
	}
	if certain {
		l.reposts.ended[k] = true
	}
}

// original returns the original of a repost, or the post.
func (l *workload) original(post string) string {
	if of := l.reposts.of[post]; of != "" {
		return of
	}
	return post
}

// mayLack reports whether a home may lack a reference: the home shows another reference to the same post, or the home may
// hide the original of a repost.
func (l *workload) mayLack(user, post string, seen map[string]string) bool {
	of := l.original(post)
	for other := range seen {
		if other != post && l.original(other) == of {
			return true
		}
	}
	author := l.created[of]
	return of != post && (l.deleted[of] || l.doubtful[of] || l.mutes[pair{user, author}] != nil || l.blocks[pair{user, author}] != nil || l.blocks[pair{author, user}] != nil)
}

// unseenBy returns the authors whose posts a user certainly does not see, whoever reposts them.
func (l *workload) unseenBy(user string) (authors []string) {
	for _, author := range l.users {
		if l.mutes[pair{user, author}].certain() || l.blocks[pair{user, author}].certain() || l.blocks[pair{author, user}].certain() {
			authors = append(authors, author)
		}
	}
	return authors
}

// checkOnce checks the items of one paging of a home: each post shows once, and a repost shows its original. hidden are
// the authors that were hidden, and deleted the posts whose delete was answered, before the paging.
func (l *workload) checkOnce(user string, items []feed.HomeItem, hidden []string, deleted map[string]bool) {
	shown := map[string]string{}
	for _, it := range items {
		of := l.original(it.Post.ID)
		if before := shown[of]; before != "" {
			l.fail("I16", "home of %s shows %s twice: by %s and by %s", user, of, before, it.Post.ID)
		}
		shown[of] = it.Post.ID
		switch {
		case it.Post.RepostOf == "":
		case it.Of == nil || it.Of.Post.ID != of:
			l.fail("I16", "home of %s shows the repost %s of %s with %+v", user, it.Post.ID, of, it.Of)
		case deleted[of]:
			l.fail("I2", "home of %s shows the repost %s of %s, whose delete was answered before", user, it.Post.ID, of)
		case slices.Contains(hidden, it.Of.Post.AuthorID) && slices.Contains(l.unseenBy(user), it.Of.Post.AuthorID): // no mute or block ended meanwhile
			l.fail("I2", "home of %s shows the repost %s of %s by %s, a muted or blocked author", user, it.Post.ID, of, it.Of.Post.AuthorID)
		}
	}
}

// checkReposts checks at any moment that at most one repost of a post by a user lives, and that a repost is newer than
// its original.
func (w *World) checkReposts(user string) {
	of := map[string]string{}
	for _, it := range w.partition(schema.PostsPK(user)) {
		p, err := schema.ParsePost(it)
		if err != nil || p.RepostOf == "" {
			continue
		}
		if of[p.RepostOf] != "" || p.ID < p.RepostOf {
			w.load.fail("I16", "%s has the reposts %q and %s of %s", user, of[p.RepostOf], p.ID, p.RepostOf)
		}
		of[p.RepostOf] = p.ID
	}
}

// checkEndedReposts checks, once the world is quiet, that no repost lives after its end was answered.
func (w *World) checkEndedReposts(living map[string]map[string]bool) {
	for k := range w.load.reposts.ended {
		for _, repost := range w.load.repostsBy(k) {
			if living[k.user][repost] {
				w.load.fail("I2", "the repost %s of %s by %s lives, its end was answered", repost, k.post, k.user)
			}
		}
	}
}

// references are the references of a home to each post, newest first, that are visible: the newest shows.
func (w *World) references(user string, muted []string, living map[string]map[string]bool) map[string][]string {
	l, all := w.load, map[string][]string{}
	for _, author := range l.users {
		followed, from := w.edge(user, author)
		if !followed && author != user || slices.Contains(muted, author) {
			continue
		}
		for _, post := range sorted(living[author]) {
			of := l.original(post)
			by := l.created[of]
			sees := of == post || living[by][of] && (by == user || !slices.Contains(muted, by) && w.itemOf(schema.BlockKey(user, by)) == nil)
			if (author == user || post >= from) && sees {
				all[of] = append(all[of], post)
			}
		}
	}
	for of := range maps.Keys(all) {
		slices.Sort(all[of])
		slices.Reverse(all[of])
	}
	return all
}

// livingReposts returns the number of living reposts of each post. lost has the posts whose count is unknown, because a
// message of one of their reposts is a dead letter, or was too old, or the purge of a repost is not over.
func (w *World) livingReposts() (n map[string]int64, lost map[string]bool) {
	n, lost = map[string]int64{}, map[string]bool{}
	dead := w.deadPosts()
	for repost, of := range w.load.reposts.of {
		lost[of] = lost[of] || dead[repost] || w.aged
		switch ref := w.refOf(repost); {
		case ref == nil:
		case !ref.Deleted:
			n[of]++
		case !ref.Purged: // its process died after the transaction, and an auditor asks for the purge
			lost[of] = true
		}
	}
	for _, d := range w.queue(queue.TopicLikes).dead {
		if e, ok := decoded(d.Payload).(*messages.Reposted); ok {
			lost[e.PostID] = true
		}
	}
	return n, lost
}

// hasReposted reports whether a repost of a post by a user lives.
func (w *World) hasReposted(user, post string) bool {
	return slices.ContainsFunc(w.load.repostsBy(likeKey{post, user}), func(repost string) bool {
		ref := w.refOf(repost)
		return ref != nil && !ref.Deleted
	})
}

// deadPosts returns the posts whose events are dead letters.
func (w *World) deadPosts() map[string]bool {
	dead := map[string]bool{}
	for _, d := range w.queue(queue.TopicPosts).dead {
		if created, ok := decoded(d.Payload).(*messages.PostCreated); ok {
			dead[created.PostID] = true
		}
	}
	return dead
}

// newest returns the references that a home must show, and the references that it may show, because a newer reference
// may have expired.
func (w *World) newest(user string, muted []string, living map[string]map[string]bool) (must, may map[string]bool) {
	must, may = map[string]bool{}, map[string]bool{}
	for _, refs := range w.references(user, muted, living) {
		for _, ref := range refs {
			if may[ref] = true; !w.mayHaveExpired(ref) {
				must[ref] = ref == refs[0]
				break
			}
		}
	}
	return must, may
}
