package e2e

import (
	"bufio"
	"encoding/json"
	"flag"
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

// These flags set the size of the network of TestAnImportThatIsKilledThreeTimesIsExact. make import-crash
// uses the whole graph.
var (
	importUsers = flag.Int("import-users", 150, "the highest number of a user of the graph that is imported, 0 for all")
	importPosts = flag.Int("import-posts", 500, "posts that are imported")
)

// past is a network of the last two years: its file, and the data that readers must see.
type past struct {
	file string
	// records has the number of lines of each kind in the file. edges is the file's part of the graph,
	// for replay.
	records map[string]int
	edges   string
	// posts are the posts that homes show, by author.
	posts map[string][]string
	// follows has the authors that each user follows, and fans has the number of followers of each
	// author.
	follows map[string][]string
	fans    map[string]int64
	// likes has the users who like each post.
	likes map[string]map[string]bool
	all   map[string]int64
}

// networkOfThePast writes the users of the real graph with the lowest numbers up to highest, or all users
// if highest is 0. It adds random posts, comments and likes.
func networkOfThePast(t *testing.T, highest, posts int) *past {
	t.Helper()
	raw, err := os.Open(graph)
	require.NoError(t, err)
	defer raw.Close()
	p := &past{
		file: filepath.Join(t.TempDir(), "past.jsonl"), edges: filepath.Join(t.TempDir(), "part.edges"),
		posts: map[string][]string{}, follows: map[string][]string{},
		fans: map[string]int64{}, likes: map[string]map[string]bool{}, all: map[string]int64{}, records: map[string]int{},
	}
	out, err := os.Create(p.file)
	require.NoError(t, err)
	defer out.Close()
	edges, err := os.Create(p.edges)
	require.NoError(t, err)
	defer edges.Close()
	now, random := time.Now().Add(-time.Minute), rand.New(rand.NewPCG(1, 2))
	write := func(age time.Duration, fields ...string) {
		record := map[string]string{"time": now.Add(-age).Truncate(time.Millisecond).UTC().Format(time.RFC3339Nano)}
		for i := 0; i < len(fields); i += 2 {
			record[fields[i]] = fields[i+1]
		}
		line, err := json.Marshal(record)
		require.NoError(t, err)
		p.records[string(line)]++
		_, err = fmt.Fprintf(out, "%s\n", line)
		require.NoError(t, err)
	}
	const day = 24 * time.Hour
	for in := bufio.NewScanner(raw); in.Scan(); {
		var a, b int
		if n, _ := fmt.Sscanf(strings.ReplaceAll(in.Text(), ",", " "), "%d %d", &a, &b); n != 2 || highest > 0 && max(a, b) > highest {
			continue // the line is a comment, or not in this part of the graph
		}
		_, err := fmt.Fprintln(edges, a, b)
		require.NoError(t, err)
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
		write(age/2, "type", "comment", "id", post, "post_id", post, "author_id", anybody(), "text", "on "+post)
		p.likes[post] = map[string]bool{}
		for range random.IntN(5) {
			user := anybody()
			if p.likes[post][user] {
				continue
			}
			p.likes[post][user] = true
			write(time.Duration(random.Int64N(int64(age)+1)), "type", "like", "post_id", post, "user_id", user)
		}
	}
	return p
}

// TestAnImportThatIsKilledThreeTimesIsExact kills an import in three phases and repeats the import. Then
// homes and counts match the file, the stored items have no damage, and the export equals the file. The
// export also equals the export after an import without a kill. The test prints the rate of this import
// beside the rate of a replay.
func TestAnImportThatIsKilledThreeTimesIsExact(t *testing.T) {
	t.Parallel()
	u := newUp(t)
	p := networkOfThePast(t, *importUsers, *importPosts)
	command := []string{"import", "--data-dir", u.data, p.file}
	if *importUsers > 0 {
		command = append(command, "--rate", "5000") // without a limit a small import would end too soon
	}
	for _, phase := range []string{"users:", "follows:", "posts:"} { // killed in the next phase, or after ten seconds
		run := start(t, u.env, "fanfare", command...)
		await(t, phase, func() bool { return strings.Contains(tail(run.log), phase) || !run.running() })
		run.kill(t)
		require.Error(t, run.err, "it was killed at its work")
		t.Logf("killed after %q", lastLine(run.log))
	}
	u.imports(t, p.file)

	up := u.start(t)
	api, err := client.New("http://" + u.http)
	require.NoError(t, err)
	for user := range p.follows {
		p.check(t, api, user)
	}
	hasNoDamage(t, u.env, "--admin", u.admin)
	up.stop(t)
	exported := u.export(t)
	p.isWhole(t, exported)

	other := newUp(t)
	done := other.imports(t, p.file)
	assert.Equal(t, exported, other.export(t), "killed or not, the same items")
	up = other.start(t)
	stdout, stderr, err := fanfare(t, other.env, other.replay("--graph", p.edges, "--posts", fmt.Sprint(*importPosts/2), "--likes", "0")...)
	r := verdict(t, stdout, stderr, err)
	up.stop(t)
	t.Logf("%d users, %d follows, %d posts: %.0f deliveries a second by import (%d in %.1f s), %.0f by replay (%d)",
		len(p.follows), r.Edges, *importPosts, float64(done.Entries)/done.DeliverySeconds, done.Entries, done.DeliverySeconds, r.DeliveriesPerSec, r.Delivered)
}

// imported is the JSON object that import prints.
type imported struct {
	Entries         int
	DeliverySeconds float64 `json:"delivery_seconds"`
}

// imports runs an import to its end and returns its output.
func (u *upright) imports(t *testing.T, file string) (done imported) {
	t.Helper()
	stdout, stderr, err := fanfare(t, u.env, "import", "--data-dir", u.data, "--json", file)
	require.NoError(t, err, stderr)
	t.Log(strings.TrimSpace(stdout))
	require.NoError(t, json.Unmarshal([]byte(stdout), &done))
	return done
}

// export returns the lines of the export of a directory that no process uses.
func (u *upright) export(t *testing.T) string {
	t.Helper()
	stdout, stderr, err := fanfare(t, u.env, "export", "--data-dir", u.data)
	require.NoError(t, err, stderr)
	return stdout
}

// hasNoDamage fails the test unless fanfare verify finds no damage and completes every check.
func hasNoDamage(t *testing.T, env []string, args ...string) {
	t.Helper()
	stdout, stderr, err := fanfare(t, env, append([]string{"verify", "--json", "--rate", "1000000"}, args...)...)
	require.NoError(t, err, stdout+stderr)
	var v struct {
		Items, Left, Undecided int
		Findings               []json.RawMessage
	}
	require.NoError(t, json.Unmarshal([]byte(stdout), &v))
	assert.Empty(t, v.Findings)
	assert.Zero(t, v.Left+v.Undecided, stdout)
	assert.Positive(t, v.Items)
	t.Logf("verify looked at %d items", v.Items)
}

// isWhole fails the test unless an export has exactly the lines of the file. The export has Fanfare's ids
// of posts and comments, so isWhole finds the posts and comments of the file by their texts.
func (p *past) isWhole(t *testing.T, exported string) {
	t.Helper()
	got, textOf := map[string]int{}, map[string]string{}
	for line := range strings.Lines(exported) { // a post precedes its comments and likes
		record := map[string]string{}
		require.NoError(t, json.Unmarshal([]byte(line), &record), line)
		switch record["type"] {
		case "post":
			textOf[record["id"]] = record["text"]
			record["id"] = record["text"]
		case "comment":
			record["id"], record["post_id"] = strings.TrimPrefix(record["text"], "on "), textOf[record["post_id"]]
		case "like":
			record["post_id"] = textOf[record["post_id"]]
		}
		back, err := json.Marshal(record)
		require.NoError(t, err)
		got[string(back)]++
	}
	var differ []string
	for _, sides := range [][2]map[string]int{{p.records, got}, {got, p.records}} {
		for line, n := range sides[0] {
			if sides[1][line] != n && len(differ) < 10 {
				differ = append(differ, line)
			}
		}
	}
	assert.Empty(t, differ, "lines of the file or of the export alone")
}

func lastLine(file string) string {
	text := strings.TrimSpace(tail(file))
	return text[strings.LastIndexByte(text, '\n')+1:]
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
