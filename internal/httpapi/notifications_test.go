package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
	"fanfare/internal/feed/access"
	"fanfare/internal/feed/notices"
	"fanfare/internal/httpapi"
	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// newNotified returns a world in which bob follows ann, and ann has a notification of the follow.
func newNotified(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.cfg.Notices = notices.New(access.New(access.Config{
		Store: w.store, IDs: id.NewGenerator(time.Now), Now: time.Now, Lifetimes: lifetime.Fixed(time.Hour),
	}), w.cfg.Feed, true, nil)
	var err error
	w.api, err = httpapi.New(w.cfg)
	require.NoError(t, err)
	for _, user := range []string{"ann", "bob"} {
		require.Equal(t, http.StatusOK, w.call(t, user, http.MethodPut, "/v1/me", `{"name":"A name"}`, "Content-Type", "application/json").Code)
	}
	require.Equal(t, http.StatusNoContent, w.call(t, "bob", http.MethodPut, "/v1/me/following/ann", "").Code)
	act := id.Floor(time.Now())
	n := schema.Notice{User: "ann", Kind: schema.NoticeFollow, Acts: []schema.Act{{Version: act, Place: act, State: schema.ActHolds, User: "bob"}}, Revision: 1}
	_, err = w.store.Put(t.Context(), table.PutInput{Item: n.Item()})
	require.NoError(t, err)
	return w
}

func TestNotificationsAreListedAndRead(t *testing.T) {
	w := newNotified(t)
	get := func(path string, into any) {
		res := w.call(t, "ann", http.MethodGet, path, "")
		require.Equal(t, http.StatusOK, res.Code, res.Body.String())
		require.NoError(t, json.Unmarshal(res.Body.Bytes(), into))
	}
	var page httpapi.NotificationPage
	get("/v1/me/notifications", &page)
	require.Len(t, page.Items, 1)
	got := page.Items[0]
	assert.Equal(t, []any{"follow:", "follow", "", int64(1), true, "bob", 1}, []any{got.ID, got.Kind, got.Target, *got.Count, got.Unread, got.Actors[0].UserID, *page.Unread})
	var views httpapi.NotificationPage
	get("/v1/me/notifications?expand=view", &views)
	assert.Equal(t, client.UserView{ID: "bob", Name: "A name", FollowedBy: true}, *views.Items[0].Actors[0].User)
	var unread httpapi.UnreadUpTo
	get("/v1/me/notifications/unread?most=3", &unread)
	assert.Equal(t, httpapi.UnreadUpTo{Unread: 1, Most: 3}, unread)
	read := func(user string) int {
		return w.call(t, user, http.MethodPut, "/v1/me/notifications/read", fmt.Sprintf(`{"read_to":%q}`, page.ReadTo), "Content-Type", "application/json").Code
	}
	assert.Equal(t, http.StatusBadRequest, read("bob"))
	assert.Equal(t, http.StatusOK, read("ann"))
	get("/v1/me/notifications/unread", &unread)
	assert.Equal(t, httpapi.UnreadUpTo{Unread: 0, Most: 10}, unread)
}

func TestNotificationsThatAreOffAreNotFound(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/v1/me/notifications", "/v1/me/notifications/unread"} {
		res := w.call(t, "ann", http.MethodGet, path, "")
		assert.Equal(t, http.StatusNotFound, res.Code)
		assert.Contains(t, res.Body.String(), "notifications-off")
	}
}

func TestAStreamBeginsWithTheUnreadNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNotified(t)
		client := w.stream(t, w.serve(t), "ann", "")
		ev, err := client.next()
		require.NoError(t, err)
		assert.Equal(t, event{"notifications", "", `{"unread":1}`}, ev)
		require.NoError(t, client.Close())
	})
}
