package feed_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/fault"
	"fanfare/internal/feed"
	"fanfare/internal/feed/access"
	"fanfare/internal/schema"
	"fanfare/internal/table"
	"fanfare/internal/table/tabletest"
	"fanfare/messages"
)

// beside calls on before the next query of the partition pk, or before the next transaction.
type beside struct {
	table.Store
	pk         string
	query      func()
	transact   func()
	lostAnswer bool // the next transaction happens, but its caller gets an error
}

func (b *beside) Query(ctx context.Context, q table.Query) iter.Seq2[table.Page, error] {
	if on := b.query; on != nil && q.PK == b.pk {
		b.query = nil
		on()
	}
	return b.Store.Query(ctx, q)
}

func (b *beside) Transact(ctx context.Context, in table.TransactInput) (table.WriteResult, error) {
	if on := b.transact; on != nil {
		b.transact = nil
		on()
	}
	res, err := b.Store.Transact(ctx, in)
	if lost := b.lostAnswer; lost {
		b.lostAnswer = false
		return res, errors.New("answer lost")
	}
	return res, err
}

// remembering returns a world of the embedded engine, which remembers ann, but not ann's items any more.
func remembering(t *testing.T) (*world, *beside) {
	t.Helper()
	b := &beside{Store: tabletest.NewMemory(), pk: schema.PostsPK("ann")}
	w := newWorld(t, func(c *config) { c.Store, c.Local, c.Authors = b, true, feed.NewAuthors() })
	w.users("ann", "bob")
	w.clock.add(2 * time.Minute)
	return w, b
}

// sweep makes the sweeps of each removal that was published.
func (w *world) sweep() {
	for _, e := range w.published.take() {
		if gone, ok := e.(*messages.UserForgotten); ok {
			for range 3 {
				_, err := w.Forget(w.t.Context(), gone.UserID, gone.EventID, 500)
				require.NoError(w.t, err)
			}
		}
	}
}

// A call of ann reads her items. Meanwhile another device removes ann, and ann returns. The memory must
// not keep the result of the first call: ids of the former life would be deleted by the removal (I12).
func TestAReadBesideANewLifeIsNotRemembered(t *testing.T) {
	t.Parallel()
	w, b := remembering(t)
	b.query = func() {
		require.NoError(t, w.DeleteProfile(t.Context(), "ann"))
		w.clock.add(10 * time.Millisecond)
		w.users("ann")
		w.clock.add(10 * time.Millisecond)
	}
	_, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "under way"}})
	require.NoError(t, err)
	w.clock.add(5 * time.Second)
	mine, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "of the new life"}})
	require.NoError(t, err)
	now, err := w.Standing(t.Context(), "ann")
	require.NoError(t, err)
	assert.Greater(t, mine.ID, now.Profile.After, "I12: all ids of a life are above its after")
	w.sweep()
	_, err = w.Post(t.Context(), access.Viewer{}, mine.ID)
	require.NoError(t, err, "I12: the call began after the new profile exists")
}

// A post reads ann's items just before the transaction that removes ann, whether or not the transaction
// is answered.
func TestARemovedUserDoesNotPostOutOfTheMemoryOfAuthors(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		w, b := remembering(t)
		b.transact = func() {
			_, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "beside the removal"}})
			require.NoError(t, err)
			b.lostAnswer = lost
		}
		if err := w.DeleteProfile(t.Context(), "ann"); !lost {
			require.NoError(t, err)
		}
		w.sweep()
		w.clock.add(30 * time.Second)
		_, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "after the removal"}})
		wantKind(t, err, fault.ProfileMissing)
	}
}

// A call reads ann's items, and meanwhile ann changes her name. A later post has the new name.
func TestAReadBesideARenameIsNotRemembered(t *testing.T) {
	t.Parallel()
	w, b := remembering(t)
	b.query = func() {
		_, err := w.PutProfile(t.Context(), "ann", feed.ProfileInput{Name: "Ann the second"})
		require.NoError(t, err)
	}
	_, err := w.CreatePost(t.Context(), "ann", feed.PostInput{Content: feed.Content{Text: "under way"}})
	require.NoError(t, err)
	p := w.post("ann", "later")
	assert.Equal(t, "Ann the second", w.kept("ann", p.ID).Name)
}
