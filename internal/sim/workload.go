package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"fanfare/internal/feed"
	"fanfare/messages"
)

// operation is one call of a user. Each user has one at a time, so what a user was
// answered is in order; all users together have many.
type operation struct {
	name   string
	user   string
	do     func(ctx context.Context, s *feed.Service) error
	settle func(err error) // on the driver, once it was answered
	err    error
	done   chan struct{}
}

// pair is who follows whom.
type pair struct{ follower, author string }

// like is whose like of what.
type like struct{ post, user string }

// homeOf is one user's home by one source.
type homeOf struct {
	user string
	pull bool
}

// published is the latest action on a like that became durable.
type published struct {
	version string
	liked   bool
	events  int
}

// workload makes operations by the seed and remembers what was answered: the
// oracle's view from outside.
type workload struct {
	w     *World
	users []string
	apis  []*Proc
	serve map[*Proc]*feed.Service
	left  int // operations still to start
	made  int
	busy  map[string]*operation

	posts    []string // ids that were answered, in order
	owner    map[string]string
	accepted map[string]bool // posts answered with success
	deleted  map[string]bool // deletes answered with success
	doubtful map[string]bool // deletes without an answer

	follows map[pair]bool // the last answered state
	// maybe are follows (true) and unfollows without an answer, that may still
	// happen. One of the same kind that is answered later settles them: it found
	// them done, or made their conditions fail for good.
	maybe map[pair]map[bool]bool

	// what became durable, as the queues saw it
	created map[string]string // post -> author
	likes   map[like]published
	bad     []string // ids of messages that must end as dead letters
	keys    map[string]string
	// seen is what the last whole home of a user showed, by source.
	seen map[homeOf]map[string]string // post -> author

	violations []string
}

func newWorkload(w *World, users, operations int) *workload {
	l := &workload{
		w: w, left: operations, serve: map[*Proc]*feed.Service{}, busy: map[string]*operation{},
		owner: map[string]string{}, accepted: map[string]bool{}, deleted: map[string]bool{}, doubtful: map[string]bool{},
		follows: map[pair]bool{}, maybe: map[pair]map[bool]bool{}, created: map[string]string{}, likes: map[like]published{},
		keys: map[string]string{}, seen: map[homeOf]map[string]string{},
	}
	for i := range users {
		l.users = append(l.users, fmt.Sprintf("u%d", i))
	}
	return l
}

func (l *workload) fail(invariant, format string, args ...any) {
	v := invariant + ": " + fmt.Sprintf(format, args...)
	l.violations = append(l.violations, v)
	l.w.note("VIOLATION %s", v)
}

// published hears of every message that became durable on a topic.
func (w *World) published(_ string, payload []byte) {
	e, err := messages.Decode(payload)
	if err != nil || w.load == nil {
		return
	}
	l := w.load
	switch e := e.(type) {
	case *messages.PostCreated:
		if _, known := l.created[e.PostID]; !known {
			l.created[e.PostID] = e.AuthorID
		}
	case *messages.Liked:
		l.liked(&e.Like, true)
	case *messages.Unliked:
		l.liked(&e.Like, false)
	}
}

func (l *workload) liked(e *messages.Like, state bool) {
	k := like{e.PostID, e.UserID}
	p := l.likes[k]
	p.events++
	if e.EventID > p.version {
		p.version, p.liked = e.EventID, state
	}
	l.likes[k] = p
}

// next starts an operation, if a user is free and some are left.
func (l *workload) next() bool {
	if l.left == 0 {
		return false
	}
	user := l.users[l.w.rng.IntN(len(l.users))]
	api := l.apis[l.w.rng.IntN(len(l.apis))]
	if l.busy[user] != nil || api.dead || time.Now().Before(api.paused) {
		return false
	}
	op := l.pick(user)
	if op == nil {
		return false
	}
	l.left--
	l.run(op, api)
	return true
}

func (l *workload) run(op *operation, api *Proc) {
	l.made++
	op.done = make(chan struct{})
	l.busy[op.user] = op
	name := fmt.Sprintf("op%d", l.made)
	l.w.note("start %s %s %s at %s", name, op.user, op.name, api.Name)
	service := l.serve[api]
	api.Go(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(withOp(ctx, name), 20*time.Second)
		defer cancel()
		op.err = op.do(ctx, service)
		close(op.done)
	})
}

// settled hears of operations that were answered, in the order of their users.
func (l *workload) settled() {
	l.w.settle()
	for _, user := range l.users {
		op := l.busy[user]
		if op == nil {
			continue
		}
		select {
		case <-op.done:
			delete(l.busy, user)
			l.w.note("end %s %s: %v", user, op.name, op.err)
			op.settle(op.err)
		default:
		}
	}
}

func (l *workload) pick(user string) *operation {
	r := l.w.rng
	switch x := r.IntN(100); {
	case x < 22:
		return l.createPost(user)
	case x < 28:
		return l.deletePost(user)
	case x < 42:
		return l.follow(user, true)
	case x < 52:
		return l.follow(user, false)
	case x < 72:
		return l.like(user, true)
	case x < 84:
		return l.like(user, false)
	case x < 87:
		return l.poison(user)
	case x < 89:
		return l.profile(user)
	default:
		return l.home(user)
	}
}

func (l *workload) profile(user string) *operation {
	return &operation{
		name: "profile", user: user,
		do: func(ctx context.Context, s *feed.Service) error {
			_, err := s.PutProfile(ctx, user, feed.ProfileInput{Name: user})
			return err
		},
		settle: func(error) {},
	}
}

func (l *workload) createPost(user string) *operation {
	var post feed.Post
	in := feed.PostInput{Text: fmt.Sprintf("post %d", l.made)}
	if l.w.rng.IntN(3) == 0 {
		in.IdempotencyKey = fmt.Sprintf("key-%d", l.w.rng.IntN(4))
		in.Text = in.IdempotencyKey
	}
	return &operation{
		name: "post " + in.Text, user: user,
		do: func(ctx context.Context, s *feed.Service) (err error) {
			post, err = s.CreatePost(ctx, user, in)
			return err
		},
		settle: func(err error) {
			if err != nil {
				return
			}
			if in.IdempotencyKey != "" {
				key := user + " " + in.IdempotencyKey
				if bound, ok := l.keys[key]; ok && bound != post.ID {
					l.fail("I1", "idempotency key %s gave post %s, then %s", key, bound, post.ID)
				}
				l.keys[key] = post.ID
			}
			if _, durable := l.created[post.ID]; !durable {
				l.fail("I5", "post %s was answered before it was durable", post.ID)
			}
			if !l.accepted[post.ID] {
				l.posts = append(l.posts, post.ID)
			}
			l.owner[post.ID], l.accepted[post.ID] = user, true
		},
	}
}

func (l *workload) deletePost(user string) *operation {
	var own []string
	for _, p := range l.posts {
		if l.owner[p] == user && !l.deleted[p] {
			own = append(own, p)
		}
	}
	if len(own) == 0 {
		return nil
	}
	post := own[l.w.rng.IntN(len(own))]
	return &operation{
		name: "delete " + post, user: user,
		do: func(ctx context.Context, s *feed.Service) error { return s.DeletePost(ctx, user, post) },
		settle: func(err error) {
			if err == nil {
				l.deleted[post] = true
			} else {
				l.doubtful[post] = true
			}
		},
	}
}

func (l *workload) other(user string) string {
	for {
		if o := l.users[l.w.rng.IntN(len(l.users))]; o != user {
			return o
		}
	}
}

func (l *workload) follow(user string, on bool) *operation {
	author := l.other(user)
	if l.w.rng.IntN(2) == 0 { // some come and go: what is in flight of before meets what came after
		author = l.users[(slices.Index(l.users, user)+1)%len(l.users)]
	}
	p := pair{user, author}
	name := map[bool]string{true: "follow ", false: "unfollow "}[on] + author
	for _, pull := range []bool{false, true} {
		for post, of := range l.seen[homeOf{user, pull}] {
			if of == author {
				delete(l.seen[homeOf{user, pull}], post)
			}
		}
	}
	return &operation{
		name: name, user: user,
		do: func(ctx context.Context, s *feed.Service) error {
			if on {
				return s.Follow(ctx, user, author)
			}
			return s.Unfollow(ctx, user, author)
		},
		settle: func(err error) {
			if err != nil {
				if l.maybe[p] == nil {
					l.maybe[p] = map[bool]bool{}
				}
				l.maybe[p][on] = true
				return
			}
			l.follows[p] = on
			delete(l.maybe[p], on)
			if followed, _ := l.w.edge(user, author); followed != on && !l.unsure(p) {
				l.fail("I5", "%s %s was answered, the table says following=%v", user, name, followed)
			}
		},
	}
}

// unsure tells whether nobody can know if p.follower follows p.author now.
func (l *workload) unsure(p pair) bool { return len(l.maybe[p]) > 0 }

func (l *workload) like(user string, on bool) *operation {
	if len(l.posts) == 0 {
		return nil
	}
	// Few posts get most of the likes, and the same user comes back to them.
	post := l.posts[l.w.rng.IntN(min(len(l.posts), 4))]
	if l.w.rng.IntN(4) == 0 {
		post = l.posts[l.w.rng.IntN(len(l.posts))]
	}
	before := l.likes[like{post, user}].events
	return &operation{
		name: map[bool]string{true: "like ", false: "unlike "}[on] + post, user: user,
		do: func(ctx context.Context, s *feed.Service) error {
			if on {
				return s.Like(ctx, user, post)
			}
			return s.Unlike(ctx, user, post)
		},
		settle: func(err error) {
			if err == nil && l.likes[like{post, user}].events == before {
				l.fail("I5", "a like or unlike of %s by %s was answered, no event is durable", post, user)
			}
		},
	}
}

// poison sends what no consumer can ever process: it must end as a dead letter.
func (l *workload) poison(user string) *operation {
	name := fmt.Sprintf("bad-%d", l.made)
	payload := `{"type":"PostCreated","version":99,"event_id":"` + name + `"}`
	topic := []string{"posts", "chunks", "likes"}[l.w.rng.IntN(3)]
	return &operation{
		name: "poison " + topic, user: user,
		do: func(context.Context, *feed.Service) error { return nil },
		settle: func(error) {
			q := l.w.queue(topic)
			q.messages = append(q.messages, &queued{id: name, payload: []byte(payload), order: q.published})
			q.published++
			l.bad = append(l.bad, name)
		},
	}
}

// home reads a whole home and checks what must hold at any moment: nothing deleted,
// nobody unfollowed (I2), everything once (I7).
func (l *workload) home(user string) *operation {
	deleted := clone2(l.deleted)
	var unfollowed, followed []string
	for _, author := range l.users {
		p := pair{user, author}
		if author == user || l.unsure(p) {
			continue
		}
		if l.follows[p] {
			followed = append(followed, author)
		} else {
			unfollowed = append(unfollowed, author)
		}
	}
	limit := 1 + l.w.rng.IntN(4)
	pull := l.w.rng.IntN(3) == 0
	key := homeOf{user, pull}
	var items []feed.HomeItem
	return &operation{
		name: fmt.Sprintf("home limit %d pull %v", limit, pull), user: user,
		do: func(ctx context.Context, s *feed.Service) (err error) {
			items, err = wholeHome(ctx, s, user, limit, pull)
			return err
		},
		settle: func(err error) {
			if err != nil {
				return
			}
			seen := map[string]string{}
			last := "~"
			for _, it := range items {
				id := it.Post.ID
				if seen[id] != "" {
					l.fail("I7", "home of %s shows %s twice", user, id)
				}
				if id >= last {
					l.fail("I7", "home of %s shows %s behind %s", user, id, last)
				}
				seen[id], last = it.Post.AuthorID, id
				if deleted[id] {
					l.fail("I2", "home of %s shows %s, whose delete was answered before", user, id)
				}
				if slices.Contains(unfollowed, it.Post.AuthorID) {
					l.fail("I2", "home of %s shows %s of %s, who is not followed", user, id, it.Post.AuthorID)
				}
			}
			// What a home once showed it goes on showing while nothing changes that.
			for _, id := range sorted(l.seen[key]) {
				author := l.seen[key][id]
				if seen[id] == "" && !l.deleted[id] && !l.doubtful[id] && (author == user || slices.Contains(followed, author)) {
					l.fail("I7", "home of %s (pull %v) showed %s of %s before, and does not now", user, pull, id, author)
				}
			}
			l.seen[key] = seen
		},
	}
}

func wholeHome(ctx context.Context, s *feed.Service, user string, limit int, pull bool) ([]feed.HomeItem, error) {
	var items []feed.HomeItem
	page := feed.PageRequest{Limit: limit}
	for {
		list, err := s.Home(ctx, user, feed.HomeQuery{Pull: pull}, page)
		if err != nil {
			return nil, err
		}
		items = append(items, list.Items...)
		if list.NextCursor == "" {
			return items, nil
		}
		if len(list.Items) == 0 {
			return nil, fmt.Errorf("home of %s: an empty page has a cursor", user)
		}
		page.Cursor = list.NextCursor
	}
}

func clone2(m map[string]bool) map[string]bool {
	out := make(map[string]bool, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}
