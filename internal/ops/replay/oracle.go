package replay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// facts has the intended effects of a record's calls. If a call was answered, its effect is sure. Otherwise
// the effect is a maybe.
type facts struct {
	users   map[string]bool            // true means sure
	follows map[string]map[string]bool // by follower and author: true means sure
	posts   []postFact
	likes   map[string]map[string]reaction // by post id and user
	away    map[string]bool                // true means sure
}

// reaction is a reaction that was requested.
type reaction struct {
	kind string
	sure bool
}

// postFact is a post that was requested. The id is "" if the answer is unknown.
type postFact struct{ author, text, id string }

func factsOf(calls []entry) *facts {
	f := &facts{
		users: map[string]bool{}, follows: map[string]map[string]bool{}, likes: map[string]map[string]reaction{}, away: map[string]bool{},
	}
	note := func(of map[string]map[string]bool, a, b string, sure bool) {
		if of[a] == nil {
			of[a] = map[string]bool{}
		}
		of[a][b] = of[a][b] || sure
	}
	for _, call := range calls {
		switch call.Call {
		case callProfile:
			f.users[call.User] = f.users[call.User] || call.OK
		case callFollow:
			note(f.follows, call.User, call.Object, call.OK)
		case callAway:
			f.away[call.User] = f.away[call.User] || call.OK
		case callPost:
			f.posts = append(f.posts, postFact{author: call.User, text: call.Object, id: call.ID})
		case callLike:
			of := f.likes[call.Object]
			if of == nil {
				of = map[string]reaction{}
				f.likes[call.Object] = of
			}
			of[call.User] = reaction{cmp.Or(call.Kind, kindLike), of[call.User].sure || call.OK}
		}
	}
	return f
}

// absencesSure reports whether all readers who should be away are away. If one of these readers may be
// present, the deliveries cannot be checked.
func (f *facts) absencesSure() bool {
	return !slices.Contains(slices.Collect(maps.Values(f.away)), false)
}

// answers has the results of the reads about the maybes of facts.
type answers struct {
	users   map[string]bool
	follows map[string]map[string]bool
	posts   map[string][]string // by text: the ids of the posts with this text
	likes   map[string]map[string]bool
}

// truth is the exact state that the service must show.
type truth struct {
	users     []string
	following map[string][]string
	followers map[string]int
	posts     map[string][]string // by author
	authors   map[string]string   // by post
	away      map[string]bool     // readers who were away for all posts
	// awayFollowers has the number of away followers of each author.
	awayFollowers map[string]int
	likers        map[string]map[string]string // the kind of each reaction, by post and user; every post has an entry
	kinds         map[string]int               // the number of reactions, by kind
	edges         int
	repeated      int // the number of posts that one call created twice
}

// settle computes the truth from the facts and from the answers about the maybes.
func (f *facts) settle(a *answers) *truth {
	t := &truth{
		following: map[string][]string{}, followers: map[string]int{},
		posts: map[string][]string{}, likers: map[string]map[string]string{}, kinds: map[string]int{},
		authors: map[string]string{}, away: map[string]bool{}, awayFollowers: map[string]int{},
	}
	if f.absencesSure() {
		maps.Copy(t.away, f.away)
	}
	for user, sure := range f.users {
		if sure || a.users[user] {
			t.users = append(t.users, user)
		}
	}
	slices.Sort(t.users)
	for follower, authors := range f.follows {
		for author, sure := range authors {
			if sure || a.follows[follower][author] {
				t.following[follower] = append(t.following[follower], author)
				t.followers[author]++
				if t.away[follower] {
					t.awayFollowers[author]++
				}
				t.edges++
			}
		}
	}
	for _, post := range f.posts {
		ids := []string{post.id}
		if post.id == "" {
			ids = a.posts[post.text]
		}
		if len(ids) > 1 {
			t.repeated += len(ids) - 1
		}
		for _, id := range ids {
			t.posts[post.author] = append(t.posts[post.author], id)
			t.likers[id], t.authors[id] = map[string]string{}, post.author
		}
	}
	for post, users := range f.likes {
		for user, of := range users {
			if (of.sure || a.likes[post][user]) && t.likers[post] != nil {
				t.likers[post][user] = of.kind
				t.kinds[of.kind]++
			}
		}
	}
	return t
}

// home returns the posts that a viewer's home must show exactly once (I1).
func (t *truth) home(viewer string) map[string]bool {
	ids := map[string]bool{}
	for _, author := range append([]string{viewer}, t.following[viewer]...) {
		for _, id := range t.posts[author] {
			ids[id] = true
		}
	}
	return ids
}

func (t *truth) deliveries() int {
	n := 0
	for author, posts := range t.posts {
		n += len(posts) * (1 + t.followers[author])
	}
	return n
}

func (t *truth) postIDs() []string { return slices.Sorted(maps.Keys(t.likers)) }

func (t *truth) likes() int {
	n := 0
	for _, users := range t.likers {
		n += len(users)
	}
	return n
}

// reactions returns the number of reactions by kind, nil if all reactions are of the kind like.
func (t *truth) reactions() map[string]int {
	if len(t.kinds) == 0 || len(t.kinds) == 1 && t.kinds[kindLike] > 0 {
		return nil
	}
	return t.kinds
}

// counts returns the number of reactions to a post, by kind.
func (t *truth) counts(post string) map[string]int64 {
	counts := map[string]int64{}
	for _, kind := range t.likers[post] {
		counts[kind]++
	}
	return counts
}

// finding is the result of one comparison with the truth.
type finding struct {
	delivered, missing, unexpected, duplicated, wrong int
	pulled                                            int    // the number of pulled posts
	example                                           string // the text about one fault
}

func (f finding) clean() bool { return f.missing+f.unexpected+f.duplicated+f.wrong == 0 }

func (f *finding) note(example string) {
	if f.example == "" {
		f.example = example
	}
}

func (f *finding) add(other finding) {
	f.delivered += other.delivered
	f.missing += other.missing
	f.unexpected += other.unexpected
	f.duplicated += other.duplicated
	f.wrong += other.wrong
	f.pulled += other.pulled
}

// shown is a post of a home, as the service returned it.
type shown struct {
	post  string
	likes int64
	liked bool
	// reactions has the counts by kind. It is nil if the service has no other kind than
	// like. reaction is the kind of the viewer's own reaction.
	reactions map[string]int64
	reaction  string
}

// checkHome compares a home with the truth.
func (t *truth) checkHome(viewer string, home []shown) finding {
	var f finding
	due := t.home(viewer)
	seen := make(map[string]bool, len(home))
	for _, item := range home {
		switch {
		case seen[item.post]:
			f.duplicated++
			f.note("post " + item.post + " twice in the home of " + viewer)
			continue
		case !due[item.post]:
			f.unexpected++
			f.note("post " + item.post + " does not belong in the home of " + viewer)
		default:
			f.delivered++
			if !t.rightReactions(viewer, item) {
				f.wrong++
				f.note("post " + item.post + " has wrong likes in the home of " + viewer)
			}
		}
		seen[item.post] = true
	}
	for post := range due {
		if !seen[post] {
			f.missing++
			f.note("post " + post + " is missing in the home of " + viewer)
		}
	}
	return f
}

// rightReactions reports whether a post of a home has the right counts and the right reaction of the viewer.
func (t *truth) rightReactions(viewer string, item shown) bool {
	counts, own := t.counts(item.post), t.likers[item.post][viewer]
	if item.likes != counts[kindLike] || item.liked != (own == kindLike) {
		return false
	}
	if item.reactions == nil && t.reactions() == nil {
		return true
	}
	return maps.Equal(item.reactions, counts) && item.reaction == own
}

// checkCounts compares a profile's counts with the truth.
func (t *truth) checkCounts(user string, followers, following, posts int64) finding {
	var f finding
	for _, c := range []struct {
		what      string
		got, want int64
	}{
		{"followers", followers, int64(t.followers[user])},
		{"following", following, int64(len(t.following[user]))},
		{"posts", posts, int64(len(t.posts[user]))},
	} {
		if c.got != c.want {
			f.wrong++
			f.note(countOff(c.what+" of "+user, c.got, c.want))
		}
	}
	return f
}

// checkLikes compares a post's like count, and the post's counts by kind, with the truth.
func (t *truth) checkLikes(post string, count int64, counts map[string]int64) finding {
	var f finding
	want := t.counts(post)
	if count != want[kindLike] {
		f.wrong++
		f.note(countOff("likes of post "+post, count, want[kindLike]))
	}
	if !maps.Equal(counts, want) {
		f.wrong++
		f.note(fmt.Sprintf("reactions to post %s: %v, want %v", post, counts, want))
	}
	return f
}

func countOff(what string, got, want int64) string {
	return fmt.Sprintf("%s: %d, want %d", what, got, want)
}
