package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
)

// past is a network of the last two years, as a file and as its readers must see it.
type past struct {
	file string
	// posts are those of homes, by author.
	posts map[string][]string
	// follows are the authors that each user follows, and fans counts their followers.
	follows map[string][]string
	fans    map[string]int64
	// likes are the users that like each post.
	likes map[string]map[string]bool
	all   map[string]int64
}

// networkOfThePast writes the part of the real graph with the lowest numbers, and posts,
// comments and likes at random.
func networkOfThePast(t *testing.T, highest, posts int) *past {
	t.Helper()
	raw, err := os.Open(graph)
	require.NoError(t, err)
	defer raw.Close()
	p := &past{
		file: filepath.Join(t.TempDir(), "past.jsonl"), posts: map[string][]string{}, follows: map[string][]string{},
		fans: map[string]int64{}, likes: map[string]map[string]bool{}, all: map[string]int64{},
	}
	out, err := os.Create(p.file)
	require.NoError(t, err)
	defer out.Close()
	now, random := time.Now().Add(-time.Minute), rand.New(rand.NewPCG(1, 2))
	write := func(age time.Duration, fields ...string) {
		record := map[string]any{"time": now.Add(-age)}
		for i := 0; i < len(fields); i += 2 {
			record[fields[i]] = fields[i+1]
		}
		require.NoError(t, json.NewEncoder(out).Encode(record))
	}
	const day = 24 * time.Hour
	for in := bufio.NewScanner(raw); in.Scan(); {
		var a, b int
		if n, _ := fmt.Sscanf(strings.ReplaceAll(in.Text(), ",", " "), "%d %d", &a, &b); n != 2 || max(a, b) > highest {
			continue // a comment, or beyond the part
		}
		for _, pair := range [][2]string{{strconv.Itoa(a), strconv.Itoa(b)}, {strconv.Itoa(b), strconv.Itoa(a)}} {
			p.follows[pair[0]] = append(p.follows[pair[0]], pair[1])
			p.fans[pair[1]]++
			write(time.Duration(random.IntN(700))*day, "type", "follow", "follower_id", pair[0], "author_id", pair[1])
		}
	}
	users := slices.Sorted(maps.Keys(p.follows))
	anybody := func() string { return users[random.IntN(len(users))] }
	for _, user := range users {
		write(730*day, "type", "user", "id", user, "name", "User "+user)
	}
	for i := range posts {
		post, author, age := fmt.Sprintf("post-%d", i), anybody(), time.Duration(random.IntN([]int{29, 730}[i%2]*24))*time.Hour
		write(age, "type", "post", "id", post, "author_id", author, "text", post)
		if p.all[author]++; age < 29*day {
			p.posts[author] = append(p.posts[author], post)
		}
		write(age/2, "type", "comment", "id", post, "post_id", post, "author_id", anybody(), "text", "hm")
		p.likes[post] = map[string]bool{}
		for range random.IntN(5) {
			user := anybody()
			p.likes[post][user] = true
			write(time.Duration(random.Int64N(int64(age)+1)), "type", "like", "post_id", post, "user_id", user)
		}
	}
	return p
}

func TestAnImportThatIsKilledThreeTimesIsExact(t *testing.T) {
	t.Parallel()
	u := newUp(t)
	p := networkOfThePast(t, 150, 500)
	for _, phase := range []string{"users:", "follows:", "posts:"} { // it dies in the next one
		run := start(t, u.env, "fanfare", "import", "--data-dir", u.data, "--rate", "5000", p.file)
		await(t, phase, 2*time.Minute, func() bool { return strings.Contains(tail(run.log), phase) || !run.running() })
		run.kill(t)
		require.Error(t, run.err, "it was killed at its work")
	}
	stdout, stderr, err := fanfare(t, u.env, "import", "--data-dir", u.data, "--json", p.file)
	require.NoError(t, err, stderr)
	t.Log(strings.TrimSpace(stdout))

	up := u.start(t)
	api, err := client.New("http://" + u.http)
	require.NoError(t, err)
	for user := range p.follows {
		p.check(t, api, user)
	}
	up.stop(t)
}

// check reads a user's counts, home and posts, and compares them with the file.
func (p *past) check(t *testing.T, api *client.Client, user string) {
	t.Helper()
	token, err := api.DevToken(t.Context(), user, time.Hour)
	require.NoError(t, err)
	api = api.AsToken(token.Token)
	me, err := api.Me(t.Context())
	require.NoError(t, err)
	assert.Equal(t, client.Counts{Followers: p.fans[user], Following: int64(len(p.follows[user])), Posts: p.all[user]}, me.Counts)

	var want []string
	for _, author := range append(p.follows[user], user) {
		want = append(want, p.posts[author]...)
	}
	var got []string
	for item, err := range api.Home(client.Push).All(t.Context()) {
		require.NoError(t, err)
		if time.Since(item.Post.CreatedAt) < 29*24*time.Hour {
			got = append(got, item.Post.Text)
		}
	}
	assert.ElementsMatch(t, want, got, "home of %s", user)
	for post, err := range api.PostsByUser(user, client.PostRange{}).All(t.Context()) {
		require.NoError(t, err)
		count, err := api.LikeCount(t.Context(), post.ID)
		require.NoError(t, err)
		assert.Equal(t, len(p.likes[post.Text]), int(count.Count), "likes of %s", post.Text)
	}
}
