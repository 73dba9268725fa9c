package apitest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
	"fanfare/internal/backoff"
)

// methodRow calls one method of the Go client and compares the answer with the contract.
type methodRow struct {
	// method is the name of a method of client.Client.
	method string
	// path is the path of the method's call. Target.Lacks decides about the row by this path.
	path string
	// call returns an error unless the answer is the answer of the contract.
	call func(ctx context.Context, s *callers) error
	// soon repeats the call until its answer is right.
	soon bool
}

// callers are the users of a run, each with a client, and the objects that earlier rows made.
type callers struct {
	ann, ben             *client.Client
	service, deleter     *client.Client
	annID, benID         string
	first, second, after client.Post
	comment              client.Comment
}

// exerciseClient calls every method of the Go client against target. A new method of the
// client without a row here fails the test.
func exerciseClient(t *testing.T, target Target) {
	t.Helper()
	s := newCallers(t, target)
	rows := methodRows(target)
	assertEveryMethodHasARow(t, rows)
	for _, r := range rows {
		if target.Lacks != nil && target.Lacks(r.path, 200) {
			continue
		}
		if strings.HasPrefix(r.path, "/v1/dev/") && !target.DevTokens || !target.LikesByUser && (strings.HasPrefix(r.path, "/v1/users/u/likes") || strings.HasPrefix(r.path, "/v1/users/u/reactions")) ||
			strings.HasPrefix(r.path, "/v1/me/notifications") && !target.Notifications || r.path == "/v1/events" && !target.Events {
			continue
		}
		passed := t.Run(r.method, func(t *testing.T) {
			deadline := time.Now().Add(soon)
			for {
				err := r.call(t.Context(), s)
				if err == nil {
					return
				}
				if !r.soon || time.Now().After(deadline) {
					t.Fatalf("%s %s: %v", r.method, r.path, err)
				}
				require.NoError(t, backoff.Wait(t.Context(), 50*time.Millisecond))
			}
		})
		if !passed {
			return // a later row relies on this row's effects
		}
	}
}

func newCallers(t *testing.T, target Target) *callers {
	t.Helper()
	run := rand.Text()[:8]
	s := &callers{annID: "client-ann-" + run, benID: "client-ben-" + run}
	of := func(token string) *client.Client {
		c, err := client.New(target.URL, client.WithToken(token))
		require.NoError(t, err)
		t.Cleanup(c.CloseIdleConnections)
		return c
	}
	s.ann, s.ben = of(target.Token(t, s.annID)), of(target.Token(t, s.benID))
	s.service, s.deleter = of(target.Service(t, "client-service-"+run, false)), of(target.Service(t, "client-deleter-"+run, true))
	return s
}

func assertEveryMethodHasARow(t *testing.T, rows []methodRow) {
	t.Helper()
	covered := map[string]bool{"As": true, "AsToken": true, "CloseIdleConnections": true} // these methods send no request
	for _, r := range rows {
		covered[r.method] = true
	}
	for m := range reflect.TypeFor[*client.Client]().Methods() {
		assert.Truef(t, covered[m.Name], "client.Client.%s has no row in apitest", m.Name)
	}
}

// expect returns nil if ok is true. Otherwise it returns an error that shows got.
func expect(ok bool, got any) error {
	if ok {
		return nil
	}
	return fmt.Errorf("the answer is %+v", got)
}

// answer returns a function that checks the value of a call, unless the call failed.
func answer[T any](got T, err error) func(ok func(T) bool) error {
	return func(ok func(T) bool) error {
		if err != nil {
			return err
		}
		return expect(ok(got), got)
	}
}

// listed reads a whole list and compares the keys of the items with want, in the same order.
func listed[T any](ctx context.Context, list client.List[T], key func(T) string, want ...string) error {
	items, err := list.Collect(ctx)
	if err != nil {
		return err
	}
	got := make([]string, 0, len(items))
	for _, item := range items {
		got = append(got, key(item))
	}
	return expect(len(got) == len(want) && strings.Join(got, " ") == strings.Join(want, " "), items)
}

// refused returns nil if a call failed with a problem of this status, and an error otherwise.
func refused(err error, status int) error {
	problem, ok := errors.AsType[*client.Problem](err)
	return expect(ok && problem.Status == status, err)
}

func edge(e client.Edge) string { return e.UserID }

// edgeView returns the user id in the view that an edge has of its user.
func edgeView(e client.Edge) string {
	if e.User == nil {
		return "without its user"
	}
	return e.User.ID
}

func post(p client.Post) string           { return p.ID }
func postView(p client.PostView) string   { return p.Post.ID }
func liker(l client.Liker) string         { return l.UserID }
func likedPost(p client.LikedPost) string { return p.PostID }
func comment(c client.Comment) string     { return c.ID }
