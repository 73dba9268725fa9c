package sim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"fanfare/internal/feed"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/page"
	"fanfare/internal/queue"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/messages"
)

// operation is one call of a user. A user makes one call at a time, so the answers to a user are in order.
// Different users call at the same time.
type operation struct {
	number int // 0 if the operation is not part of the workload
	serial int // the serial number among the user's operations outside the workload
	api    *Proc
	silent bool // the API has notifications off
	name   string
	user   string
	do     func(ctx context.Context, s *domain) error
	settle func(err error) // runs on the driver after the answer
	err    error
	done   chan struct{}
	// stored is the version of the user's stored action on the post at the beginning of a like or an
	// unlike, "" for no action.
	stored string
}

// id returns the name of the operation, which its events have, too. An operation of the world
// itself has the number 0, so its user and its serial number are part of the name.
func (op *operation) id() string {
	if op.number == 0 {
		return fmt.Sprintf("op0-%s-%d", op.user, op.serial)
	}
	return fmt.Sprintf("op%d", op.number)
}

// pair is a possible follow: a user and an author.
type pair struct{ follower, author string }

// likeKey identifies one user's like of one post.
type likeKey struct{ post, user string }

// homeOf is one user's home, by push or by pull.
type homeOf struct {
	user string
	pull bool
}

// published is the latest durable action of a user on a post.
type published struct {
	version string
	kind    string // the reaction, "" for none
	events  int
}

// workload makes operations from the seed and records their answers. It is the oracle's view from
// outside.
type workload struct {
	w     *World
	users []string
	// clients make the operations: the users, and the clients of the leaver.
	clients []string
	apis    []*Proc
	serve   map[*Proc]*domain
	due     []planned // operations that have not started yet
	made    int
	busy    map[string]*operation

	posts    []string       // the ids in answers, in order
	number   map[string]int // the number of the operation that made a post
	serials  map[string]int // the number of a user's operations outside the workload
	owner    map[string]string
	accepted map[string]bool // posts whose creation was answered with success
	deleted  map[string]bool // deletes answered with success
	doubtful map[string]bool // deletes without an answer
	// taken has, by post, the answered take-downs.
	taken map[string]feed.TakeDown

	follows map[pair]bool // the state in the last answer
	// maybe has follows (true) and unfollows without an answer, which may still have an effect. A
	// later answer to a call of the same kind settles such a call: the later call found the same
	// state, or made the condition of the earlier call fail for good.
	maybe map[pair]map[bool]bool

	mutes, blocks map[pair]*hidden
	kept          map[likeKey]*hidden // bookmarks
	reposts       reposts
	marks         map[table.Key]*marked
	// contested has the follows that another user's block may end at any time.
	contested map[pair]bool

	// These fields have the durable events, as the queues saw them.
	created map[string]string // post -> author
	likes   map[likeKey]published
	bad     []string // ids of messages that must end as dead letters
	keys    map[string]string

	comments map[string]*comment // the answered comments, by id
	texts    map[string]*text    // the texts of the answered posts, by post
	// seen has the posts that the last whole home of a user showed, by source.
	seen map[homeOf]map[string]string // post -> author
	// watches has the live homes.
	watches map[string]*watch

	violations []string
}

// planned is an operation of the workload before its start. The stream of its draws depends only on
// its number. So if other operations are left out, the operation can differ only because other
// posts exist.
type planned struct {
	number int
	user   string
	kind   string
	// skip means that the operation is left out when its turn comes.
	skip bool
}

// plan returns the operations from one number to another.
func (l *workload) plan(o Options, first, last int) []planned {
	var all []planned
	for n := first; n <= last; n++ {
		skip := o.Keep != nil && !slices.Contains(o.Keep, n)
		user, kind := l.w.shape.drawn(l.w.seed, n)
		all = append(all, planned{n, l.users[user], kind, skip})
	}
	return all
}

// draws returns a stream of random numbers for one operation.
func draws(seed uint64, number, stream int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(number)<<8|uint64(stream)))
}

func newWorkload(w *World) *workload {
	return &workload{
		w: w, users: w.shape.names(), clients: append(w.shape.names(), lifeClients()...), serve: map[*Proc]*domain{}, busy: map[string]*operation{},
		number: map[string]int{}, serials: map[string]int{}, comments: map[string]*comment{}, texts: map[string]*text{}, owner: map[string]string{}, accepted: map[string]bool{}, deleted: map[string]bool{}, doubtful: map[string]bool{}, taken: map[string]feed.TakeDown{},
		mutes: map[pair]*hidden{}, blocks: map[pair]*hidden{}, kept: map[likeKey]*hidden{}, reposts: reposts{map[string]string{}, map[likeKey]bool{}}, marks: map[table.Key]*marked{}, contested: map[pair]bool{},
		follows: map[pair]bool{}, maybe: map[pair]map[bool]bool{}, created: map[string]string{}, likes: map[likeKey]published{},
		keys: map[string]string{}, seen: map[homeOf]map[string]string{}, watches: map[string]*watch{},
	}
}

func (l *workload) fail(invariant, format string, args ...any) {
	v := invariant + ": " + fmt.Sprintf(format, args...)
	l.violations = append(l.violations, v)
	l.w.note("VIOLATION %s", v)
}

// published is called with every message that became durable on a topic.
func (w *World) published(topic string, payload []byte) {
	e, err := messages.Decode(payload)
	if err != nil || w.load == nil {
		return
	}
	w.sawNoticeSent(topic, e)
	w.sawMessage(e)
	w.counting.wrote[e.Head().RequestID]++
	l := w.load
	if e, ok := e.(*messages.PostCreated); ok {
		w.counting.own[e.PostID] = w.counting.own[e.PostID] || e.LikeShards > 0
		w.stories.sawEvent(e)
		if _, known := l.created[e.PostID]; !known && e.AuthorID != leaver && e.AuthorID != teller && e.AuthorID != historian(0) {
			l.created[e.PostID] = e.AuthorID
			if e.RepostOf != "" {
				l.reposts.of[e.PostID] = e.RepostOf
			}
		}
	}
	if _, repost := e.(*messages.Reposted); repost {
		return // checkLikes counts the living reposts themselves
	}
	if like, kind, ok := messages.ActionOf(e); ok {
		w.recorded.published(like)
		l.reacted(like, kind)
	}
}

// reacted records an action. The latest action is the action with the highest id. The later of two
// actions of one user may have the lower id if the clocks of the APIs differ, but only if the
// earlier action is not stored when the later action begins.
func (l *workload) reacted(e *messages.Like, kind string) {
	k := likeKey{e.PostID, e.UserID}
	stored := l.w.book.likes[e.PostID][e.UserID].Version // "" if the post was deleted meanwhile
	if op := l.busy[e.UserID]; op != nil && op.id() == e.RequestID && e.EventID <= op.stored && op.stored <= stored {
		l.fail("I3", "the action %s of %s on %s loses against %s, which was stored before it began", e.EventID, e.UserID, e.PostID, op.stored)
	}
	p := l.likes[k]
	p.events++
	if e.EventID > p.version {
		p.version, p.kind = e.EventID, kind
	}
	l.likes[k] = p
}

// next starts the first operation whose user has no open operation, if an API is up for the
// operation.
func (l *workload) next() bool {
	i := slices.IndexFunc(l.due, func(p planned) bool { return l.busy[p.user] == nil })
	if i < 0 {
		return false
	}
	p := l.due[i]
	if p.skip {
		l.due = slices.Delete(l.due, i, i+1)
		return true
	}
	r := draws(l.w.seed, p.number, 1)
	api := l.apis[r.IntN(len(l.apis))]
	if !api.up() { // the client calls the next API
		api = l.apis[(slices.Index(l.apis, api)+1)%len(l.apis)]
	}
	if !api.up() {
		return false
	}
	l.due = slices.Delete(l.due, i, i+1)
	if p.kind == "life" && !l.w.lives.serves(api) {
		return true
	}
	op := l.pick(r, p)
	op.number = p.number
	l.run(op, api)
	return true
}

func (p *Proc) up() bool { return !p.dead && !p.ending && !time.Now().Before(p.paused) }

func (l *workload) run(op *operation, api *Proc) {
	if op.number > 0 {
		l.made++
	} else {
		l.serials[op.user]++
		op.serial = l.serials[op.user]
	}
	op.done = make(chan struct{})
	l.busy[op.user] = op
	name := op.id()
	l.w.begins(op)
	l.w.note("start %s %s %s at %s", name, op.user, op.name, api.Name)
	service := l.serve[api]
	op.api, op.silent = api, api.silent
	life := api.life.ctx // a stop lets requests finish
	api.run(func() {
		ctx, cancel := context.WithTimeout(withOp(life, name), 20*time.Second)
		defer cancel()
		op.err = op.do(ctx, service)
		close(op.done)
	})
	l.w.settle() // the first call of an operation is made before the next operation starts
}

// settled handles the answers to operations, in the order of their users.
func (l *workload) settled() {
	l.w.settle()
	for _, user := range append(slices.Clone(l.clients), auditor) {
		op := l.busy[user]
		if op == nil {
			continue
		}
		select {
		case <-op.done:
			delete(l.busy, user)
			l.w.note("end %s %s: %v", user, op.name, op.err)
			l.w.performed.ended(op.id(), op.err)
			l.w.checkRefused(op)
			op.settle(op.err)
		default:
		}
	}
}

// pick makes an operation from its draws. If the operation needs a post and no post exists, pick
// makes a read of a home.
func (l *workload) pick(r *rand.Rand, p planned) *operation {
	user := p.user
	var op *operation
	switch p.kind {
	case "post":
		op = l.createPost(r, p)
	case "delete":
		op = l.deletePost(r, user)
	case "follow":
		op = l.follow(r, user, true)
	case "unfollow":
		op = l.follow(r, user, false)
	case "like":
		op = l.react(r, user, schema.KindLike)
	case "react":
		op = l.react(r, user, kinds()[r.IntN(len(kinds()))])
	case "unlike":
		op = l.react(r, user, "")
	case "comment":
		op = l.comment(r, p)
	case "uncomment":
		op = l.uncomment(r, user)
	case "comments":
		op = l.readComments(r, user)
	case "edit":
		op = l.edit(r, p)
	case "poison":
		op = l.poison(r, p)
	case "stray":
		op = l.stray(r, p)
	case "burst":
		op = l.burst(r, p)
	case "marker":
		op = l.marker(r, p)
	case "repost", "unrepost":
		op = l.repost(r, user, p.kind == "repost")
	case "bookmark", "unbookmark":
		op = l.bookmark(r, user, p.kind == "bookmark")
	case "mute", "unmute", "block", "unblock":
		op = l.hide(r, user, p.kind)
	case "profile":
		name := user
		if r.IntN(3) > 0 {
			name = fmt.Sprintf("%s %d", user, p.number)
		}
		op = l.profile(user, name)
		if r.IntN(2) == 0 {
			op.do = beside(op.do, l.profile(user, name+" too").do)
		}
	case "stream":
		op = l.stream(r, user)
	case "life":
		op = l.lifeOp(r, p)
	case "read":
		op = l.read(r, p)
	case "notices", "notice page", "notice mark":
		op = l.readNotices(r, p)
	}
	if op == nil {
		op = l.home(r, user)
	}
	return op
}

// choose draws one of some posts. Each post draws a lot by the number of its operation, so the
// choice stays the same if another post is missing.
func (l *workload) choose(r *rand.Rand, posts []string) string {
	return posts[choose(r, posts, func(post string) string { return strconv.Itoa(l.number[post]) })]
}

func (l *workload) profile(user, name string) *operation {
	return &operation{
		name: "profile", user: user,
		do: func(ctx context.Context, s *domain) error {
			_, err := s.PutProfile(ctx, user, feed.ProfileInput{Name: name})
			return err
		},
		settle: func(error) {},
	}
}

func (l *workload) createPost(r *rand.Rand, p planned) *operation {
	user := p.user
	var post feed.Post
	in := feed.PostInput{Content: feed.Content{Text: fmt.Sprintf("post %d", p.number)}}
	if r.IntN(3) == 0 {
		in.IdempotencyKey = fmt.Sprintf("key-%d", r.IntN(4))
		in.Text = in.IdempotencyKey
	} else if r.IntN(3) == 0 {
		in.Images = drawnImages(r, p.number)
	}
	bound := in.IdempotencyKey != "" && l.keys[user+" "+in.IdempotencyKey] != "" && l.w.binds(l.keys[user+" "+in.IdempotencyKey])
	made := &operation{
		name: "post " + in.Text, user: user,
		do: func(ctx context.Context, s *domain) (err error) {
			post, err = s.CreatePost(ctx, user, in)
			return err
		},
		settle: func(err error) {
			if bound && refusedByHour(err) {
				l.fail("I11", "the key %s of %s is bound, and its call was refused: %v", in.IdempotencyKey, user, err)
			}
			if err != nil {
				return
			}
			if in.IdempotencyKey != "" {
				key := user + " " + in.IdempotencyKey
				if bound, ok := l.keys[key]; ok && bound != post.ID && l.w.binds(bound) {
					l.fail("I1", "idempotency key %s gave post %s, then %s", key, bound, post.ID)
				}
				l.keys[key] = post.ID
			}
			if _, durable := l.created[post.ID]; !durable {
				l.fail("I5", "post %s was answered before it was durable", post.ID)
			}
			if !l.accepted[post.ID] {
				l.posts = append(l.posts, post.ID)
				l.number[post.ID] = p.number
				l.texts[post.ID] = newText(in.Content)
			}
			l.owner[post.ID], l.accepted[post.ID] = user, true
		},
	}
	if r.IntN(6) == 0 {
		made.do = beside(made.do, l.profile(user, fmt.Sprintf("%s %d", user, p.number)).do)
	}
	return made
}

// beside calls several functions for one user at the same time. Each call begins in a turn of its
// own, because the first call makes a read that all calls share. The oracle uses only the answer of
// do.
func beside(do func(context.Context, *domain) error, others ...func(context.Context, *domain) error) func(context.Context, *domain) error {
	return func(ctx context.Context, s *domain) error {
		var all sync.WaitGroup
		for i, other := range others {
			all.Go(func() {
				ctx := withOp(ctx, fmt.Sprintf("%s beside %d", opOf(ctx), i))
				s.turn(ctx)
				_ = other(ctx, s) // the oracle uses no answer of these calls
			})
		}
		defer all.Wait()
		s.turn(ctx)
		return do(ctx, s)
	}
}

func (l *workload) deletePost(r *rand.Rand, user string) *operation {
	var own []string
	for _, p := range l.posts {
		if l.owner[p] == user && !l.deleted[p] {
			own = append(own, p)
		}
	}
	if len(own) == 0 {
		return nil
	}
	post := l.choose(r, own)
	unmade := slices.DeleteFunc(slices.Clone(own), func(post string) bool { return l.w.refOf(post) != nil || l.w.mayHaveExpired(post) })
	// An edit without an answer may still conflict with the delete, and so may a write of the post.
	late := slices.DeleteFunc(own, func(post string) bool {
		return len(slices.Concat(l.texts[post].maybe[:]...)) == 0 && !l.w.underWay(post)
	})
	if len(late) > 0 {
		post = l.choose(r, late)
	}
	if len(unmade) > 0 { // a worker makes the post, unless the deletion keeps it away
		post = l.choose(r, unmade)
	}
	l.doubtful[post] = true // the call's effect may happen before its answer
	if len(unmade) == 0 && r.IntN(3) == 0 {
		return l.takeDown(user, post)
	}
	return l.deleteOf(user, post)
}

// deleteOf deletes a post. A process whose clock is right never answers that there is no such post, and the post appears
// later (I2).
func (l *workload) deleteOf(user, post string) *operation {
	op := &operation{
		name: "delete " + post, user: user,
		do: func(ctx context.Context, s *domain) error { return s.DeletePost(ctx, user, post) },
	}
	op.settle = func(err error) {
		l.deleted[post] = l.deleted[post] || err == nil || isNotFound(err) && !l.w.hours && !l.farAhead(op.api)
	}
	return op
}

// underWay reports whether a transaction on a post may still take effect, or a sleeping worker has
// read a notification about the post.
func (w *World) underWay(post string) bool {
	for _, c := range w.parked {
		if c.proc.asleep && c.due > 0 && c.class == "batch_get notif" && strings.HasSuffix(c.about, post) {
			return true
		}
	}
	return slices.ContainsFunc(w.lates, func(l lateEffect) bool {
		return slices.ContainsFunc(l.ops, func(op table.TransactOp) bool { return op.Key() == schema.PostByIDKey(post) })
	})
}

func (l *workload) other(r *rand.Rand, user string) string {
	for {
		if o := l.users[r.IntN(len(l.users))]; o != user {
			return o
		}
	}
}

func (l *workload) follow(r *rand.Rand, user string, on bool) *operation {
	author := l.other(r, user)
	if l.w.shape.Mix == crowd && r.IntN(4) > 0 && user != l.users[0] {
		author = l.users[0]
	} else if r.IntN(2) == 0 { // some users follow, unfollow and follow again, so that old events meet new events
		author = l.users[(slices.Index(l.users, user)+1)%len(l.users)]
	}
	op := l.followOf(user, author, on, r.IntN(3))
	imported := on && r.IntN(5) == 0
	silent := on && r.IntN(4) == 0
	switch {
	case imported:
		op.name, op.do = "import a follow of "+author, l.importFollow(r, user, author, silent)
	case silent:
		op.do = func(ctx context.Context, s *domain) error { return s.FollowSilently(ctx, user, author) }
	}
	if silent {
		op.name += silently
	}
	return op
}

// importFollow makes a follow in the way of an import beside running processes. Each repetition has
// the same time, years ago, and the same first post of the author. A home requests the backfill.
func (l *workload) importFollow(r *rand.Rand, user, author string, silent bool) func(context.Context, *domain) error {
	from := id.Min
	if own := slices.DeleteFunc(slices.Clone(l.posts), func(post string) bool { return l.owner[post] != author }); len(own) > 0 {
		from = l.choose(r, own)
	}
	return func(ctx context.Context, s *domain) error {
		_, err := s.ImportFollow(ctx, feed.PastFollow{Follower: user, Author: author, From: from, Since: time.Unix(1e8, 0), Silent: silent})
		return err
	}
}

// followOf makes the call of a client that repeats a call without an answer, although the first
// call may still take effect.
func (l *workload) followOf(user, author string, on bool, retries int) *operation {
	p := pair{user, author}
	name := map[bool]string{true: "follow ", false: "unfollow "}[on] + author
	l.forgetSeen(user, author)
	return &operation{
		name: name, user: user,
		do: func(ctx context.Context, s *domain) error {
			do := s.Unfollow
			if on {
				do = s.Follow
			}
			err := do(ctx, user, author)
			for ; err != nil && retries > 0; retries-- {
				err = do(ctx, user, author)
			}
			return err
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

// unsure reports whether a call without an answer may still end in a follow or an unfollow.
func (l *workload) unsure(p pair) bool { return len(l.maybe[p]) > 0 || l.contested[p] }

// react makes a call that sets the user's reaction to a post to kind, "" for none.
func (l *workload) react(r *rand.Rand, user, kind string) *operation {
	if len(l.posts) == 0 {
		return nil
	}
	// A few posts get most of the likes, and each user acts on these posts repeatedly.
	post := l.choose(r, l.posts[:min(len(l.posts), 4)])
	if r.IntN(4) == 0 {
		post = l.choose(r, l.posts)
	}
	before := l.likes[likeKey{post, user}].events
	refused := func() {}
	if kind != "" {
		refused = l.refusedFor(user, l.owner[post], blockSeen)
	}
	var op *operation
	op = &operation{
		stored: l.w.book.likes[post][user].Version,
		name:   cmp.Or(kind, "unlike") + " " + post, user: user,
		do: func(ctx context.Context, s *domain) error {
			if kind == "" {
				return s.Unlike(ctx, user, post)
			}
			return s.React(ctx, user, post, kind)
		},
		settle: func(err error) {
			if err == nil && l.likes[likeKey{post, user}].events == before {
				l.fail("I5", "a reaction to %s by %s was answered, no event is durable", post, user)
			}
			if err == nil && time.Since(op.api.back) >= blockSeen {
				refused()
			}
		},
	}
	return op
}

// blockSeen is longer than the time for which a like may miss a block: an API assumes for two
// seconds that an author has no blocks, after two reads that may be stale.
const blockSeen = 10 * time.Second

// poison sends a message that no consumer can process: it must end as a dead letter.
func (l *workload) poison(r *rand.Rand, p planned) *operation {
	name := fmt.Sprintf("bad-%d", p.number)
	payload := `{"type":"PostCreated","version":99,"event_id":"` + name + `"}`
	topics := queue.Topics()
	topic := topics[r.IntN(len(topics))]
	return &operation{
		name: "poison " + topic, user: p.user,
		do: func(context.Context, *domain) error { return nil },
		settle: func(error) {
			l.w.put(topic, name, name, []byte(payload))
			l.bad = append(l.bad, name)
		},
	}
}

// home reads a whole home and checks the rules that always hold: no shown post is deleted or by an
// unfollowed author (I2), and each post appears once (I7).
func (l *workload) home(r *rand.Rand, user string) *operation {
	deleted := clone2(l.deleted)
	unfollowed, followed := l.certain(user)
	unseen := l.unseenBy(user)
	limit := 1 + r.IntN(4)
	pull := r.IntN(3) == 0
	key := homeOf{user, pull}
	must := l.owed(user, slices.Clone(followed))
	undelivered := l.undelivered(key)
	var items []feed.HomeItem
	var first string
	var late map[string]bool
	var ahead bool
	var op *operation
	op = &operation{
		name: fmt.Sprintf("home limit %d pull %v", limit, pull), user: user,
		do: func(ctx context.Context, s *domain) (err error) {
			ahead = l.farAhead(op.api)
			late = l.w.late(op.api, user, pull)
			items, first, err = wholeHome(ctx, s, user, limit, pull)
			return err
		},
		settle: func(err error) {
			if err != nil {
				return
			}
			maps.DeleteFunc(late, func(id string, _ bool) bool { return id < first })
			l.uncontested(user, must)
			l.uncontested(user, l.seen[key])
			l.checkOnce(user, items, unseen, deleted)
			seen := map[string]string{}
			last := "~"
			for _, it := range items {
				l.sees(it.Post)
				id := it.Post.ID
				if seen[id] != "" {
					l.fail("I7", "home of %s shows %s twice", user, id)
				}
				if id >= last {
					l.fail("I7", "home of %s shows %s after %s", user, id, last)
				}
				seen[id], last = it.Post.AuthorID, id
				if deleted[id] {
					l.fail("I2", "home of %s shows %s, whose delete was answered before", user, id)
				}
				if slices.Contains(unfollowed, it.Post.AuthorID) {
					l.fail("I2", "home of %s shows %s of %s, an unfollowed or muted author", user, id, it.Post.AuthorID)
				}
			}
			// A home shows a post until a delete or an unfollow. But an API whose clock is far ahead ends
			// the merging of a mark too early, while a fan-out is running.
			for _, id := range sorted(l.seen[key]) {
				author := l.seen[key][id]
				if seen[id] == "" && !ahead && !late[id] && !undelivered[id] && !l.w.mayHaveExpired(id) && !l.deleted[id] && !l.doubtful[id] && !l.mayLack(user, id, seen) && (author == user || slices.Contains(followed, author)) {
					l.fail("I7", "home of %s (pull %v) showed %s of %s before, and does not now", user, pull, id, author)
				}
			}
			l.seen[key] = seen
			if !ahead {
				maps.DeleteFunc(must, func(id, _ string) bool { return late[id] })
				l.lacks(user, pull, must, seen)
			}
		},
	}
	if r.IntN(3) == 0 { // pages of different sizes share the reads of some posts
		firstPage := func(limit int) func(context.Context, *domain) error {
			return func(ctx context.Context, s *domain) error {
				_, err := s.Home(ctx, user, home.Query{Pull: pull}, page.Request{Limit: limit})
				return err
			}
		}
		others := []func(context.Context, *domain) error{firstPage(1), firstPage(5)}
		if len(l.posts) > 0 { // news do not contain the oldest posts
			after := home.Query{After: l.choose(r, l.posts)}
			others = append(others, func(ctx context.Context, s *domain) error {
				_, err := s.HomeNews(ctx, user, after, page.Request{Limit: limit})
				return err
			})
		}
		op.do = beside(op.do, others...)
	}
	return op
}

// certain returns two lists of authors according to the answers: the authors that user does not follow or
// mutes, and the authors that user follows.
func (l *workload) certain(user string) (unfollowed, followed []string) {
	for _, author := range l.users {
		p := pair{user, author}
		mute := l.mutes[p]
		switch {
		case mute.certain():
			unfollowed = append(unfollowed, author)
		case author == user || l.unsure(p) || mute != nil && mute.doubtful:
		case l.follows[p]:
			followed = append(followed, author)
		default:
			unfollowed = append(unfollowed, author)
		}
	}
	return unfollowed, followed
}

// farAhead reports whether the clock of an API may be so far ahead that the API ends the merging of
// marks too early.
func (l *workload) farAhead(api *Proc) bool {
	return l.w.hours || time.Duration(api.skew.Load()) >= messages.MaxAhead
}

// wholeHome reads a home to its end. It also returns the last post of the first page, or "" if the
// home has only one page.
func wholeHome(ctx context.Context, s *domain, user string, limit int, pull bool) (items []feed.HomeItem, first string, err error) {
	page := page.Request{Limit: limit}
	for {
		list, err := s.Home(ctx, user, home.Query{Pull: pull}, page)
		if err != nil {
			return nil, "", err
		}
		items = append(items, list.Items...)
		if list.NextCursor == "" {
			return items, first, nil
		}
		if list.NextCursor == page.Cursor {
			return nil, "", fmt.Errorf("home of %s: a page does not move on", user)
		}
		if page.Cursor == "" && len(items) > 0 {
			first = items[len(items)-1].Post.ID
		}
		page.Cursor = list.NextCursor
	}
}

func clone2(m map[string]bool) map[string]bool {
	out := make(map[string]bool, len(m))
	maps.Copy(out, m)
	return out
}
