package datadir_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/datadir"
	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
	"fanfare/internal/queue"
	queueembedded "fanfare/internal/queue/embedded"
	"fanfare/internal/table"
	tableembedded "fanfare/internal/table/embedded"
)

var update = flag.Bool("update", false, "write the table of damage into docs/OUTAGES.md")

// machine is one machine's data directory, as a process opens it.
type machine struct {
	dir   *datadir.Dir
	table *tableembedded.Store
	queue *queueembedded.Broker
}

// start opens a data directory as fanfare up does.
func start(fs vfs.FS) (m machine, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, m.stop())
		}
	}()
	if m.dir, err = datadir.OpenOn(fs, "data"); err != nil {
		return m, err
	}
	openTable, openQueue := tableembedded.Open, queueembedded.Open
	if m.dir.IsNew() {
		openTable, openQueue = tableembedded.Create, queueembedded.Create
	}
	if m.table, err = openTable("data/table", tableembedded.Options{FS: fs, SweepEvery: -1, MemoryBytes: 4 << 20}); err != nil {
		return m, err
	}
	if m.queue, err = openQueue("data/queue", queueembedded.Options{FS: fs}); err != nil {
		return m, err
	}
	if err = m.dir.Made(); err == nil {
		_, err = m.dir.Secret()
	}
	return m, err
}

func (m machine) stop() (err error) {
	if m.queue != nil {
		err = m.queue.Close()
	}
	if m.table != nil {
		err = errors.Join(err, m.table.Close())
	}
	if m.dir != nil {
		err = errors.Join(err, m.dir.Close())
	}
	return err
}

func key(i int) table.Key { return table.Key{PK: fmt.Sprintf("p%03d", i), SK: "s"} }

func value(i int) string { return strings.Repeat(fmt.Sprint(i, " "), 300) }

// written is a directory after kill -9, with the answers that a client got.
type written struct {
	fs    *vfs.MemFS
	early *vfs.MemFS // the directory at an earlier time
	items int
	last  int // the first item that only the newest log has
}

// put writes n items and n messages, and waits for their answers.
func (w *written) put(t *testing.T, m machine, n int) {
	t.Helper()
	for range n {
		_, err := m.table.Put(t.Context(), table.PutInput{Item: table.Item{Key: key(w.items), Attrs: []table.Attr{{Name: "text", Value: table.S(value(w.items))}}}})
		require.NoError(t, err)
		require.NoError(t, m.queue.Publish(queue.TopicPosts, message.NewMessage(fmt.Sprint(w.items), []byte(value(w.items)))))
		w.items++
	}
}

func clone(t *testing.T, fs vfs.FS) *vfs.MemFS {
	t.Helper()
	copied := vfs.NewMem()
	_, err := vfs.Clone(fs, copied, "data", "data")
	require.NoError(t, err)
	return copied
}

// files returns the names of the files of a store with an end, sorted.
func files(t *testing.T, fs vfs.FS, store, end string) (names []string) {
	t.Helper()
	list, err := fs.List("data/" + store)
	require.NoError(t, err)
	for _, name := range list {
		if strings.HasSuffix(name, end) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// manifests returns the contents of the manifests of a store. A flush changes them.
func manifests(t *testing.T, fs vfs.FS, store string) (text string) {
	t.Helper()
	list, err := fs.List("data/" + store)
	require.NoError(t, err)
	for _, name := range list {
		if strings.HasPrefix(name, "MANIFEST-") {
			text += string(read(t, fs, "data/"+store+"/"+name))
		}
	}
	return text
}

// fill returns a data directory whose stores have several sorted files, a manifest with several edits, and three logs that no
// sorted file has yet.
func fill(t *testing.T) (w written) {
	t.Helper()
	mem := vfs.NewMem()
	fs := disktest.New(mem)
	m, err := start(fs)
	require.NoError(t, err)
	next := func() {
		before := [2]string{manifests(t, mem, datadir.Table), manifests(t, mem, datadir.Queue)}
		require.NoError(t, errors.Join(m.table.BeginLog(), m.queue.BeginLog()))
		disktest.Until(t, func() bool {
			return manifests(t, mem, datadir.Table) != before[0] && manifests(t, mem, datadir.Queue) != before[1]
		})
	}
	for range 3 {
		w.put(t, m, 4)
		next()
		if w.early == nil {
			w.early = clone(t, mem)
		}
	}
	flushed := make(chan struct{})
	fs.Set(func(op, name string, _ int) error {
		if op == "create" && strings.HasSuffix(name, ".sst") {
			<-flushed
		}
		return nil
	})
	for range 2 {
		w.put(t, m, 4)
		logs := [2][]string{files(t, mem, datadir.Table, ".log"), files(t, mem, datadir.Queue, ".log")}
		require.NoError(t, errors.Join(m.table.BeginLog(), m.queue.BeginLog()))
		disktest.Until(t, func() bool {
			return !slices.Equal(files(t, mem, datadir.Table, ".log"), logs[0]) && !slices.Equal(files(t, mem, datadir.Queue, ".log"), logs[1])
		})
	}
	w.last = w.items
	w.put(t, m, 4)
	w.fs = clone(t, mem)
	close(flushed)
	require.NoError(t, m.stop())
	return w
}

// after starts a damaged directory and returns the outcome.
func (w *written) after(t *testing.T, fs vfs.FS, what string) string {
	t.Helper()
	before := map[string][]string{}
	for _, store := range []string{datadir.Table, datadir.Queue} {
		before[store] = append(files(t, fs, store, ".sst"), files(t, fs, store, ".log")...)
	}
	m, err := start(fs)
	if err != nil {
		assert.Regexp(t, "restore|choose|newer|remove it|move the file away", err.Error(), "%s: the way out", what)
		assert.Contains(t, err.Error(), "data", "%s: the place", what)
		for store, names := range before {
			if !strings.HasPrefix(what, "data/"+store) {
				continue // this store is sound, and may have been opened before the damaged one
			}
			if strings.Contains(what, ".sst") { // the logs were applied to sorted files before the store found its format damaged
				names = slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, ".log") })
			}
			assert.Subset(t, append(files(t, fs, store, ".sst"), files(t, fs, store, ".log")...), names, "%s: a refused start removes no file", what)
		}
		return disktest.Named
	}
	defer func() { _ = m.stop() }() // a damaged store may fail to close
	outcome := disktest.Harmless
	missing := w.items
	for i := range w.items {
		res, err := m.table.Get(t.Context(), table.GetInput{Key: key(i)})
		switch {
		case errors.Is(err, disk.ErrDamaged):
			outcome = disktest.Reported
		case err != nil:
			assert.NoError(t, err, what)
		case res.Item == nil:
			missing = min(missing, i)
		case res.Item.Str("text") != value(i):
			assert.Fail(t, "another value is served", "%s: item %d", what, i)
		case missing < i:
			assert.Fail(t, "an item before a served one is missing", "%s: item %d", what, missing)
		}
	}
	if missing < w.items && outcome != disktest.Reported {
		assert.GreaterOrEqual(t, missing, w.last, "%s: answered writes are missing in silence", what)
		outcome = disktest.LastWrites
	}
	messages := w.messages(t, m)
	switch {
	case m.queue.Damage() != nil:
		outcome = disktest.Reported
	case messages < w.items:
		assert.GreaterOrEqual(t, messages, w.last, "%s: answered messages are missing in silence", what)
		outcome = disktest.LastWrites
	}
	return outcome
}

// messages returns the number of messages of the queue.
func (w *written) messages(t *testing.T, m machine) int {
	t.Helper()
	depth, err := m.queue.Depth(context.Background(), queue.TopicPosts)
	require.NoError(t, err)
	return int(depth.Ready)
}

func read(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	data, err := disktest.Read(fs, name)
	require.NoError(t, err)
	return data
}

// kinds returns the kinds of files of the directory.
func (w *written) kinds(t *testing.T) (kinds []disktest.Kind) {
	t.Helper()
	kinds = append(kinds,
		disktest.Kind{Name: "`FORMAT`", File: "data/FORMAT", Older: []byte("making\n"), Why: "the stores are there, and are compared"},
		disktest.Kind{Name: "`LOCK`", File: "data/LOCK", Why: "it has no content; a start makes it"},
		disktest.Kind{Name: "`dev-secret`", File: "data/dev-secret", Older: []byte(strings.Repeat("A", 52)), Why: "no data depend on it: dev tokens of before are refused"},
	)
	for _, store := range []string{datadir.Table, datadir.Queue} {
		at := func(name string) string { return "data/" + store + "/" + name }
		add := func(name, file string, older []byte, why string) {
			kinds = append(kinds, disktest.Kind{Name: "`" + store + "/`: " + name, File: at(file), Older: older, Why: why})
		}
		refused := func(why string) { kinds[len(kinds)-1].Refused = why }
		only := func(part string) string {
			names, err := w.fs.List("data/" + store)
			require.NoError(t, err)
			slices.Sort(names)
			at := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, part) })
			require.GreaterOrEqual(t, at, 0, part)
			return names[at]
		}
		logs, sorted := files(t, w.fs, store, ".log"), files(t, w.fs, store, ".sst")
		require.GreaterOrEqual(t, len(logs), 3)
		logs = logs[len(logs)-3:]
		manifest := only("MANIFEST-")
		add("`NEEDS`", "NEEDS", read(t, w.early, at("NEEDS")), "")
		add("`MANIFEST`", manifest, read(t, w.early, at(manifest)), "no file was removed due to the lost part")
		refused("the logs that a lost part made unnecessary are gone")
		add("`marker.manifest`", only("marker.manifest"), nil, "")
		add("`marker.format-version`", only("marker.format-version"), nil, "")
		add("`OPTIONS`", only("OPTIONS-"), []byte("[Version]\n  pebble_version=0.1\n"), "no data depend on it")
		add("oldest log", logs[0], read(t, w.fs, at(logs[1])), "")
		add("log in the middle", logs[1], read(t, w.fs, at(logs[0])), "")
		add("newest log", logs[2], read(t, w.fs, at(logs[1])), "looks like a power cut")
		require.Greater(t, len(sorted), 1) // the first one has the format of the store
		other := map[string]string{datadir.Table: datadir.Queue, datadir.Queue: datadir.Table}[store]
		add("sorted file", sorted[1], read(t, w.fs, "data/"+other+"/"+files(t, w.fs, other, ".sst")[0]), "a read finds it; the other data are served")
		add("`LOCK`", "LOCK", nil, "it has no content; a start makes it")
	}
	return kinds
}

// Whatever file of a data directory is damaged: the start names it, or a read reports it, or nothing is missing. The table in
// docs/OUTAGES.md is the result of this test.
func TestEachDamageOfADirectoryIsNamedOrHarmless(t *testing.T) {
	t.Parallel()
	w := fill(t)
	require.Equal(t, disktest.Harmless, w.after(t, clone(t, w.fs), "no damage"))
	table, cells := disktest.DamageTable(t, w.fs, "data", w.kinds(t), w.after)
	t.Log(cells, "cells")
	disktest.Paste(t, "../../docs/OUTAGES.md", "damage of a data directory", table, *update)
}

// A store that is absent is no new one.
func TestAnAbsentStoreIsNamed(t *testing.T) {
	t.Parallel()
	w := fill(t)
	for _, store := range []string{datadir.Table, datadir.Queue} {
		copied := clone(t, w.fs)
		require.NoError(t, copied.RemoveAll("data/"+store))
		_, err := start(copied)
		require.ErrorIs(t, err, disk.ErrDamaged)
		require.ErrorContains(t, err, "data/"+store+" is absent")
	}
}
