package daemon_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/admin"
	"fanfare/internal/archive"
	"fanfare/internal/objects"
	"fanfare/internal/pair"
	"fanfare/internal/restore"
)

// newArchived returns two machines with an archive, which do not run yet.
func newArchived(t *testing.T) (root string, one, two *machine) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "archive")
	require.NoError(t, os.Mkdir(root+".disk", 0o700))
	mount(t, root, true)
	one, two = newPair(t)
	for _, m := range []*machine{one, two} {
		m.env = append(m.env, "FANFARE_ARCHIVE=file://"+root)
	}
	return root, one, two
}

// mount mounts the disk of an archive, or takes it away. The archive is a link, which is changed in one step, so that no late
// write can make another archive in its place.
func mount(t *testing.T, root string, there bool) {
	t.Helper()
	to := root + ".disk"
	if !there {
		to = root + ".away"
	}
	require.NoError(t, os.Symlink(to, root+".link"))
	require.NoError(t, os.Rename(root+".link", root))
}

func archiveIn(t *testing.T, root string) *archive.Archive {
	t.Helper()
	store, err := objects.OpenDirectory(vfs.Default, root)
	require.NoError(t, err)
	a, err := archive.New(store, time.Now)
	require.NoError(t, err)
	return a
}

// gaps returns the number of gaps in the line of the newest term.
func gaps(t *testing.T, root string) (n int) {
	t.Helper()
	a := archiveIn(t, root)
	chain, err := a.Chain(t.Context(), 0, 0)
	require.NoError(t, err)
	for _, err := range a.Gaps(t.Context(), chain) {
		require.NoError(t, err)
		n++
	}
	return n
}

// has reports whether a restore to a time has a text, the zero time for the newest state.
func has(t *testing.T, root string, at time.Time, text string) (bool, error) {
	t.Helper()
	a := archiveIn(t, root)
	plan, err := restore.Find(t.Context(), a, restore.Target{At: at})
	if err != nil {
		return false, err
	}
	dir := filepath.Join(t.TempDir(), "restored")
	require.NoError(t, restore.Run(t.Context(), a, plan, dir, restore.Options{Remove: func([]string) error { return nil }, Done: func(int64) {}, Log: zap.NewNop()}))
	for _, value := range content(t, dir) {
		if strings.Contains(value, text) {
			return true, nil
		}
	}
	return false, nil
}

// restores waits until the archive has a time, and expects the text in a restore to this time.
func (m *machine) restores(token, root string, at time.Time, text string) {
	t := m.t
	t.Helper()
	until(t, "the archive has "+text, func() bool {
		found, err := has(t, root, at, text)
		_, _ = rename(t, m.at.HTTP, token, "a late write") // without writes the archive gets a segment each minute only
		if _, early := errors.AsType[*restore.LateError](err); early {
			return false
		}
		if gap, is := errors.AsType[*restore.GapError](err); is && gap.Next.IsZero() {
			return false
		}
		require.NoError(t, err)
		require.Truef(t, found, "%s is missing at %s", text, at)
		return true
	})
}

// based waits until the archive has a number of bases. Without writes a base waits for the segment of each minute.
func (m *machine) based(token, root string, n int) {
	m.t.Helper()
	until(m.t, "a base", func() bool {
		called(m.t, m.at.HTTP, token, time.Now().String())
		ids, err := archiveIn(m.t, root).Bases(m.t.Context())
		require.NoError(m.t, err)
		return len(ids) == n
	})
}

// The roles change by a switch, and the archive has no gap. A restore has all that was answered before its time, before and
// after the switch.
func TestTheArchiveOfAPairContinuesAfterASwitch(t *testing.T) {
	t.Parallel()
	root, one, two := newArchived(t)
	one.start(false)
	two.start(true)
	one.untilPaired()
	two.untilPaired()
	ann := tokens(t, one.dir)(t, "ann")
	one.based(ann, root, 1)
	called(t, one.at.HTTP, ann, "before the switch")
	before := time.Now()
	one.restores(ann, root, before, "before the switch")
	require.NoFileExists(t, filepath.Join(two.dir, archive.StateFile), "a standby archives nothing")
	called(t, one.at.HTTP, ann, "the last of the first machine")

	_, err := admin.Promote().Do(t.Context(), two.client(), admin.Promotion{})
	require.NoError(t, err)
	two.await(false)
	one.await(true)
	two.untilPaired()
	switched := time.Now()
	called(t, two.at.HTTP, ann, "after the switch")
	after := time.Now()
	two.restores(ann, root, after, "after the switch")
	two.restores(ann, root, switched, "the last of the first machine")
	two.restores(ann, root, before, "before the switch")
	assert.Zero(t, gaps(t, root))

	_, err = admin.Promote().Do(t.Context(), one.client(), admin.Promotion{})
	require.NoError(t, err)
	one.await(false)
	two.await(true)
	called(t, one.at.HTTP, ann, "back again")
	one.restores(ann, root, time.Now(), "back again")
	one.restores(ann, root, after, "after the switch")
	assert.Zero(t, gaps(t, root))
	found, err := archiveIn(t, root).Verify(t.Context(), func(int64, int64) {})
	require.NoError(t, err)
	assert.Empty(t, found.Faults)
}

// lose ends the first machine while the archive is away, and promotes the second machine. It returns a time before the outage,
// and a time at which only the standby had a write.
func lose(t *testing.T, root, ann string, one, two *machine) (before, within time.Time) {
	t.Helper()
	one.based(ann, root, 1)
	called(t, one.at.HTTP, ann, "before the loss")
	before = time.Now()
	one.restores(ann, root, before, "before the loss")
	mount(t, root, false)
	called(t, one.at.HTTP, ann, "only on the standby")
	within = time.Now()
	require.NoError(t, one.stop())
	_, err := admin.Promote().Do(t.Context(), two.client(), admin.Promotion{PrimaryIsGone: true})
	require.NoError(t, err)
	two.await(false)
	return before, within
}

// The primary is lost while the archive is away. The new primary archives the frames that it has as the standby, and then its own writes.
func TestTheArchiveOfAPairOutlivesItsPrimary(t *testing.T) {
	t.Parallel()
	root, one, two := newArchived(t)
	one.start(false)
	two.start(true)
	one.untilPaired()
	two.untilPaired()
	ann := tokens(t, one.dir)(t, "ann")
	before, within := lose(t, root, ann, one, two)
	called(t, two.at.HTTP, ann, "after the loss")
	after := time.Now()
	mount(t, root, true)
	two.restores(ann, root, after, "after the loss")
	two.restores(ann, root, within, "only on the standby")
	two.restores(ann, root, before, "before the loss")
	assert.Zero(t, gaps(t, root))
	require.NoDirExists(t, filepath.Join(two.dir, pair.TailDir))

	one.start(true) // it takes no archive
	two.untilPaired()
	require.NoFileExists(t, filepath.Join(one.dir, archive.StateFile))
	called(t, two.at.HTTP, ann, "with a standby again")
	two.restores(ann, root, time.Now(), "with a standby again")
	found, err := archiveIn(t, root).Verify(t.Context(), func(int64, int64) {})
	require.NoError(t, err)
	assert.Empty(t, found.Faults)
}

// The new primary lacks frames that the archive lacks: there is a gap, which its first base ends.
func TestTheArchiveOfAPairHasAGapWithoutTheTail(t *testing.T) {
	t.Parallel()
	root, one, two := newArchived(t)
	one.start(false)
	two.start(true)
	one.untilPaired()
	two.untilPaired()
	ann := tokens(t, one.dir)(t, "ann")
	before, within := lose(t, root, ann, one, two)
	require.NoError(t, two.stop())
	require.NoError(t, os.RemoveAll(filepath.Join(two.dir, pair.TailDir)))
	mount(t, root, true)
	two.start(false)
	two.based(ann, root, 2)
	called(t, two.at.HTTP, ann, "after the base")
	two.restores(ann, root, time.Now(), "after the base")
	two.restores(ann, root, before, "before the loss")
	assert.Equal(t, 1, gaps(t, root))
	_, err := has(t, root, within, "")
	_, gap := errors.AsType[*restore.GapError](err)
	assert.Truef(t, gap, "%v", err)
}

// A standby whose archive would be lost with its data directory is refused at its start, and not when it becomes the primary.
func TestAStandbyIsNotToldOfItsArchiveAtItsPromotion(t *testing.T) {
	t.Parallel()
	_, two := newPair(t)
	within := filepath.Join(two.dir, "archive")
	require.NoError(t, os.Mkdir(within, 0o700))
	two.env = append(two.env, "FANFARE_ARCHIVE=file://"+within)
	two.begin(true)
	select {
	case <-two.ready:
		require.Fail(t, "the standby runs")
	case err := <-two.ended:
		two.ended = nil
		require.ErrorContains(t, err, "is in the data directory")
	}
}
