package archive_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/archive"
	"fanfare/internal/objects"
	"fanfare/internal/stormtest"
)

// life is a machine in a storm. A restored machine has the state of its parent at an offset of the
// parent's stream.
type life struct {
	*machine
	name   string
	born   time.Time
	parent *life
	upto   int
}

// count returns the end of the machine's stream at a time.
func (l *life) count(at time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return sort.Search(len(l.times), func(i int) bool { return l.times[i].UnixMilli() > at.UnixMilli() }) // the archive has no finer times
}

// truth returns the state at a time, from the machines' own records.
func (l *life) truth(at time.Time, most int) string {
	if at.Before(l.born) {
		return l.parent.truth(at, l.upto)
	}
	return l.state(max(l.begin, min(l.count(at), most)))
}

// tempest is a storm of bases, retention, gaps, outages, restarts and restored copies.
type tempest struct {
	t       *testing.T
	store   objects.Store
	network *unreliable
	random  *rand.Rand
	archive *archive.Archive // over the store itself
	lives   map[string]*life
	now     *life
	office  *office
	old     []*office
	first   time.Time // the time of the first base

	bases, gaps, copies, fences, restarts, checked int
}

func (w *tempest) chance(percent int) bool { return w.random.IntN(100) < percent }

// boot starts a process of the present machine.
func (w *tempest) boot(s archive.Start) {
	a := open(w.t, w.network)
	var term archive.Term
	for {
		var err error
		if term, err = a.Take(w.t.Context(), s); err == nil {
			break
		}
		require.ErrorIs(w.t, err, objects.ErrAway)
	}
	w.office = officeOf(w.t, a, w.now.machine, term)
	w.office.run(w.t.Context())
}

func (w *tempest) start() archive.Start {
	s := start(w.now.name, tapeAt(w.now.end()))
	s.Anyway = true
	return s
}

// restart ends the process and starts it again.
func (w *tempest) restart() {
	w.office.stop()
	w.restarts++
	w.boot(w.start())
}

// copied restores the archive to a time, and gives the archive to the restored machine. The process of the former
// machine is still running, or stops.
func (w *tempest) copied() {
	lines := w.lines()
	line := lines[w.random.IntN(len(lines))]
	if len(line.Ranges) == 0 {
		return
	}
	at := w.pick(line.Ranges[w.random.IntN(len(line.Ranges))])
	if time.Since(at) > kept-time.Hour {
		return // retention may delete objects of the copy before the copy has its term
	}
	state, followed := w.restored(line.Term, at)
	parent := w.holder(followed.Term)
	w.old = append(w.old, w.office)
	if w.chance(50) {
		w.office.stop()
	}
	w.copies++
	m := newMachine()
	m.every, m.before, m.begin = w.now.every, state, 100*w.copies
	for range m.begin {
		m.bytes, m.times = append(m.bytes, 0), append(m.times, time.Time{})
	}
	w.now = &life{machine: m, name: fmt.Sprint("copy", w.copies), born: time.Now(), parent: parent, upto: int(followed.Queue.Offset)}
	w.lives[w.now.name] = w.now
	s := w.start()
	s.Followed = followed
	w.boot(s)
}

// holder returns the machine of a term.
func (w *tempest) holder(number uint64) *life {
	term, err := w.archive.Term(w.t.Context(), number)
	require.NoError(w.t, err)
	return w.lives[term.Node]
}

func (w *tempest) lines() []archive.Line {
	c, err := w.archive.Catalog(w.t.Context())
	require.NoError(w.t, err)
	lines, err := w.archive.Lines(w.t.Context(), c)
	require.NoError(w.t, err)
	return lines
}

// pick returns a second of a range, or one of its ends.
func (w *tempest) pick(r archive.Range) time.Time {
	switch seconds := int64(r.To.Sub(r.From) / time.Second); w.random.IntN(6) {
	case 0:
		return r.From
	case 1:
		return r.To
	default:
		return r.From.Add(time.Duration(w.random.Int64N(seconds+1)) * time.Second)
	}
}

// check restores the archive to drawn times that the archive offers.
func (w *tempest) check() {
	c, err := w.archive.Catalog(w.t.Context())
	require.NoError(w.t, err)
	if len(c.Bases) > 0 && w.first.IsZero() {
		w.first = c.Bases[0].MadeAt
	}
	lines := w.lines()
	for _, line := range lines {
		for _, r := range line.Ranges {
			for range 6 {
				w.restored(line.Term, w.pick(r))
			}
		}
	}
	if w.first.IsZero() {
		return
	}
	newest, promised := lines[len(lines)-1], time.Now().Add(-kept)
	if promised.Before(w.first) {
		promised = w.first
	}
	if len(names(w.t, w.store, fmt.Sprintf("t/%016x/s/", newest.Term))) == 0 {
		return // the term has just begun
	}
	require.NotEmpty(w.t, newest.Ranges)
	require.Falsef(w.t, newest.Ranges[0].From.After(promised), "the archive reaches back to %v only, not to %v", newest.Ranges[0].From, promised)
}

// restored restores the archive to a time, and compares the state with the machines' own records.
// It also returns the place in the stream.
func (w *tempest) restored(number uint64, at time.Time) (string, archive.Parent) {
	w.checked++
	chain, err := w.archive.Chain(w.t.Context(), number, 0)
	require.NoError(w.t, err)
	var base *archive.Base
	c, err := w.archive.Catalog(w.t.Context())
	require.NoError(w.t, err)
	for i, b := range c.Bases {
		if ends, err := w.archive.Ends(w.t.Context(), b); err == nil && !ends.Last.After(at) && chain.Has(b) {
			base = &c.Bases[i]
		}
	}
	require.NotNilf(w.t, base, "there is no base for %v", at)
	offset, state := w.files(*base)
	place := archive.Parent{Term: base.Term, Position: archive.Position(tapeAt(offset))}
	for _, link := range chain {
		if link.Number < base.Term {
			continue
		}
		owner, first := w.lives[link.Node], uint64(1)
		if link.Number == base.Term {
			first = base.First
		} else if w.holder(place.Term) != owner {
			offset = int(link.From.Queue.Offset)
		}
		most := max(offset, min(owner.count(at), len(owner.bytes)))
		if link.Cut {
			most = min(most, int(link.Upto.Queue.Offset))
		}
		if owner.born.After(at) {
			break
		}
		state += w.segments(link, first, offset, most)
		if most > offset {
			offset = most
		}
		place = archive.Parent{Term: link.Number, Position: archive.Position(tapeAt(offset))}
	}
	last := w.lives[chain[len(chain)-1].Node]
	most := len(last.bytes)
	require.Equalf(w.t, last.truth(at, most), state, "the state of term %d at %v", number, at)
	return state, place
}

// files reads the files of a base, and returns its offset and state.
func (w *tempest) files(b archive.Base) (offset int, state string) {
	for _, f := range b.Files {
		content, err := objects.Read(w.t.Context(), w.store, archive.FileName(f.SHA256), 1<<20)
		require.NoErrorf(w.t, err, "%s of %s", f.Name, archive.BaseName(b.Term, b.First))
		require.Equal(w.t, f.SHA256, fmt.Sprintf("%x", sha256.Sum256(content)))
		if f.Name == "queue/000001.log" {
			text, rest, _ := strings.Cut(string(content), " ")
			_, err := fmt.Sscan(text, &offset)
			require.NoError(w.t, err)
			state = rest
		}
	}
	return offset, state
}

// segments returns the bytes between two offsets from the segments of a term.
func (w *tempest) segments(link archive.Link, first uint64, from, to int) string {
	var text []byte
	for n := first; from < to; n++ {
		s, err := w.archive.Segment(w.t.Context(), link.Number, n)
		if errors.Is(err, objects.ErrNotThere) && n > first || err == nil && s.Seal {
			return string(text)
		}
		require.NoErrorf(w.t, err, "segment %d of term %d, for the bytes %d to %d", n, link.Number, from, to)
		if int(s.End.Queue.Offset) <= from {
			continue
		}
		begin := int(s.Start.Queue.Offset)
		require.LessOrEqualf(w.t, begin, from, "the bytes before segment %d of term %d are missing", n, link.Number)
		end := min(to, int(s.End.Queue.Offset))
		text = append(text, s.Frames[from-begin:end-begin]...)
		from = end
	}
	return string(text)
}

// blow lets something happen.
func (w *tempest) blow() {
	switch w.random.IntN(12) {
	case 0:
		w.restart()
	case 1:
		w.copied()
	case 2: // a gap
		w.now.write(30)
		w.now.drop(w.now.end() - 1 - w.random.IntN(20))
		w.gaps++
	case 3:
		w.now.set(func() { w.now.fail = errors.New("no checkpoint") })
	case 4:
		w.now.set(func() { w.now.fail = nil })
	case 5:
		m := w.now.machine
		m.set(func() { m.during = func() { m.write(7) } })
	default:
	}
}

func TestBasesAndRetentionInAStorm(t *testing.T) {
	t.Parallel()
	var sum tempest
	seeds := uint64(15)
	if testing.Short() {
		seeds = uint64(stormtest.Runs(4))
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := inMemory(t)
				random := rand.New(rand.NewPCG(seed, 7))
				w := &tempest{
					t: t, store: store, random: random, archive: open(t, store), lives: map[string]*life{},
					network: &unreliable{Store: store, random: rand.New(rand.NewPCG(seed, 2))},
				}
				m := newMachine()
				m.every = 5 * time.Minute
				m.write(100)
				w.now = &life{machine: m, name: "node", born: time.Now()}
				w.lives["node"] = w.now
				sleep(time.Second)
				defer w.stop()
				w.boot(w.start())
				for end := time.Now().Add(36 * time.Hour); time.Now().Before(end); {
					for range 3 {
						sleep(time.Duration(w.random.IntN(40*60*1000)) * time.Millisecond)
						w.now.write(w.random.IntN(300))
					}
					w.blow()
					w.check()
				}
				w.end(&sum)
			})
		})
	}
	t.Logf("%d times in %d gaps, %d copies, %d fences, %d restarts, %d bases", sum.checked, sum.gaps, sum.copies, sum.fences, sum.restarts, sum.bases)
	for _, n := range []int{sum.gaps, sum.copies, sum.fences, sum.restarts, sum.bases} {
		assert.GreaterOrEqual(t, n, int(seeds)/4)
	}
}

// stop stops all processes.
func (w *tempest) stop() {
	var stops sync.WaitGroup
	for _, o := range append(w.old, w.office) {
		stops.Go(o.stop)
	}
	stops.Wait()
	w.network.late.Wait()
}

// end stops the processes, and adds the counts of the storm.
func (w *tempest) end(sum *tempest) {
	w.now.set(func() { w.now.fail = nil })
	sleep(3 * time.Hour)
	w.check()
	w.stop()
	for _, o := range w.old {
		if o.fenced.Load() {
			sum.fences++
		}
	}
	found, err := w.archive.Verify(context.Background(), func(int64, int64) {})
	require.NoError(w.t, err)
	require.Empty(w.t, found.Faults)
	sum.bases += len(bases(w.t, w.archive))
	sum.gaps, sum.copies, sum.restarts, sum.checked = sum.gaps+w.gaps, sum.copies+w.copies, sum.restarts+w.restarts, sum.checked+w.checked
}
