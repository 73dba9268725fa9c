package audit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/id"
	"fanfare/internal/lifetime"
	"fanfare/internal/ops/audit"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
)

// An entry may outlive the mark and the tombstone that hid it, if its TTL was longer than today's.
// No home shows it, so it is no damage, and a delivered post that no home shows owes no entry.
func TestEntriesOfALongerTTLAreNoDamage(t *testing.T) {
	w := newWorld(t, tabletest.NewMemory())
	w.people("ann", "fan")
	made := w.now().Add(-40 * 24 * time.Hour)
	post, err := id.NewGenerator(func() time.Time { return made }).New()
	require.NoError(t, err)
	ref := schema.PostRef{ID: post, Author: "ann", LikeShards: 1}
	year := made.Add(365 * 24 * time.Hour)
	for _, it := range []table.Item{
		{Key: table.Key{PK: schema.TimelinePK("fan"), SK: schema.EntrySK(post, "ann")}, Attrs: schema.EntryAttrs(year, 1)},
		schema.Plan{Post: post, Author: "ann", Planned: 1, Started: made, Attempts: 1, TTL: year.Add(schema.DeliveryKept)}.Item(),
	} {
		_, err := w.store.Put(t.Context(), table.PutInput{Item: it})
		require.NoError(t, err)
	}
	all, _ := w.walk(false)
	assert.Empty(t, all)

	_, err = w.store.Put(t.Context(), table.PutInput{Item: ref.Item()})
	require.NoError(t, err)
	all, _ = w.walk(false)
	for _, f := range all {
		assert.Equal(t, audit.PostMissing, f.Kind, "%+v", f) // the post is lost, and its entries are not
	}
	w.cfg.Lifetimes = lifetime.Fixed(365 * 24 * time.Hour)
	w.audit = audit.New(w.cfg)
	all, _ = w.walk(false)
	assert.Contains(t, kinds(all), audit.EntryUnfollowed)
}

func kinds(all []audit.Finding) (of []audit.Kind) {
	for _, f := range all {
		of = append(of, f.Kind)
	}
	return of
}
