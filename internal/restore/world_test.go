package restore_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/archive"
	"fanfare/internal/disk"
	"fanfare/internal/follow"
	"fanfare/internal/objects"
	"fanfare/internal/restore"
	"fanfare/internal/stream"
)

var stores = []stream.Store{stream.Queue, stream.Table}

func other(store stream.Store) stream.Store { return stream.Queue + stream.Table - store }

func dirOf(store stream.Store) string { return []string{"", "queue", "table"}[store] }

// The keys that each batch of the model sets: its own number, and the number of batches of the
// other store that were answered before it.
const keyNumber, keySaw = "number", "saw"

// batch is a write of the model.
type batch struct {
	entries map[string]string // an empty value removes the key
	begun   int64             // no frame of the batch is older
	// answered is the time from which on each restore has the batch; 0 if the batch may be lost.
	answered int64
}

// span is a part of the time.
type span struct{ from, to int64 }

// made is a base: when it was made, and the earliest time to which a restore can begin with it.
type made struct {
	span
	ends int64
}

// world is a directory that writes to an archive, and the model of its data.
type world struct {
	require.TestingT
	clock    atomic.Int64 // the writers of the logs read it, too
	store    objects.Store
	archive  *archive.Archive
	home     string // the directory of the archive's state
	mem      *vfs.MemFS
	stream   *stream.Stream
	receiver *stream.Receiver
	dbs      map[stream.Store]*disk.DB
	writer   *archive.Writer
	term     archive.Term
	batches  map[stream.Store][]batch
	synced   map[stream.Store]int
	copies   int
	rest     stream.Position // the end of what earlier processes left in the logs
	lost     bool            // the next segment follows a gap
	last     int64           // the time of the last segment
	fresh    bool            // the directory was restored, and has no segment of its own yet
	whole    int64           // what was answered up to this time is in the archive
	bases    []made
	gaps     []span
	seen     map[string]int // how often each outcome of a restore was seen
}

func newWorld(t require.TestingT, store objects.Store, home string, seen map[string]int) *world {
	w := &world{TestingT: t, seen: seen, store: store, home: home, mem: vfs.NewCrashableMem(), dbs: map[stream.Store]*disk.DB{}, batches: map[stream.Store][]batch{}, synced: map[stream.Store]int{}}
	var err error
	w.archive, err = archive.New(store, w.now)
	require.NoError(t, err)
	w.start(false)
	return w
}

func (w *world) now() time.Time {
	return time.UnixMilli(w.clock.Add(1))
}

func options(fs vfs.FS) *pebble.Options {
	return &pebble.Options{FS: fs, MemTableSize: 64 << 10, MemTableStopWritesThreshold: 4, L0StopWritesThreshold: 1000, FormatMajorVersion: pebble.FormatValueSeparation, Logger: quiet{}}
}

type quiet struct{}

func (quiet) Infof(string, ...any)              {}
func (quiet) Errorf(string, ...any)             {}
func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// start starts the process: it takes a term, hands on the rest of the logs, and opens the stores.
func (w *world) start(anyway bool) {
	state, err := archive.LoadState(w.home)
	require.NoError(w, err)
	var at stream.Position
	for _, store := range stores {
		end, err := follow.End(w.mem, dirOf(store))
		require.NoError(w, err)
		at = at.With(store, end)
	}
	require.NoError(w, state.Begin(at))
	start := state.Start(at, "v", 2)
	start.Anyway = anyway
	w.term, err = w.archive.Take(context.Background(), start)
	require.NoError(w, err)
	require.NoError(w, state.Take(w.term))
	w.writer = w.archive.Writer(w.term)
	from := stream.Position(w.term.From)
	w.stream, err = stream.Open(stream.Config{FS: w.mem, Dir: "stream", Spool: 1 << 30, Log: zap.NewNop(), Now: w.now}, from)
	require.NoError(w, err)
	w.receiver = w.stream.Receive(from)
	began := w.now()
	for _, store := range stores {
		require.NoError(w, disk.MakeDir(w.mem, dirOf(store)))
		for frame, err := range follow.Logs(w.mem, dirOf(store), store, w.stream.End().Of(store), began.UnixMilli()) {
			require.NoError(w, err)
			w.stream.Add(frame)
		}
	}
	w.rest = w.stream.End()
	for _, store := range stores {
		fs := disk.TappedFS{FS: w.mem, Tap: w.stream.Tap(store)}
		w.dbs[store], err = disk.Open(nil, dirOf(store), zap.NewNop(), options(fs), disk.Format{Key: []byte("format"), Known: 1})
		require.NoError(w, err)
	}
}

func (w *world) stop() {
	for store, db := range w.dbs {
		delete(w.dbs, store)
		require.NoError(w, db.Close(func() {}))
	}
	require.NoError(w, w.stream.Close())
}

// crash ends the process, with the power if kept is less than 100: then the disk keeps this percentage of the bytes that
// were not synced. The rest of the logs gets the time of the next start.
func (w *world) crash(kept int, seed uint64, between func()) {
	after := w.mem
	if kept < 100 {
		after = w.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: kept, RNG: rand.New(rand.NewPCG(seed, 1))})
	}
	w.stop()
	w.mem = after
	between()
	w.start(false)
	for _, store := range stores {
		n := w.state("after a start", store, w.dump(w.dbs[store].DB))
		require.GreaterOrEqual(w, n, w.synced[store], "answered writes are lost")
		w.batches[store] = w.batches[store][:n]
		for i := range w.batches[store] {
			if b := &w.batches[store][i]; b.answered > w.whole {
				b.answered = w.clock.Load()
			}
		}
	}
}

// write writes a batch to a store.
func (w *world) write(store stream.Store, seed uint64, sync bool) {
	rng := rand.New(rand.NewPCG(seed, 0))
	n := len(w.batches[store]) + 1
	b := batch{begun: w.now().UnixMilli(), entries: map[string]string{keyNumber: strconv.Itoa(n), keySaw: strconv.Itoa(w.synced[other(store)])}}
	for range rng.IntN(10) {
		value := string(bytes.Repeat([]byte{byte(rng.Uint32())}, rng.IntN(300)))
		if rng.IntN(100) == 0 {
			value = strings.Repeat("x", 70_000) // a record over several blocks of the log
		}
		b.entries[fmt.Sprintf("key%03d", rng.IntN(200))] = value
	}
	write := w.dbs[store].NewBatch()
	for key, value := range b.entries {
		if value == "" {
			require.NoError(w, write.Delete([]byte(key), nil))
		} else {
			require.NoError(w, write.Set([]byte(key), []byte(value), nil))
		}
	}
	w.batches[store] = append(w.batches[store], b)
	if !sync {
		require.NoError(w, write.Commit(pebble.NoSync))
		return
	}
	require.NoError(w, write.Commit(pebble.Sync))
	answered := w.now().UnixMilli()
	for i := w.synced[store]; i < n; i++ {
		w.batches[store][i].answered = answered
	}
	w.synced[store] = n
}

// receive brings the stream up to the safe point to the archive, in segments of about most bytes.
func (w *world) receive(most int) {
	for safe := w.stream.Safe(); !w.writer.End().Covers(safe); {
		w.segment(most)
	}
}

// segment brings the next frames of the stream to the archive.
func (w *world) segment(most int) {
	got, mark, err := w.receiver.Next(context.Background(), most)
	require.NoError(w, err)
	s := archive.Segment{Header: archive.Header{First: time.UnixMilli(got[0].Time), Last: time.UnixMilli(got[len(got)-1].Time), Start: w.writer.End()}}
	if w.lost {
		for _, store := range stores { // the frames between are lost
			for _, f := range got {
				if f.Store == store {
					s.Start = s.Start.With(store, stream.Place{Log: f.Log, Offset: f.Offset})
					break
				}
			}
		}
		s.Gap, w.lost = true, false
	}
	s.End = s.Start
	for _, f := range got {
		s.Frames, s.End = stream.Append(s.Frames, f), s.End.After(f)
	}
	if s.End.Covers(w.rest) {
		s.Frames = stream.Append(s.Frames, stream.SafeAt(s.End, got[len(got)-1].Time))
	}
	w.put(s)
	w.receiver.Done(mark)
}

func (w *world) put(s archive.Segment) {
	require.NoError(w, w.writer.Put(context.Background(), s))
	w.last, w.fresh = max(w.last, s.Last.UnixMilli()), false
}

// settle brings all that was answered to the archive.
func (w *world) settle(most int) {
	require.NoError(w, w.stream.Settle())
	w.receive(most)
	w.whole = w.clock.Load()
}

// idle writes a segment without frames.
func (w *world) idle() {
	if !w.lost {
		w.settle(1 << 20)
		now := w.now()
		w.put(archive.Segment{Header: archive.Header{First: now, Last: now, Start: w.writer.End(), End: w.writer.End()}})
	}
}

// drop loses the frames that the archive lacks: the spool was full.
func (w *world) drop() {
	w.settle(1 << 20)
	from := w.last
	w.write(stream.Queue, uint64(w.clock.Load()), true)
	w.write(stream.Table, uint64(w.clock.Load()), true)
	require.NoError(w, w.stream.Settle())
	for safe, at := w.stream.Safe(), w.writer.End(); !at.Covers(safe); {
		got, mark, err := w.receiver.Next(context.Background(), 1<<20)
		require.NoError(w, err)
		for _, f := range got {
			at = at.After(f)
		}
		w.receiver.Done(mark)
	}
	w.lost = true
	w.gaps = append(w.gaps, span{from, w.clock.Load()})
	w.both()
	w.settle(1 << 20)                              // a base begins behind the first segment after a gap
	w.base(func() { w.both(); w.settle(1 << 20) }) // over several segments
}

// base makes a base; between the copies of the two stores, write is called.
func (w *world) base(write func()) {
	if !w.lost {
		w.settle(1 << 20)
	}
	made := made{span: span{from: w.clock.Load()}}
	b := archive.Base{DataFormat: 2, Version: "v", Lineage: w.term.Lineage, Term: w.term.Number, First: w.writer.Next(), From: archive.Position(w.stream.Safe())}
	b.Files = append(b.Files, w.file("dev-secret", []byte("secret of the directory")))
	for _, store := range stores {
		w.copies++
		dir := fmt.Sprint("copies/", dirOf(store), w.copies)
		require.NoError(w, disk.MakeDir(w.mem, "copies"))
		require.NoError(w, w.dbs[store].Checkpoint(dir))
		names, err := w.mem.List(dir)
		require.NoError(w, err)
		for _, name := range names {
			b.Files = append(b.Files, w.file(dirOf(store)+"/"+name, read(w, w.mem, w.mem.PathJoin(dir, name))))
		}
		require.NoError(w, w.mem.RemoveAll(dir))
		write()
	}
	w.write(stream.Queue, uint64(w.clock.Load()), true)
	w.settle(1 << 20)
	b.To, made.ends = archive.Position(w.stream.Safe()), w.last
	w.clock.Add(5) // nobody writes while the files are sent
	b.MadeAt = w.now().UTC()
	made.to = w.clock.Load()
	text, err := b.Encode()
	require.NoError(w, err)
	require.NoError(w, w.store.Create(context.Background(), archive.BaseName(b.Term, b.First), objects.Bytes(text)))
	w.bases = append(w.bases, made)
}

func (w *world) file(name string, content []byte) archive.File {
	sum := sha256.Sum256(content)
	file := archive.File{Name: name, Bytes: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}
	require.NoError(w, w.store.Create(context.Background(), archive.FileName(file.SHA256), objects.Bytes(content)))
	return file
}

func read(t require.TestingT, fs vfs.FS, name string) []byte {
	f, err := fs.Open(name)
	require.NoError(t, err)
	info, err := f.Stat()
	require.NoError(t, err)
	content := make([]byte, info.Size())
	_, err = f.ReadAt(content, 0)
	if len(content) > 0 {
		require.NoError(t, err)
	}
	require.NoError(t, f.Close())
	return content
}

// state expects one of the states of the model, and returns its number.
func (w *world) state(what string, store stream.Store, got map[string]string) int {
	n, _ := strconv.Atoi(got[keyNumber])
	require.LessOrEqual(w, n, len(w.batches[store]), what)
	want := map[string]string{}
	for _, b := range w.batches[store][:n] {
		for key, value := range b.entries {
			if value == "" {
				delete(want, key)
			} else {
				want[key] = value
			}
		}
	}
	require.True(w, maps.Equal(want, got), "%s: store %d differs from its state after %d batches", what, store, n)
	return n
}

// dump returns the keys of the model.
func (w *world) dump(db *pebble.DB) map[string]string {
	got := map[string]string{}
	it, err := db.NewIter(nil)
	require.NoError(w, err)
	for valid := it.First(); valid; valid = it.Next() {
		if key := string(it.Key()); key == keyNumber || key == keySaw || strings.HasPrefix(key, "key") {
			got[key] = string(it.Value())
		}
	}
	require.NoError(w, errors.Join(it.Error(), it.Close()))
	return got
}

// between returns the number of batches that a restore to a time may have at most, and the number that it has at
// least.
func (w *world) between(store stream.Store, at int64) (least, most int) {
	for i, b := range w.batches[store] {
		if b.answered > 0 && b.answered <= at {
			least = i + 1
		}
		if b.begun <= at {
			most = i + 1
		}
	}
	return least, most
}

// restored is a directory that a restore made.
type restored struct {
	dir  string
	kept map[stream.Store]int // the number of batches that it has
}

// restore restores a time; 0 for the newest state. It returns nil if the archive rightly refuses.
func (w *world) restore(at int64) *restored {
	var target restore.Target
	if at > 0 {
		target.At = time.UnixMilli(at)
	}
	plan, err := restore.Find(context.Background(), w.archive, target)
	if err != nil {
		require.True(w, w.mayRefuse(at, err), "%v of %d: bases %v, gaps %v", err, at, w.bases, w.gaps)
		w.seen[fmt.Sprintf("%T", err)]++
		return nil
	}
	require.LessOrEqual(w, at, w.last, "the archive ends at %d, before %d", w.last, at)
	dir, err := os.MkdirTemp(w.home, "restored")
	require.NoError(w, err)
	var bytes int64
	err = restore.Run(context.Background(), w.archive, plan, dir, restore.Options{Log: zap.NewNop(), Done: func(n int64) { bytes = n }})
	require.NoError(w, err, "restore to %d", at)
	require.Equal(w, plan.Size(), bytes)
	w.seen["restored"]++
	if plan.Term() > plan.Base.Term {
		w.seen["over terms"]++
	}
	return w.check(dir, at)
}

// mayRefuse reports whether an error is the right one.
func (w *world) mayRefuse(at int64, err error) bool {
	if _, ok := errors.AsType[*restore.LateError](err); ok {
		return at > w.last || w.fresh
	}
	if _, ok := errors.AsType[*restore.EarlyError](err); ok {
		return len(w.bases) == 0 || at > 0 && at < w.bases[0].ends
	}
	if _, ok := errors.AsType[*restore.GapError](err); !ok {
		return false
	}
	for _, gap := range w.gaps {
		after := false
		for _, base := range w.bases {
			after = after || base.from >= gap.to && (at == 0 || base.ends <= at)
		}
		if (at == 0 || at >= gap.from) && !after {
			return true
		}
	}
	return false
}

// begins expects that the times of the newest line begin where restores begin.
func (w *world) begins() {
	ctx := context.Background()
	c, err := w.archive.Catalog(ctx)
	require.NoError(w, err)
	lines, err := w.archive.Lines(ctx, c)
	require.NoError(w, err)
	found, err := w.archive.Verify(ctx, func(int64, int64) {})
	require.NoError(w, err)
	require.Equal(w, lines, found.Lines)
	for _, r := range lines[len(lines)-1].Ranges {
		_, err = restore.Find(ctx, w.archive, restore.Target{At: r.From})
		require.NoError(w, err)
		_, err = restore.Find(ctx, w.archive, restore.Target{At: r.To})
		require.NoError(w, err)
		before := r.From.Add(-time.Millisecond)
		_, err = restore.Find(ctx, w.archive, restore.Target{At: before})
		require.Error(w, err, "the list begins at %d, and a restore to %d is possible", r.From.UnixMilli(), before.UnixMilli())
	}
}

// check compares a restored directory with the model.
func (w *world) check(dir string, at int64) *restored {
	secret, err := os.ReadFile(filepath.Join(dir, "dev-secret"))
	require.NoError(w, err)
	require.Equal(w, "secret of the directory", string(secret))
	got, r := map[stream.Store]map[string]string{}, &restored{dir, map[stream.Store]int{}}
	for _, store := range stores {
		mem := vfs.NewMem() // opening the stores would change the directory
		_, err := vfs.Clone(vfs.Default, mem, filepath.Join(dir, dirOf(store)), dirOf(store))
		require.NoError(w, err)
		db, err := pebble.Open(dirOf(store), options(mem))
		require.NoError(w, err)
		got[store] = w.dump(db)
		require.NoError(w, db.Close())
		n := w.state(fmt.Sprint("a restore to ", at), store, got[store])
		least, most := w.between(store, at)
		if at == 0 {
			least, _ = w.between(store, w.whole)
			most = len(w.batches[store])
		}
		require.GreaterOrEqual(w, n, least, "a restore to %d lacks writes of store %d", at, store)
		require.LessOrEqual(w, n, most, "a restore to %d has later writes of store %d", at, store)
		r.kept[store] = n
	}
	for _, store := range stores {
		saw, _ := strconv.Atoi(got[store][keySaw])
		has, _ := strconv.Atoi(got[other(store)][keyNumber])
		require.LessOrEqual(w, saw, has, "store %d is ahead of the other one", store)
	}
	return r
}

// move continues with a restored directory on another machine.
func (w *world) move(r *restored) {
	w.stop()
	w.seen["moved"]++
	w.home = r.dir
	w.mem = vfs.NewCrashableMem()
	for _, store := range stores {
		_, err := vfs.Clone(vfs.Default, w.mem, filepath.Join(r.dir, dirOf(store)), dirOf(store), vfs.CloneSync)
		require.NoError(w, err)
		w.batches[store] = w.batches[store][:r.kept[store]]
		w.synced[store] = r.kept[store]
	}
	w.lost, w.fresh = false, true
	w.start(true)
	for _, store := range stores {
		for i := range w.batches[store] { // the restored data are on the disk, and in the archive
			if b := &w.batches[store][i]; b.answered == 0 {
				b.answered = w.clock.Load()
			}
		}
	}
}
