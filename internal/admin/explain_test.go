package admin_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/admin"
	"fanfare/internal/feed/delivery"
)

// oracle explains one post of one user.
type oracle struct{ fail error }

func (o oracle) Explain(_ context.Context, user, post string) ([]admin.Explanation, error) {
	if user != "a user" {
		return nil, &admin.NotFoundError{Detail: "there is no user " + user}
	}
	return []admin.Explanation{{Post: post, Reason: "own", InHome: true, At: new(time.UnixMilli(1).UTC())}}, o.fail
}

func (o oracle) Delivery(_ context.Context, post string) (delivery.Progress, error) {
	if post != "a post" {
		return delivery.Progress{}, &admin.NotFoundError{Detail: "there is no post " + post}
	}
	return delivery.Progress{State: "complete", Planned: new(int64(2))}, o.fail
}

func TestTheClientAsksWhatTheAddressExplains(t *testing.T) {
	ask := func(o oracle) *admin.Client {
		server := httptest.NewServer(admin.NewHandler(admin.Config{
			Metrics: prometheus.NewRegistry(), Health: admin.NewHealth(), Explain: o, Now: time.Now,
		}))
		t.Cleanup(server.Close)
		return admin.NewClient(strings.TrimPrefix(server.URL, "http://"), server.Client())
	}
	c := ask(oracle{})
	for _, post := range []string{"", "a post & more"} {
		all, err := c.Explain(t.Context(), "a user", post)
		require.NoError(t, err)
		want, err := oracle{}.Explain(t.Context(), "a user", post)
		require.NoError(t, err)
		assert.Equal(t, want, all)
	}
	d, err := c.Delivery(t.Context(), "a post")
	require.NoError(t, err)
	want, err := oracle{}.Delivery(t.Context(), "a post")
	require.NoError(t, err)
	assert.Equal(t, want, d)

	_, err = c.Explain(t.Context(), "nobody", "")
	assert.Equal(t, &admin.NotFoundError{Detail: "there is no user nobody"}, err)
	_, err = c.Delivery(t.Context(), "nothing")
	assert.Equal(t, &admin.NotFoundError{Detail: "there is no post nothing"}, err)

	c = ask(oracle{errors.New("the table is away")})
	_, err = c.Explain(t.Context(), "a user", "")
	require.ErrorContains(t, err, "the table is away")
	_, err = c.Delivery(t.Context(), "a post")
	assert.ErrorContains(t, err, "answered 503")
}
