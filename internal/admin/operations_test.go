package admin_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/admin"
	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/table/tabletest"
)

func emptyDomain() admin.Domain {
	return admin.Domain{Posts: feed.New(feed.Config{Store: tabletest.NewMemory(), Now: time.Now, TimelineTTL: time.Hour})}
}

func TestIDsThatNobodyHasAreNotFound(t *testing.T) {
	d := emptyDomain()
	for _, tt := range []struct{ user, post string }{{"a/b", ""}, {"ann", "x"}, {"ann", ""}, {"ann", id.Min}} {
		_, err := d.Explain(t.Context(), tt.user, tt.post)
		assert.ErrorAs(t, err, new(*admin.NotFoundError), tt)
	}
	for _, post := range []string{"x", id.Min} {
		_, err := d.Delivery(t.Context(), post)
		assert.ErrorAs(t, err, new(*admin.NotFoundError), post)
	}
}

func TestABadCursorOfReconcileIsTheCallersFault(t *testing.T) {
	assert.Equal(t, http.StatusBadRequest, call(t, admin.Config{Posts: emptyDomain()}, http.MethodPost, "/admin/reconcile", nil, `{"limit":1,"cursor":"x"}`))
}
