package archive_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/archive"
	"fanfare/internal/objects"
)

func TestVerifyNamesDamagedAndMissingObjects(t *testing.T) {
	t.Parallel()
	inOffice(t, func(t *testing.T, store objects.Store, o *office) {
		for range 2 {
			sleep(5 * time.Minute)
			o.write(20)
			o.drop(o.end() - 5)
			sleep(5 * time.Minute)
		}
		o.stop()
		o.office(t, store, start("node", tapeAt(o.end())))
		sleep(5 * time.Minute)
		sound(t, o.archive)
		all := bases(t, o.archive)
		base := archive.BaseName(all[0].Term, all[0].First)
		file := archive.FileName(all[0].Files[1].SHA256)
		mark := names(t, store, "g/")[0]
		segments := names(t, store, "t/0000000000000001/s/")
		seal := segments[len(segments)-1]
		for name, damage := range map[string]string{
			file: "damaged", segmentName(1, 3): "is damaged", base: "is damaged", "t/0000000000000001/term.json": "is damaged",
		} {
			harm(t, store, o.archive, name, []byte("other bytes"), archive.Fault{Object: name, Fault: damage})
		}
		for name, damage := range map[string]string{
			file: "missing: b/", segmentName(1, 3): "missing", mark: "missing", seal: "without a seal", "t/0000000000000001/term.json": "missing: b/",
		} {
			harm(t, store, o.archive, name, nil, archive.Fault{Object: name, Fault: damage})
		}
		harm(t, store, o.archive, segmentName(1, 1), nil, archive.Fault{Object: segmentName(1, all[0].First), Fault: "needs the segments"})
	})
}

// harm replaces or deletes an object, expects a fault, and mends the object.
func harm(t *testing.T, store objects.Store, a *archive.Archive, name string, content []byte, want archive.Fault) {
	t.Helper()
	whole, err := objects.Read(t.Context(), store, name, 1<<20)
	require.NoError(t, err)
	require.NoError(t, store.Delete(t.Context(), name))
	if content != nil {
		require.NoError(t, store.Create(t.Context(), name, objects.Bytes(content)))
	}
	found, err := a.Verify(t.Context(), func(done, total int64) { assert.LessOrEqual(t, done, total) })
	require.NoError(t, err)
	named := false
	for _, f := range found.Faults {
		if f.Object == want.Object {
			named = true
			assert.Contains(t, f.Fault, want.Fault)
		}
	}
	assert.Truef(t, named, "%s: %v", name, found.Faults)
	require.NoError(t, store.Delete(t.Context(), name))
	require.NoError(t, store.Create(t.Context(), name, objects.Bytes(whole)))
}

// An archive from which nothing can be restored has a fault, also if each of its objects is sound.
func TestVerifyNamesAnArchiveThatRestoresNothing(t *testing.T) {
	t.Parallel()
	found, err := open(t, inMemory(t)).Verify(t.Context(), func(int64, int64) {})
	require.NoError(t, err)
	require.Len(t, found.Faults, 1)
	assert.Contains(t, found.Faults[0].Fault, "the archive is empty")
	inOffice(t, func(t *testing.T, store objects.Store, o *office) {
		o.write(20)
		sleep(5 * time.Minute)
		found, err := o.archive.Verify(t.Context(), func(int64, int64) {})
		require.NoError(t, err)
		assert.True(t, found.Restorable)
		for _, name := range names(t, store, "b/") {
			require.NoError(t, store.Delete(t.Context(), name))
		}
		found, err = o.archive.Verify(t.Context(), func(int64, int64) {})
		require.NoError(t, err)
		assert.False(t, found.Restorable)
		assert.Empty(t, found.Lines)
		require.Len(t, found.Faults, 1)
		assert.Contains(t, found.Faults[0].Fault, "no base, so nothing can be restored")
		o.stop()
	})
}

// A restore passes over no damaged segment: verify shows the times before it and from the next base on.
func TestVerifyShowsTheTimesThatDamageLeaves(t *testing.T) {
	t.Parallel()
	inOffice(t, func(t *testing.T, store objects.Store, o *office) {
		for range 3 {
			o.write(20)
			sleep(25 * time.Hour) // a base a day
		}
		o.stop()
		all := bases(t, o.archive)
		require.GreaterOrEqual(t, len(all), 2)
		old, last := all[len(all)-2], all[len(all)-1]
		whole, err := o.archive.Verify(t.Context(), func(int64, int64) {})
		require.NoError(t, err)
		require.Empty(t, whole.Faults)
		require.Len(t, whole.Lines[0].Ranges, 1)
		own := slices.IndexFunc(last.Files, func(f archive.File) bool { return !slices.Contains(old.Files, f) })
		behind := segmentName(last.Term, last.First+1) // the newest base
		for name, ranges := range map[string]int{
			segmentName(old.Term, old.First+3):                   2, // between two bases
			behind:                                               1,
			archive.BaseName(old.Term, old.First):                1, // the other base serves
			archive.FileName(last.Files[own].SHA256):             1,
			archive.BaseName(last.Term, last.First):              1,
			"t/" + segmentName(old.Term, 1)[2:18] + "/term.json": 0,
		} {
			text, err := objects.Read(t.Context(), store, name, 1<<20)
			require.NoError(t, err)
			require.NoError(t, store.Delete(t.Context(), name))
			found, err := o.archive.Verify(t.Context(), func(int64, int64) {})
			require.NoError(t, err)
			assert.Equal(t, strings.HasPrefix(name, "b/"), len(found.Faults) == 0, name) // nothing names a list but itself
			got := 0
			for _, line := range found.Lines {
				got += len(line.Ranges)
				for _, r := range line.Ranges {
					assert.False(t, r.To.Before(r.From))
				}
			}
			assert.Equalf(t, ranges, got, "%s: %v", name, found.Lines)
			assert.Equal(t, ranges > 0 && name != behind, found.Restorable, name)
			require.NoError(t, store.Create(t.Context(), name, objects.Bytes(text)))
		}
	})
}

// Nothing in the archive shows that its last segments are missing. The directory that wrote them does.
func TestVerifyComparesTheArchiveWithItsDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	none, err := archive.ReadState(dir)
	require.NoError(t, err)
	require.Nil(t, none, "and nothing is made")
	require.NoFileExists(t, filepath.Join(dir, archive.StateFile))
	state := load(t, dir)
	store := inMemory(t)
	a := open(t, store)
	term := take(t, a, state.Start(at(0, 0), "v", 2))
	require.NoError(t, state.Take(term))
	w := a.Writer(term)
	for range 3 {
		require.NoError(t, put(t, w))
	}
	faults := func() []archive.Fault {
		read, err := archive.ReadState(dir)
		require.NoError(t, err)
		faults, err := a.Compare(t.Context(), read)
		require.NoError(t, err)
		return faults
	}
	require.Empty(t, faults(), "a running process stores no place")
	end, err := a.Seal(t.Context(), term)
	require.NoError(t, err)
	require.EqualValues(t, 4, end)
	require.NoError(t, state.Sealed(end))
	require.Empty(t, faults())
	for _, n := range []uint64{4, 3} {
		require.NoError(t, store.Delete(t.Context(), segmentName(1, n)))
		found := faults()
		require.Len(t, found, 1)
		assert.Equal(t, segmentName(1, n), found[0].Object)
		assert.Contains(t, found[0].Fault, "wrote up to segment 4")
	}
	require.NoError(t, store.Delete(t.Context(), "t/0000000000000001/term.json"))
	found := faults()
	require.Len(t, found, 1)
	assert.Contains(t, found[0].Fault, "the directory wrote it")
	// Another archive than the directory's own one is nothing to compare with.
	other := load(t, t.TempDir())
	none2, err := a.Compare(t.Context(), other)
	require.NoError(t, err)
	assert.Empty(t, none2)
}
