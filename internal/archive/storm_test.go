package archive_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	mathrand "math/rand/v2"
	"slices"
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
	"fanfare/internal/stream"
)

// unreliable is a store whose answers are late or lost. If the answer of a creation is lost,
// its effect happens at once, later or never.
type unreliable struct {
	objects.Store
	mu     sync.Mutex
	random *mathrand.Rand
	late   sync.WaitGroup
}

func (u *unreliable) draw(n int) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.random.IntN(n)
}

func (u *unreliable) pause() { time.Sleep(time.Duration(u.draw(20_000)) * time.Microsecond) } //nolint:forbidigo // virtual time

// Create implements objects.Store. If the caller dies, its request may still take effect.
func (u *unreliable) Create(ctx context.Context, name string, body objects.Body) error {
	u.pause()
	away := fmt.Errorf("create %s: %w", name, objects.ErrAway)
	switch effect := context.WithoutCancel(ctx); u.draw(10) {
	case 0:
		return away
	case 1:
		_ = u.Store.Create(effect, name, body) // the answer is lost, whatever it is
		return away
	case 2:
		u.late.Go(func() {
			for range u.draw(8) {
				u.pause()
			}
			_ = u.Store.Create(effect, name, body) // the answer is lost, whatever it is
		})
		return away
	default:
		err := u.Store.Create(effect, name, body)
		u.pause()
		return errors.Join(context.Cause(ctx), err)
	}
}

// Get implements objects.Store.
func (u *unreliable) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if u.pause(); u.draw(10) == 0 {
		return nil, fmt.Errorf("get %s: %w", name, objects.ErrAway)
	}
	return u.Store.Get(ctx, name)
}

// List implements objects.Store.
func (u *unreliable) List(ctx context.Context, prefix, after string) iter.Seq2[objects.Object, error] {
	if u.pause(); u.draw(10) == 0 {
		return func(yield func(objects.Object, error) bool) {
			yield(objects.Object{}, fmt.Errorf("list %s: %w", prefix, objects.ErrAway))
		}
	}
	return u.Store.List(ctx, prefix, after)
}

// Delete implements objects.Store.
func (u *unreliable) Delete(ctx context.Context, name string) error {
	u.pause()
	away := fmt.Errorf("delete %s: %w", name, objects.ErrAway)
	switch u.draw(20) {
	case 0:
		return away
	case 1:
		_ = u.Store.Delete(ctx, name) // the answer is lost, whatever it is
		return away
	}
	return u.Store.Delete(ctx, name)
}

// node is a data directory and its process.
type node struct {
	archive *archive.Archive
	name    string
	log     []string        // the writes of the process, by their offset in the log of the queue
	asked   map[string]bool // the nonces of its terms
	got     uint64
	took    []archive.Term
	ends    map[uint64][]string           // the log of the directory at the end of its process, by the term
	stored  map[[2]uint64]stream.Position // the ends of the segments that the archive certainly has
	fenced  []archive.FencedError
	refused []error
}

func (n *node) end() stream.Position {
	return stream.Position{Queue: stream.Place{Offset: uint64(len(n.log))}}
}

// copied returns a copy of the directory, which differs in nothing that it has stored.
func (n *node) copied() *node {
	return &node{archive: n.archive, name: n.name, log: slices.Clone(n.log), asked: maps.Clone(n.asked), got: n.got, stored: map[[2]uint64]stream.Position{}, ends: map[uint64][]string{}}
}

// life runs one process: it takes a term, and writes until the writer is fenced or ctx ends.
func (n *node) life(ctx context.Context, anyway bool) {
	s := archive.Start{Lineage: "lineage", Node: n.name, Took: n.got, At: n.end(), Logs: n.end(), Nonce: rand.Text(), DataFormat: 2, Version: "v", Anyway: anyway}
	s.Asked = func(nonce string) bool { return n.asked[nonce] }
	s.Keep = func() error {
		n.asked[s.Nonce] = true
		return nil
	}
	var term archive.Term
	if !n.until(ctx, func() (err error) { term, err = n.archive.Take(ctx, s); return err }) {
		return
	}
	n.got, n.took = term.Number, append(n.took, term)
	for w := n.archive.Writer(term); ctx.Err() == nil; {
		now := time.Now()
		n.log = append(n.log, rand.Text())
		n.ends[term.Number] = n.log
		s := archive.Segment{Header: archive.Header{First: now, Last: now, Start: w.End(), End: n.end()}}
		s.Frames = []byte(strings.Join(n.log[s.Start.Queue.Offset:], ""))
		if !n.until(ctx, func() error { return w.Put(ctx, s) }) {
			return
		}
		n.stored[[2]uint64{term.Number, w.Next() - 1}] = s.End
	}
}

// until repeats a call while the store is unreachable, and reports whether the call succeeded.
func (n *node) until(ctx context.Context, call func() error) bool {
	for ctx.Err() == nil {
		err := call()
		if err == nil {
			return ctx.Err() == nil
		}
		if fenced, ok := errors.AsType[*archive.FencedError](err); ok {
			n.fenced = append(n.fenced, *fenced)
			return false
		}
		if !errors.Is(err, objects.ErrAway) {
			if ctx.Err() == nil {
				n.refused = append(n.refused, err)
			}
			return false
		}
	}
	return false
}

// Three directories take the archive from each other, and their processes die. The store loses
// answers and delays requests. spec/Archive.tla is the model.
func TestTheFenceOverAnUnreliableStore(t *testing.T) {
	t.Parallel()
	fences, races, terms, copies := 0, 0, 0, 0
	seeds := uint64(300)
	if testing.Short() {
		seeds = uint64(stormtest.Runs(20))
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := inMemory(t)
				network := &unreliable{Store: store, random: mathrand.New(mathrand.NewPCG(seed, 1))}
				var nodes []*node
				var lives sync.WaitGroup
				for i := range 3 {
					n := &node{archive: open(t, network), name: fmt.Sprint("node", i), asked: map[string]bool{}, stored: map[[2]uint64]stream.Position{}, ends: map[uint64][]string{}}
					live := func(n *node, anyway bool) {
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(200+network.draw(2000))*time.Millisecond)
						defer cancel()
						n.life(ctx, anyway)
					}
					twin := n.copied()
					nodes = append(nodes, n, twin)
					lives.Go(func() {
						for life := range 3 {
							live(n, life == 0 || network.draw(2) == 0)
						}
						if network.draw(2) == 0 {
							return
						}
						*twin = *n.copied() // the copy and the original are started at the same time
						lives.Go(func() {
							live(twin, network.draw(3) == 0)
							live(twin, network.draw(3) == 0)
						})
						live(n, network.draw(3) == 0)
						live(n, network.draw(3) == 0)
					})
				}
				lives.Wait()
				network.late.Wait()
				terms += checkChain(t, open(t, store), nodes)
				for _, n := range nodes {
					fences += len(n.fenced)
					for _, err := range n.refused {
						if _, ok := errors.AsType[*archive.TakenError](err); ok {
							races++
						} else {
							assert.Truef(t, errors.Is(err, archive.ErrTakenOver) || errors.Is(err, archive.ErrOldCopy), "%v", err)
						}
						if errors.Is(err, archive.ErrOldCopy) {
							copies++
						}
					}
				}
			})
		})
	}
	t.Logf("%d terms, %d fences, %d races for a term, %d refused copies", terms, fences, races, copies)
	assert.GreaterOrEqual(t, copies, int(seeds/8))
	assert.Greater(t, fences, int(seeds/4))
	assert.Greater(t, races, int(seeds/4))
}

// checkChain reads all terms and segments, and returns the number of terms.
func checkChain(t *testing.T, a *archive.Archive, nodes []*node) int {
	t.Helper()
	newest, err := a.Newest(t.Context())
	require.NoError(t, err)
	holder := map[uint64]archive.Term{}
	for _, n := range nodes {
		for _, term := range n.took {
			require.NotContains(t, holder, term.Number, "two directories hold a term")
			holder[term.Number] = term
		}
	}
	var before archive.Term
	var end stream.Position
	for number := uint64(1); number <= newest.Number; number++ {
		term, err := a.Term(t.Context(), number)
		require.NoError(t, err)
		if held, ok := holder[number]; ok {
			require.Equal(t, held.Nonce, term.Nonce)
		}
		if before.Node == term.Node && term.Parent.Term == number-1 {
			require.True(t, end.Covers(stream.Position(term.Parent.Position)), "the term continues behind a hole")
		}
		before, end = term, checkTerm(t, a, term, number < newest.Number)
	}
	for _, n := range nodes {
		for term, log := range n.ends {
			checkHistory(t, a, term, log)
		}
		for key, end := range n.stored {
			s, err := a.Segment(t.Context(), key[0], key[1])
			require.NoErrorf(t, err, "%s was answered that segment %x of term %x is stored", n.name, key[1], key[0])
			require.Equal(t, end, s.End)
			require.False(t, s.Seal)
		}
		for _, fenced := range n.fenced {
			s, err := a.Segment(t.Context(), fenced.Term, fenced.N)
			require.NoError(t, err)
			require.True(t, s.Seal, "a writer was stopped by no seal")
		}
	}
	return int(newest.Number)
}

// checkHistory checks that the chain of a term has the bytes of the directory that wrote the term, and no byte of a copy of it.
func checkHistory(t *testing.T, a *archive.Archive, number uint64, log []string) {
	t.Helper()
	chain, err := a.Chain(t.Context(), number, 0)
	require.NoError(t, err)
	for _, link := range chain {
		first, last, err := a.Span(t.Context(), link)
		require.NoError(t, err)
		for s, err := range a.Segments(t.Context(), link.Number, first, last) {
			require.NoError(t, err)
			from, to := s.Start.Queue.Offset, s.End.Queue.Offset
			if link.Cut {
				to = min(to, link.Upto.Queue.Offset)
			}
			if to > uint64(len(log)) || from >= to {
				continue // a request of the process took effect after its end
			}
			want := strings.Join(log[from:to], "")
			require.Equalf(t, want, string(s.Frames[:min(len(want), len(s.Frames))]), "segment %x of term %x in the chain of term %x is of another copy", s.N, link.Number, number)
		}
	}
}

// checkTerm checks that the segments of a term come from the term's writer, have no hole, and
// end with one seal if there is a next term. It returns the position at which the term ends.
func checkTerm(t *testing.T, a *archive.Archive, term archive.Term, sealed bool) stream.Position {
	t.Helper()
	end := stream.Position(term.From)
	for n := uint64(1); ; n++ {
		s, err := a.Segment(t.Context(), term.Number, n)
		if errors.Is(err, objects.ErrNotThere) {
			require.Falsef(t, sealed, "term %x has no seal", term.Number)
			return end
		}
		require.NoError(t, err)
		require.Equal(t, end, s.Start)
		if end = s.End; s.Seal {
			_, err := a.Segment(t.Context(), term.Number, n+1)
			require.ErrorIs(t, err, objects.ErrNotThere, "a segment behind a seal")
			return end
		}
		require.Equalf(t, term.Nonce, s.Writer, "segment %x of term %x is of another writer", n, term.Number)
	}
}
