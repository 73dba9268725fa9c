package daemon

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/admin"
	"fanfare/internal/feed"
	"fanfare/internal/table/tabletest"
)

func TestABadCursorOfReconcileIsOneForTheAdminAddress(t *testing.T) {
	r := reconciler{feed.New(feed.Config{Store: tabletest.NewMemory(), Now: time.Now, TimelineTTL: time.Hour})}
	_, err := r.Reconcile(t.Context(), time.Time{}, time.Now(), "x", 1)
	var bad *admin.CursorError
	assert.ErrorAs(t, err, &bad)
}
