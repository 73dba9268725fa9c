package admin_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/admin"
	"fanfare/internal/fault"
	"fanfare/internal/feed/delivery"
	"fanfare/internal/feed/home"
	"fanfare/internal/id"
	"fanfare/internal/queue"
)

// oracle explains the posts of the user ann.
type oracle struct{ fail error }

func (o oracle) Explain(_ context.Context, _ queue.DeadLetters, user, post string) ([]home.Explanation, error) {
	if user != "ann" {
		return nil, fault.NotFoundf("there is no user %s", user)
	}
	return []home.Explanation{{Post: post, Reason: "own", InHome: true, At: time.UnixMilli(1).UTC()}}, o.fail
}

func (oracle) Reconcile(context.Context, time.Time, time.Time, string, int) (delivery.Reconciled, error) {
	return delivery.Reconciled{}, nil
}

func (o oracle) AnyDelivery(_ context.Context, post string) (delivery.Progress, error) {
	if post != id.Min {
		return delivery.Progress{}, fault.NotFoundf("there is no post %s", post)
	}
	return delivery.Progress{State: "complete", Planned: new(int64(2))}, o.fail
}

// The client gets the explanations of the process, or the reason of a refusal.
func TestTheClientAsksWhatTheAddressExplains(t *testing.T) {
	d := admin.Domain{Homes: oracle{}, Deliveries: oracle{}}
	c := behind(t, d)
	for _, asked := range []admin.Explained{{User: "ann"}, {User: "ann", Post: id.Min}, {User: "nobody"}, {User: "a/b"}, {User: "ann", Post: "x"}} {
		got, gotErr := admin.Explain().Do(t.Context(), c, asked)
		want, wantErr := admin.Explain().Do(t.Context(), d, asked)
		assert.Equal(t, want, got)
		assert.Equal(t, wantErr, gotErr)
	}
	for _, post := range []string{id.Min, id.Max, "x"} {
		got, gotErr := admin.Delivery().Do(t.Context(), c, admin.Delivered{Post: post})
		want, wantErr := admin.Delivery().Do(t.Context(), d, admin.Delivered{Post: post})
		assert.Equal(t, want, got)
		assert.Equal(t, wantErr, gotErr)
	}

	away := oracle{errors.New("the table is away")}
	c = behind(t, admin.Domain{Homes: away, Deliveries: away})
	_, err := admin.Explain().Do(t.Context(), c, admin.Explained{User: "ann"})
	require.ErrorContains(t, err, "the table is away")
	_, err = admin.Delivery().Do(t.Context(), c, admin.Delivered{Post: id.Min})
	assert.ErrorContains(t, err, "answered 503")
}
