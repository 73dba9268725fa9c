package admin_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"fanfare/client"
	"fanfare/internal/admin"
	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/removal"
	"fanfare/internal/id"
)

// network has the post id.Min of the user ann. bob was removed before.
type network struct {
	down    feed.TakeDown
	removed []string
	fails   error
}

func (n *network) Post(_ context.Context, post string) (client.PostView, error) {
	if n.down.By != "" || post != id.Min {
		return client.PostView{}, fault.NotFoundf("post %s was deleted", post)
	}
	return client.PostView{HomeItem: client.HomeItem{Post: client.Post{ID: post, AuthorID: "ann", Text: "Hello"}}}, n.fails
}

func (n *network) User(_ context.Context, user string) (client.User, error) {
	if user != "ann" {
		return client.User{}, fault.NotFoundf("there is no user %s", user)
	}
	return client.User{ID: user, Name: "Ann"}, n.fails
}

func (n *network) Posts(ctx context.Context, _, cursor string) (posts []client.PostView, next string, err error) {
	if cursor == "forged" {
		return nil, "", &fault.Error{Kind: fault.Malformed, Detail: "the cursor was changed"}
	}
	post, err := n.Post(ctx, id.Min)
	return []client.PostView{post}, "older", err
}

func (n *network) TakeDown(_ context.Context, by, post, reason string) (feed.TakeDown, error) {
	if post != id.Min {
		return feed.TakeDown{}, fault.NotFoundf("there is no post %s", post)
	}
	if n.fails == nil && n.down.By == "" {
		n.down = feed.TakeDown{By: by, Reason: reason, At: time.UnixMilli(0).UTC()}
	}
	return n.down, n.fails
}

func (n *network) Remembered(_ context.Context, user string) (removal.Knowledge, error) {
	known := map[string]removal.Knowledge{"ann": removal.Known, "bob": removal.Removed}[user]
	if known == "" {
		known = removal.Unknown
	}
	return known, nil
}

func (n *network) Remove(_ context.Context, user string, progress func(int)) error {
	progress(7)
	n.removed = append(n.removed, user)
	return n.fails
}

func (n *network) domain() admin.Domain {
	return admin.Domain{Shown: n, Deliveries: oracle{}, Posts: n, Removals: n, LikesByUser: true, Now: time.Now}
}

// A moderator sees what a reader sees, and why a post is gone.
func TestAModeratorSeesWhatAReaderSees(t *testing.T) {
	t.Parallel()
	n := &network{}
	c := behind(t, n.domain())
	post, err := admin.ShowPost().Do(t.Context(), c, admin.Delivered{Post: id.Min})
	require.NoError(t, err)
	assert.Equal(t, "Hello", post.View.Post.Text)
	assert.Equal(t, "complete", string(post.Delivery.State))
	user, err := admin.ShowUser().Do(t.Context(), c, admin.Looking{User: "ann"})
	require.NoError(t, err)
	assert.Equal(t, "Ann Hello older", strings.Join([]string{user.User.Name, user.Posts[0].Post.Text, user.Next}, " "))

	down, err := admin.TakeDown().Do(t.Context(), c, admin.TakingDown{Post: id.Min, Reason: "Forged shoes"})
	require.NoError(t, err)
	assert.Equal(t, "operator: Forged shoes", down.By+": "+down.Reason)
	down, err = admin.TakeDown().Do(t.Context(), c, admin.TakingDown{Post: id.Min, Reason: "Other"})
	require.NoError(t, err)
	assert.Equal(t, "Forged shoes", down.Reason, "the first reason stays")
	post, err = admin.ShowPost().Do(t.Context(), c, admin.Delivered{Post: id.Min})
	require.NoError(t, err)
	assert.Nil(t, post.View)
}

// A failed read is no answer: neither an empty post, nor a post that is gone.
func TestAModeratorSeesThatAReadFailed(t *testing.T) {
	t.Parallel()
	c := behind(t, (&network{fails: errors.New("throttled")}).domain())
	_, err := admin.ShowPost().Do(t.Context(), c, admin.Delivered{Post: id.Min})
	require.ErrorContains(t, err, "throttled")
	_, err = admin.ShowUser().Do(t.Context(), c, admin.Looking{User: "ann"})
	require.ErrorContains(t, err, "throttled")
}

func TestTheCallsOfAModeratorRefuseBadInput(t *testing.T) {
	t.Parallel()
	post, user := "/admin/posts/"+id.Min, "/admin/users/ann"
	for name, c := range map[string]struct {
		method, path, body string
		header             http.Header
		want               int
	}{
		"a post":                         {"GET", post, "", nil, 200},
		"a user":                         {"GET", user, "", nil, 200},
		"a post that is no ULID":         {"GET", "/admin/posts/x", "", nil, 410},
		"a post that nobody made":        {"GET", "/admin/posts/" + id.Max, "", nil, 410},
		"a user id with a slash":         {"GET", "/admin/users/a%2Fb", "", nil, 410},
		"a user that nobody is":          {"GET", "/admin/users/nobody", "", nil, 410},
		"a forged cursor":                {"GET", user + "?cursor=forged", "", nil, 400},
		"a take-down":                    {"POST", post + "/takedown", `{"reason":"Forged shoes"}`, nil, 200},
		"a take-down of no post":         {"POST", "/admin/posts/" + id.Max + "/takedown", `{"reason":"x"}`, nil, 410},
		"a take-down of no ULID":         {"POST", "/admin/posts/x/takedown", `{"reason":"x"}`, nil, 410},
		"no reason":                      {"POST", post + "/takedown", `{}`, nil, 422},
		"an empty reason":                {"POST", post + "/takedown", `{"reason":""}`, nil, 422},
		"a reason of spaces":             {"POST", post + "/takedown", `{"reason":"  "}`, nil, 422},
		"a reason of two lines":          {"POST", post + "/takedown", `{"reason":"a\nb"}`, nil, 422},
		"a reason of 500 characters":     {"POST", post + "/takedown", `{"reason":"` + strings.Repeat("ü", 500) + `"}`, nil, 200},
		"a reason of 501 characters":     {"POST", post + "/takedown", `{"reason":"` + strings.Repeat("ü", 501) + `"}`, nil, 422},
		"a reason that is no text":       {"POST", post + "/takedown", `{"reason":7}`, nil, 400},
		"a field that nobody knows":      {"POST", post + "/takedown", `{"reason":"x","by":"ann"}`, nil, 400},
		"a body that is no JSON":         {"POST", post + "/takedown", `reason`, nil, 400},
		"a removal":                      {"POST", user + "/forget", `{}`, nil, 200},
		"a removal without a body":       {"POST", user + "/forget", ``, nil, 400},
		"a removal of a removed user":    {"POST", "/admin/users/bob/forget", `{}`, nil, 200},
		"a removal of nobody":            {"POST", "/admin/users/nobody/forget", `{}`, nil, 410},
		"a removal of nobody, confirmed": {"POST", "/admin/users/nobody/forget", `{"unknown_ok":true}`, nil, 200},
		"a removal of no user id":        {"POST", "/admin/users/a%20b/forget", `{}`, nil, 410},
		"a removal by a read":            {"GET", user + "/forget", "", nil, 405},
		"a take-down for another site":   {"POST", post + "/takedown", `{"reason":"x"}`, http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		"a removal for a neighbour":      {"POST", user + "/forget", `{}`, http.Header{"Sec-Fetch-Site": {"same-site"}}, 403},
		"a removal from another origin":  {"POST", user + "/forget", `{}`, http.Header{"Origin": {"https://evil.example"}}, 403},
		"a removal by another name":      {"POST", user + "/forget", `{}`, http.Header{"Host": {"evil.example"}}, 421},
		"a read for another site":        {"GET", post, "", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
	} {
		n := &network{}
		assert.Equal(t, c.want, call(t, admin.Config{Domain: n.domain()}, c.method, c.path, c.header, c.body), name)
		if c.want >= 400 {
			assert.Empty(t, n.removed, name)
			assert.Empty(t, n.down, name)
		}
	}
	reads := (&network{}).domain()
	reads.Posts, reads.Removals = nil, nil // a daemon without the API
	for _, path := range []string{post + "/takedown", user + "/forget"} {
		assert.Equal(t, http.StatusNotFound, call(t, admin.Config{Domain: reads}, http.MethodPost, path, nil, `{}`), path)
	}
}

// Each action of a moderator is in the trail with its target, but not with the post or the reason. A dry run, and an action
// that changed nothing, are not in the trail.
func TestEachActionOfAModeratorIsInTheTrail(t *testing.T) {
	t.Parallel()
	core, lines := observer.New(zap.InfoLevel)
	n := &network{}
	server := httptest.NewServer(admin.NewHandler(admin.Config{Metrics: prometheus.NewRegistry(), Health: admin.NewHealth(), Log: zap.New(core), Domain: n.domain()}))
	defer server.Close()
	c := admin.NewClient(server.Listener.Addr().String(), server.Client())
	ctx := admin.WithActor(t.Context(), admin.Actor{Name: "ann@desk"})
	actions := func() (all []map[string]any) {
		for _, line := range lines.TakeAll() {
			fields := line.ContextMap()
			assert.Equal(t, "ann@desk", fields["operator"])
			delete(fields, "operator")
			delete(fields, "from")
			all = append(all, fields)
		}
		return all
	}
	known, err := admin.Forget().Do(ctx, c, admin.Forgetting{User: "ann", DryRun: true})
	require.NoError(t, err)
	assert.Equal(t, admin.Forgotten{User: "ann", Was: removal.Known}, known)
	assert.Empty(t, n.removed, "a dry run")
	_, err = admin.Forget().Do(ctx, c, admin.Forgetting{User: "nobody"})
	require.ErrorContains(t, err, "there is no user nobody, and none was removed")
	assert.Empty(t, actions())

	_, err = admin.TakeDown().Do(ctx, c, admin.TakingDown{Post: id.Min, Reason: "Forged shoes"})
	require.NoError(t, err)
	done, err := admin.Forget().Do(ctx, c, admin.Forgetting{User: "ann"})
	require.NoError(t, err)
	assert.Equal(t, admin.Forgotten{User: "ann", Was: removal.Known, Removed: 7}, done)
	assert.Equal(t, []map[string]any{
		{"action": "takedown", "post_id": id.Min},
		{"action": "forget", "user_id": "ann", "was": "known", "removed": int64(7)},
	}, actions())

	n.fails, n.down = errors.New("the table is away"), feed.TakeDown{}
	_, err = admin.TakeDown().Do(ctx, c, admin.TakingDown{Post: id.Min, Reason: "x"})
	require.ErrorContains(t, err, "the table is away")
	assert.Empty(t, actions())
	_, err = admin.Forget().Do(ctx, c, admin.Forgetting{User: "ann"})
	require.ErrorContains(t, err, "the table is away")
	assert.Len(t, actions(), 1, "a removal that stops half-way has changed something")
}
