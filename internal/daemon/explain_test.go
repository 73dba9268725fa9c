package daemon

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/admin"
	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/table/tabletest"
)

func TestIDsThatNobodyHasAreNotFound(t *testing.T) {
	e := explainer{feed: feed.New(feed.Config{Store: tabletest.NewMemory(), Now: time.Now, TimelineTTL: time.Hour})}
	for _, tt := range []struct{ user, post string }{{"a/b", ""}, {"ann", "x"}, {"ann", ""}, {"ann", id.Min}} {
		_, err := e.Explain(t.Context(), tt.user, tt.post)
		assert.ErrorAs(t, err, new(*admin.NotFoundError), tt)
	}
	for _, post := range []string{"x", id.Min} {
		_, err := e.Delivery(t.Context(), post)
		assert.ErrorAs(t, err, new(*admin.NotFoundError), post)
	}
}
