//go:build e2e && slow

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
)

// TestABackupUnderLoadMovesToAWSExactly restores a backup of a busy `fanfare up` in another directory. It
// imports the export of this directory on LocalStack while daemons run. Both systems have the same export
// and show every user the same data. Then the daemons serve the imported users.
func TestABackupUnderLoadMovesToAWSExactly(t *testing.T) {
	t.Parallel()
	u, here := newUp(t), newUp(t)
	u.imports(t, networkOfThePast(t, 20, 8).file)
	p := u.start(t)
	dir := t.TempDir()
	journal, backup, file := filepath.Join(dir, "journal"), filepath.Join(dir, "backup"), filepath.Join(dir, "network.jsonl")
	player := start(t, u.env, "fanfare", u.replay("--graph", graph, "--max-users", "5", "--posts", "10", "--likes", "40",
		"--rate", "20", "--journal", journal)...)
	player.plays(t, journal, 100) // the replay has reached posts and likes
	before := wholeLines(t, journal)
	u.fanfare(t, "backup", backup, "--admin", u.admin)
	during := wholeLines(t, journal)[len(before):]
	player.kill(t)
	p.kill(t)
	require.NoError(t, os.RemoveAll(u.data))
	require.NoError(t, os.WriteFile(journal, append(before, unanswered(during)...), 0o600))

	here.fanfare(t, "restore", backup, "--data-dir", here.data)
	p = here.start(t)
	stdout, stderr, err := fanfare(t, here.env, here.replay("--check", journal)...) // waits for all deliveries and counts
	r := verdict(t, stdout, stderr, err)
	require.NotZero(t, r.Posts*r.Likes, "the check is of nothing")
	hasNoDamage(t, here.env, "--admin", here.admin)
	p.stop(t)
	exported := here.export(t)
	require.NoError(t, os.WriteFile(file, []byte(exported), 0o600))

	c := emptyCluster(t, besideTheQueues)
	c.add(t, nil, "api", "fanout", "likeagg")
	stdout, stderr, err = fanfare(t, c.env, "import", "--rate", "0", file)
	require.NoError(t, err, stderr)
	t.Log(stdout)
	moved, stderr, err := fanfare(t, c.env, "export")
	require.NoError(t, err, stderr)
	assert.Equal(t, exported, moved)
	hasNoDamage(t, c.env)
	p = here.start(t)
	there := seenBy(t, c.http, exported)
	assert.Equal(t, seenBy(t, here.http, exported), there)
	p.stop(t)
	assert.Contains(t, there, `"comment_count":1`)
	c.goesOn(t, exported)
	c.stop(t)
}

// seenBy returns all data that an API shows to the users of an export, one line for each item: their counts,
// homes and posts.
func seenBy(t *testing.T, address, exported string) string {
	t.Helper()
	var seen strings.Builder
	note := func(user string, thing any) {
		line, err := json.Marshal(thing)
		require.NoError(t, err)
		fmt.Fprintf(&seen, "%s %s\n", user, line)
	}
	for _, user := range usersOf(t, exported) {
		api := as(t, address, user)
		me, err := api.Me(t.Context())
		require.NoError(t, err)
		note(user, me)
		for item, err := range api.Home(client.Push).All(t.Context()) {
			require.NoError(t, err)
			note(user, item)
		}
		for view, err := range api.PostViewsByUser(user, client.PostRange{}).All(t.Context()) {
			require.NoError(t, err)
			note(user, view)
		}
	}
	return seen.String()
}

// goesOn checks that the network of an export still works: a new post reaches the home of a follower, and
// its like is counted.
func (c *cluster) goesOn(t *testing.T, exported string) {
	t.Helper()
	var follow struct {
		Follower string `json:"follower_id"`
		Author   string `json:"author_id"`
	}
	lines := slices.Collect(strings.Lines(exported))
	at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, `{"type":"follow"`) })
	require.NoError(t, json.Unmarshal([]byte(lines[at]), &follow))
	author, fan := as(t, c.http, follow.Author), as(t, c.http, follow.Follower)
	post, err := author.CreatePost(t.Context(), client.PostInput{Text: "we have moved"})
	require.NoError(t, err)
	await(t, "the delivery of a post", func() bool {
		delivery, err := author.Delivery(t.Context(), post.ID)
		return err == nil && delivery.State == client.DeliveryComplete
	})
	require.NoError(t, fan.Like(t.Context(), post.ID))
	await(t, "the post with its like in the home of a follower", func() bool {
		home, err := fan.Home(client.Push).Page(t.Context(), "", 1)
		return err == nil && len(home.Items) == 1 && home.Items[0].Post.ID == post.ID && home.Items[0].LikeCount == 1
	})
}

// usersOf returns the users of an export.
func usersOf(t *testing.T, exported string) (users []string) {
	t.Helper()
	for line := range strings.Lines(exported) {
		var record struct{ Type, ID string }
		require.NoError(t, json.Unmarshal([]byte(line), &record))
		if record.Type == "user" {
			users = append(users, record.ID)
		}
	}
	require.NotEmpty(t, users)
	return users
}

// as returns a client of a user.
func as(t *testing.T, address, user string) *client.Client {
	t.Helper()
	api, err := client.New("http://" + address)
	require.NoError(t, err)
	token, err := api.DevToken(t.Context(), user, time.Hour)
	require.NoError(t, err)
	return api.AsToken(token.Token)
}
