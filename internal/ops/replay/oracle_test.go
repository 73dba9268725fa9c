package replay

import (
	"cmp"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawCalls draws a small history. Only some of its calls are answered.
func drawCalls(t *rapid.T) []entry {
	user := rapid.SampledFrom([]string{"a", "b", "c", "d"})
	answered := rapid.Bool()
	var calls []entry
	for _, u := range []string{"a", "b", "c", "d"} {
		calls = append(calls, entry{Call: callProfile, User: u, OK: true})
	}
	for range rapid.IntRange(0, 10).Draw(t, "follows") {
		if from, to := user.Draw(t, "from"), user.Draw(t, "to"); from != to {
			calls = append(calls, entry{Call: callFollow, User: from, Object: to, OK: answered.Draw(t, "answered")})
		}
	}
	posts := rapid.IntRange(0, 6).Draw(t, "posts")
	for i := range posts {
		e := entry{Call: callPost, User: user.Draw(t, "author"), Object: fmt.Sprintf("text %d", i)}
		if answered.Draw(t, "answered") {
			e.OK, e.ID = true, fmt.Sprintf("p%d", i)
		}
		calls = append(calls, e)
	}
	for range rapid.IntRange(0, 10).Draw(t, "likes") {
		if posts > 0 {
			post := fmt.Sprintf("p%d", rapid.IntRange(0, posts-1).Draw(t, "post"))
			calls = append(calls, entry{Call: callLike, User: user.Draw(t, "liker"), Object: post, Kind: kindOf(post), OK: answered.Draw(t, "answered")})
		}
	}
	return calls
}

// kindOf returns the kind of the reactions to a post, "" for likes.
func kindOf(post string) string { return map[string]string{"p0": "love", "p1": "wow"}[post] }

// drawAnswers draws the result of each maybe at random. A post may also have been created twice.
func drawAnswers(t *rapid.T, f *facts) *answers {
	coin := rapid.Bool()
	a := &answers{follows: map[string]map[string]bool{}, posts: map[string][]string{}, likes: map[string]map[string]bool{}}
	for _, from := range []string{"a", "b", "c", "d"} {
		a.follows[from] = map[string]bool{}
		for _, to := range []string{"a", "b", "c", "d"} {
			a.follows[from][to] = coin.Draw(t, "followed")
		}
	}
	for i, post := range f.posts {
		if post.id == "" {
			a.posts[post.text] = [][]string{nil, {fmt.Sprintf("m%d", i)}, {fmt.Sprintf("m%d", i), fmt.Sprintf("n%d", i)}}[rapid.IntRange(0, 2).Draw(t, "made")]
		} else {
			a.likes[post.id] = map[string]bool{}
			for _, user := range []string{"a", "b", "c", "d"} {
				a.likes[post.id][user] = coin.Draw(t, "liked")
			}
		}
	}
	return a
}

// bruteForce decides from the calls, for every post and viewer, whether the home must show the post.
func bruteForce(calls []entry, a *answers) (homes map[string]map[string]int, likes map[string]map[string]bool) {
	homes, likes = map[string]map[string]int{}, map[string]map[string]bool{}
	follows := func(viewer, author string) bool {
		for _, c := range calls {
			if c.Call == callFollow && c.User == viewer && c.Object == author && (c.OK || a.follows[viewer][author]) {
				return true
			}
		}
		return viewer == author
	}
	for _, viewer := range []string{"a", "b", "c", "d"} {
		homes[viewer] = map[string]int{}
		for _, c := range calls {
			if c.Call != callPost || !follows(viewer, c.User) {
				continue
			}
			if c.OK {
				homes[viewer][c.ID]++
			} else {
				for _, id := range a.posts[c.Object] {
					homes[viewer][id]++
				}
			}
		}
	}
	for _, c := range calls {
		if c.Call != callLike || !c.OK && !a.likes[c.Object][c.User] {
			continue
		}
		for _, p := range calls {
			if p.Call == callPost && p.OK && p.ID == c.Object {
				if likes[p.ID] == nil {
					likes[p.ID] = map[string]bool{}
				}
				likes[p.ID][c.User] = true
			}
		}
	}
	return homes, likes
}

func TestTheOracleAgreesWithBruteForce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		calls := drawCalls(t)
		f := factsOf(calls)
		a := drawAnswers(t, f)
		truth := f.settle(a)
		homes, likes := bruteForce(calls, a)
		deliveries := 0
		for viewer, want := range homes {
			got := truth.home(viewer)
			deliveries += len(want)
			require.Lenf(t, got, len(want), "home of %s is %v, want %v", viewer, got, want)
			for id := range want {
				require.Truef(t, got[id], "home of %s is %v, want %v", viewer, got, want)
			}
			var right []shown
			for id := range want {
				right = append(right, shownAs(truth, id, viewer, likes[id]))
			}
			if found := truth.checkHome(viewer, right); !found.clean() || found.delivered != len(want) {
				t.Fatalf("the right home of %s is found to have %+v", viewer, found)
			}
			checkPlanted(t, truth, viewer, right)
		}
		require.Equal(t, deliveries, truth.deliveries(), "deliveries expected")
		for id, users := range truth.likers {
			require.Lenf(t, users, len(likes[id]), "likes of %s: %v, want %v", id, users, likes[id])
		}
	})
}

// shownAs returns a post as a right home shows it. All likers react with the same kind.
func shownAs(truth *truth, post, viewer string, likers map[string]bool) shown {
	of := shown{post: post}
	kind := cmp.Or(kindOf(post), kindLike)
	if n := int64(len(likers)); n > 0 && kind == kindLike {
		of.likes, of.liked = n, likers[viewer]
	}
	if truth.reactions() == nil {
		return of
	}
	of.reactions = map[string]int64{}
	if n := int64(len(likers)); n > 0 {
		of.reactions[kind] = n
	}
	if likers[viewer] {
		of.reaction = kind
	}
	return of
}

// checkPlanted checks that each kind of fault in a right home is found. Each check plants one fault.
func checkPlanted(t *rapid.T, truth *truth, viewer string, right []shown) {
	strange := shown{post: "from elsewhere"}
	if f := truth.checkHome(viewer, append(right[:len(right):len(right)], strange)); f.unexpected != 1 || f.missing+f.duplicated+f.wrong != 0 {
		t.Fatalf("a strange post is found as %+v", f)
	}
	if len(right) == 0 {
		return
	}
	at := rapid.IntRange(0, len(right)-1).Draw(t, "at")
	if f := truth.checkHome(viewer, append(right[:len(right):len(right)], right[at])); f.duplicated != 1 || f.missing+f.unexpected+f.wrong != 0 {
		t.Fatalf("a post shown twice is found as %+v", f)
	}
	without := append(append([]shown(nil), right[:at]...), right[at+1:]...)
	if f := truth.checkHome(viewer, without); f.missing != 1 || f.unexpected+f.duplicated+f.wrong != 0 {
		t.Fatalf("a post left out is found as %+v", f)
	}
	changed := append([]shown(nil), right...)
	changed[at].liked = !changed[at].liked
	if f := truth.checkHome(viewer, changed); f.wrong != 1 || f.missing+f.unexpected+f.duplicated != 0 {
		t.Fatalf("a wrong like is found as %+v", f)
	}
	changed[at] = right[at]
	changed[at].reaction, changed[at].reactions = "shrug", map[string]int64{"shrug": 1}
	if f := truth.checkHome(viewer, changed); f.wrong != 1 || f.missing+f.unexpected+f.duplicated != 0 {
		t.Fatalf("a wrong reaction is found as %+v", f)
	}
}
