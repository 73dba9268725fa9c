//go:build e2e

package e2e

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
)

// recipes is a running Fanfare with the programs of examples/recipes.
type recipes struct {
	t   *testing.T
	url string
	env []string
	bin map[string]string
}

func newRecipes(t *testing.T, url string, env []string) *recipes {
	t.Helper()
	token, _, err := fanfare(t, env, "token", "--act", "recipes")
	require.NoError(t, err)
	return &recipes{t, url, append(env, "SERVICE_TOKEN="+strings.TrimSpace(token)), map[string]string{}}
}

// run runs a program with the URL and further words, and returns the lines that it prints.
func (r *recipes) run(program string, words ...string) []string {
	r.t.Helper()
	if r.bin[program] == "" {
		r.bin[program] = buildExample(r.t, "recipes/"+program)
	}
	run := exec.CommandContext(r.t.Context(), r.bin[program], append([]string{r.url}, words...)...)
	run.Env = r.env
	out, err := run.CombinedOutput()
	require.NoErrorf(r.t, err, "%s %v: %s", program, words, out)
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// home waits until a home has the texts of the posts, the newest first.
func (r *recipes) home(as *client.Client, want ...string) {
	r.t.Helper()
	var got []string
	await(r.t, "the home has "+strings.Join(want, ", "), func() bool {
		page, err := as.Home(client.Push).Page(r.t.Context(), "", 20)
		got = got[:0]
		for _, item := range page.Items {
			text := item.Post.Text
			if item.Repost != nil {
				text = item.Repost.Post.Text
			}
			got = append(got, text)
		}
		return err == nil && assert.ObjectsAreEqual(want, append([]string(nil), got...))
	})
}

// TestTheRecipesMakeTopicsCommunitiesAndLists runs the programs of docs/RECIPES.md as their users do.
func TestTheRecipesMakeTopicsCommunitiesAndLists(t *testing.T) {
	t.Parallel()
	u := newUp(t)
	p := u.start(t)
	anyone := reach(t, u.http)
	r := newRecipes(t, "http://"+u.http, append(u.env, "FANFARE_DATA_DIR="+u.data))
	ann, bob, cid := signUp(t, anyone, "ann"), signUp(t, anyone, "bob"), signUp(t, anyone, "cid")
	post := func(as *client.Client, text string, mentions ...string) client.Post {
		made, err := as.CreatePost(t.Context(), client.PostInput{Text: text, Mentions: mentions})
		require.NoError(t, err)
		return made
	}

	// A topic reposts the posts that mention it, once, and a repost goes with its original.
	r.run("topic", "go")
	require.NoError(t, bob.Follow(t.Context(), "go"))
	first := post(ann, "about go", "go")
	post(ann, "about nothing")
	_, err := cid.AddComment(t.Context(), first.ID, client.CommentInput{Text: "look", Mentions: []string{"go"}})
	require.NoError(t, err)
	await(t, "the topic has reposted", func() bool {
		r.run("topic", "go")
		view, err := bob.PostView(t.Context(), first.ID)
		return err == nil && view.RepostCount == 1
	})
	r.home(bob, "about go")
	r.run("topic", "go")
	r.home(bob, "about go")

	// A community shows the approved posts.
	require.Empty(t, strings.Join(r.run("community", "gophers"), ""))
	require.NoError(t, cid.Follow(t.Context(), "gophers"))
	asked := post(ann, "may I", "gophers")
	await(t, "the post waits for the moderator", func() bool {
		return assert.ObjectsAreEqual([]string{asked.ID + " ann: may I"}, r.run("community", "gophers"))
	})
	r.home(cid)
	r.run("community", "gophers", "approve", asked.ID)
	r.home(cid, "may I")
	assert.Empty(t, strings.Join(r.run("community", "gophers"), ""))
	r.run("community", "gophers", "remove", asked.ID)
	r.home(cid)

	// A cross-post is in both, once for who follows both, and goes with its post.
	both := post(ann, "for all")
	require.NoError(t, bob.Follow(t.Context(), "gophers"))
	r.run("crosspost", both.ID, "go", "gophers")
	r.home(bob, "for all", "about go")
	r.home(cid, "for all")
	require.NoError(t, ann.DeletePost(t.Context(), both.ID))
	r.home(bob, "about go")
	r.home(cid)
	require.NoError(t, ann.DeletePost(t.Context(), first.ID))
	r.home(bob)

	// A list has the posts of its members, and no member sees it.
	post(ann, "of a member")
	r.run("list", "bobs", "add", "ann")
	assert.Equal(t, []string{"ann"}, r.run("list", "bobs", "members"))
	assert.Equal(t, "ann: of a member", r.run("list", "bobs")[0])
	profile, err := ann.User(t.Context(), "ann")
	require.NoError(t, err)
	assert.Zero(t, profile.Counts.Followers)
	noticed, err := ann.Notifications(t.Context(), "", 0)
	require.NoError(t, err)
	for _, n := range noticed.Items {
		assert.NotEqual(t, "follow", n.Kind)
	}
	r.run("list", "bobs", "remove", "ann")
	assert.Empty(t, strings.Join(r.run("list", "bobs"), ""))
	p.stop(t)
}
