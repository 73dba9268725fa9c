package replay

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// load is the work of a run. The seed decides the whole load before the run begins.
type load struct {
	graph       *Graph
	followOrder []int // a permutation of the graph's edges
	authors     []int // the author of each post
	watchers    []int // for each post the follower whose home is watched, or -1
	away        []bool
	actions     []action
}

// action creates a post, or reacts to a post. The field post is the number of the post.
type action struct {
	post, user int
	like       string // the kind of the reaction, "" for a post
}

// kindLike is the kind of reaction that every service has.
const kindLike = "like"

// likeSkew is the skew of the likes: a few posts get most likes, as in real feeds.
const likeSkew = 1.1

// newLoad draws the load of a run. An author gets posts in proportion to the number of
// followers, because popular users write most. Likes follow Zipf's law, and each like gets a
// random kind. A share of the users is away, and their homes are not watched.
func newLoad(cfg Config) (*load, error) {
	g, posts, likes := cfg.Graph, cfg.Posts, cfg.Likes
	if posts < 0 || likes < 0 || likes > posts*len(g.Names) {
		return nil, fmt.Errorf("%w: %d likes of %d posts by %d users cannot all be different ones", ErrUsage, likes, posts, len(g.Names))
	}
	random, kinds := rand.New(rand.NewPCG(cfg.Seed, 0)), append([]string{kindLike}, cfg.Reactions...)
	l := &load{graph: g, followOrder: random.Perm(len(g.Edges)), away: awayUsers(len(g.Names), cfg.Away, cfg.Seed)}
	followers := make([][]int, len(g.Names))
	for _, e := range g.Edges {
		followers[e.To] = append(followers[e.To], e.From)
	}
	order := make([]float64, 0, posts+likes) // the time of each action
	for i := range posts {
		author := random.IntN(len(g.Names))
		if len(g.Edges) > 0 {
			author = g.Edges[random.IntN(len(g.Edges))].To
		}
		watcher := -1
		if of := followers[author]; len(of) > 0 {
			if watcher = of[random.IntN(len(of))]; l.away[watcher] {
				watcher = -1
			}
		}
		l.authors, l.watchers = append(l.authors, author), append(l.watchers, watcher)
		l.actions = append(l.actions, action{post: i, user: author})
		order = append(order, float64(i))
	}
	if likes > 0 {
		popular := random.Perm(posts)
		zipf := rand.NewZipf(random, likeSkew, 1, uint64(posts-1))
		ofKind := rand.New(rand.NewPCG(cfg.Seed, 2)) // a separate generator: more kinds do not change a seed's likes
		likers := make([]map[int]bool, posts)
		for range likes {
			rank := int(zipf.Uint64()) // rank is below posts
			for len(likers[popular[rank]]) == len(g.Names) {
				rank = (rank + 1) % posts
			}
			post, user := popular[rank], random.IntN(len(g.Names))
			for likers[post][user] {
				user = (user + 1) % len(g.Names)
			}
			if likers[post] == nil {
				likers[post] = map[int]bool{}
			}
			likers[post][user] = true
			l.actions = append(l.actions, action{post: post, user: user, like: kinds[ofKind.IntN(len(kinds))]})
			order = append(order, float64(post)+random.Float64()*float64(posts-post))
		}
	}
	l.sort(order)
	return l, nil
}

// sort orders the actions by time. A post precedes its likes.
func (l *load) sort(at []float64) {
	index := make([]int, len(l.actions))
	for i := range index {
		index[i] = i
	}
	slices.SortStableFunc(index, func(a, b int) int {
		switch {
		case at[a] < at[b]:
			return -1
		case at[a] > at[b]:
			return 1
		}
		return 0
	})
	sorted := make([]action, len(index))
	for to, from := range index {
		sorted[to] = l.actions[from]
	}
	l.actions = sorted
}
