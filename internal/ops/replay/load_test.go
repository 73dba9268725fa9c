package replay

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func reed(t *testing.T, users int) *Graph {
	t.Helper()
	g, err := ReadGraph("../../../testdata/graphs/socfb-Reed98.edges", false)
	require.NoError(t, err)
	return g.BestConnected(users)
}

func TestTheSeedDecidesTheLoad(t *testing.T) {
	t.Parallel()
	g := reed(t, 50)
	loads := make([]*load, 3)
	for i, seed := range []uint64{1, 1, 2} {
		var err error
		loads[i], err = newLoad(Config{Graph: g, Posts: 100, Likes: 1000, Seed: seed})
		require.NoError(t, err)
	}
	if !reflect.DeepEqual(loads[0], loads[1]) || reflect.DeepEqual(loads[0], loads[2]) {
		t.Error("one seed makes two loads, or two seeds make one")
	}
}

func TestALoadHasTheRequestedSize(t *testing.T) {
	t.Parallel()
	g := reed(t, 40)
	for _, size := range [][2]int{{0, 0}, {1, 0}, {1, 40}, {100, 4000}, {200, 900}} {
		l, err := newLoad(Config{Graph: g, Posts: size[0], Likes: size[1], Seed: 7})
		require.NoError(t, err)
		posted, likes := map[int]bool{}, map[[2]int]bool{}
		most := map[int]int{}
		for _, a := range l.actions {
			if a.like == "" {
				posted[a.post] = true
				continue
			}
			if !posted[a.post] || likes[[2]int{a.post, a.user}] {
				t.Fatalf("like %+v comes before its post, or twice", a)
			}
			likes[[2]int{a.post, a.user}] = true
			most[a.post]++
		}
		if len(posted) != size[0] || len(likes) != size[1] {
			t.Errorf("%d posts and %d likes, want %v", len(posted), len(likes), size)
		}
		for post, author := range l.authors {
			if w := l.watchers[post]; w == author || w < 0 {
				t.Errorf("post %d of %d is watched by %d", post, author, w)
			}
		}
		if size[1] == 900 && len(most) > 190 {
			t.Errorf("900 likes went to %d of 200 posts: no heavy tail", len(most))
		}
	}
	_, err := newLoad(Config{Graph: g, Posts: 2, Likes: 81, Seed: 1})
	assert.ErrorIs(t, err, ErrUsage, "more likes than pairs")
}
