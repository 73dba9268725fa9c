package archive_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/archive"
	"fanfare/internal/objects"
)

// In two days a machine that makes a base each five hours leaves all objects for the last six hours.
func TestRetentionLeavesWhatTheKeptTimeNeeds(t *testing.T) {
	t.Parallel()
	inOffice(t, func(t *testing.T, store objects.Store, o *office) {
		for range 10 {
			o.write(baseLog + 10)
			sleep(5 * time.Hour)
		}
		all := bases(t, o.archive)
		require.Len(t, all, 2)
		assert.Greater(t, time.Since(all[0].MadeAt), kept)
		assert.Less(t, time.Since(all[1].MadeAt), kept)
		segments := names(t, store, "t/0000000000000001/s/")
		assert.Equal(t, segmentName(1, all[0].First), segments[0])
		assert.Less(t, len(names(t, store, "f/")), 4*len(all)+8, "files of deleted bases are there")
		sound(t, o.archive)
	})
}

// A file without a list may belong to a base that is being made, so it stays for a day.
func TestAFileWithoutAListStaysForADay(t *testing.T) {
	t.Parallel()
	inOffice(t, func(t *testing.T, store objects.Store, o *office) {
		sleep(2 * time.Hour)
		require.NoError(t, store.Create(t.Context(), archive.FileName("00ff"), objects.Bytes([]byte("left"))))
		sleep(23 * time.Hour)
		assert.Contains(t, names(t, store, "f/"), "f/00ff")
		sleep(2 * time.Hour)
		assert.NotContains(t, names(t, store, "f/"), "f/00ff")
		sound(t, o.archive)
	})
}

// A directory was restored to a time before the newest base of the former directory. The newest base does
// not help the restored directory, so the base before it stays.
func TestABranchKeepsTheBaseOfItsOwn(t *testing.T) {
	t.Parallel()
	inOffice(t, func(t *testing.T, store objects.Store, o *office) {
		sleep(3 * time.Hour)
		s := start("copy", tapeAt(0))
		s.Anyway, s.Followed = true, parent(1, tapeAt(o.end()))
		sleep(10 * time.Minute)
		o.write(baseLog)
		sleep(110 * time.Minute)
		require.Len(t, bases(t, o.archive), 2)
		copied := openOffice(t, store, newMachine(), s)
		copied.run(t.Context())
		sleep(330 * time.Minute)
		require.True(t, o.fenced.Load())
		all := bases(t, o.archive)
		require.Len(t, all, 3) // the first, the void one, and the own base of the copy
		c, err := o.archive.Catalog(t.Context())
		require.NoError(t, err)
		lines, err := o.archive.Lines(t.Context(), c)
		require.NoError(t, err)
		newest := lines[len(lines)-1]
		assert.EqualValues(t, 2, newest.Term)
		assert.Equal(t, lastOf(t, o.archive, all[0]), newest.Ranges[0].From)
		copied.stop()
		sound(t, o.archive)
	})
}

// A process that lost the archive deletes nothing, even if it has not noticed the loss.
func TestOnlyTheHolderOfTheNewestTermDeletes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, m := inMemory(t), newMachine()
		o := openOffice(t, store, m, start("node", tapeAt(0)))
		o.run(t.Context())
		for range 2 {
			m.write(baseLog)
			sleep(5 * time.Hour)
		}
		o.stop()
		sleep(5 * 24 * time.Hour)
		taker := start("other", at(0, 0))
		taker.Anyway = true
		take(t, open(t, store), taker)
		before := names(t, store, "")
		require.ErrorContains(t, o.Retain(t.Context()), "does not hold the newest term")
		assert.Equal(t, before, names(t, store, ""))
	})
}

// The other process takes the archive while the old holder deletes.
func TestAHolderStopsToDeleteAfterAFence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &deletions{Store: inMemory(t)}
		m := newMachine()
		o := openOffice(t, store, m, start("node", tapeAt(0)))
		o.run(t.Context())
		store.set(objects.ErrAway)
		for range 4 {
			m.write(baseLog)
			sleep(5 * time.Hour)
		}
		o.stop()
		store.set(nil)
		store.before = func() {
			taker := start("other", at(0, 0))
			taker.Anyway = true
			take(t, open(t, store.Store), taker)
			store.before = nil
		}
		err := o.Retain(t.Context())
		require.ErrorContains(t, err, "does not hold the newest term")
		assert.LessOrEqual(t, store.done, 100)
		sound(t, o.archive)
	})
}

// A keeper that may not delete still makes bases.
func TestAStoreThatRefusesDeletionsGetsBases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &deletions{Store: inMemory(t)}
		store.set(objects.ErrRefused)
		o := openOffice(t, store, newMachine(), start("node", tapeAt(0)))
		o.run(t.Context())
		for range 5 {
			o.write(baseLog)
			sleep(5 * time.Hour)
		}
		o.stop()
		assert.Len(t, bases(t, o.archive), 6)
		assert.NotEmpty(t, o.logs.FilterMessageSnippet("cannot be kept").All())
	})
}

// The last object of a term stays for ever: it stops a writer that awakes late.
func TestTheLastObjectOfATermStays(t *testing.T) {
	t.Parallel()
	inOffice(t, func(t *testing.T, store objects.Store, o *office) {
		sleep(time.Hour)
		o.stop()
		old := o.archiver
		for term := uint64(2); term < 5; term++ {
			s := start("node", tapeAt(o.end()))
			s.Took = term - 1
			o.office(t, store, s)
			o.write(baseLog)
			sleep(24 * time.Hour)
			o.stop()
		}
		assert.Len(t, names(t, store, "t/0000000000000001/s/"), 1)
		assert.Len(t, names(t, store, "t/0000000000000002/s/"), 1)
		o.write(1)
		_, fenced := errors.AsType[*archive.FencedError](old.Drain(t.Context()))
		assert.True(t, fenced)
		sound(t, o.archive)
	})
}

// office starts the next process of an office.
func (o *office) office(t *testing.T, store objects.Store, s archive.Start) {
	t.Helper()
	next := openOffice(t, store, o.machine, s)
	o.Keeper, o.archive, o.archiver, o.term = next.Keeper, next.archive, next.archiver, next.term
	o.run(t.Context())
}

// A crash at each deletion leaves an archive of which each list has everything that it names.
func TestACrashDuringTheRetention(t *testing.T) {
	t.Parallel()
	cut, ended := false, false
	for crash := 0; !ended; crash++ {
		synctest.Test(t, func(t *testing.T) {
			store := &deletions{Store: inMemory(t)}
			m := newMachine()
			o := openOffice(t, store, m, start("node", tapeAt(0)))
			o.run(t.Context())
			store.set(objects.ErrAway)
			for range 4 {
				m.write(baseLog)
				sleep(5 * time.Hour)
			}
			o.stop()
			store.set(nil)
			store.most = 1 + crash*crash
			ended = o.Retain(t.Context()) == nil
			cut = cut || !ended
			sound(t, o.archive)
			c, err := o.archive.Catalog(t.Context())
			require.NoError(t, err)
			lines, err := o.archive.Lines(t.Context(), c)
			require.NoError(t, err)
			require.Len(t, lines[0].Ranges, 1)
			assert.Greater(t, time.Since(lines[0].Ranges[0].From), kept)
		})
	}
	assert.True(t, cut)
}

// deletions is a store whose deletions fail.
type deletions struct {
	objects.Store
	err        error
	done, most int // most deletions succeed, 0 for no limit
	before     func()
}

func (d *deletions) set(err error) { d.err = err }

// Delete implements objects.Store.
func (d *deletions) Delete(ctx context.Context, name string) error {
	if d.before != nil {
		d.before()
	}
	if d.err != nil || d.most > 0 && d.done == d.most {
		return fmt.Errorf("delete %s: %w", name, cmp.Or(d.err, objects.ErrAway))
	}
	d.done++
	return d.Store.Delete(ctx, name)
}
