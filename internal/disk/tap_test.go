package disk_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
)

// recorder is a Tap that keeps all bytes of the logs.
type recorder struct {
	mu      sync.Mutex
	logs    []uint64
	bytes   map[uint64][]byte
	synced  map[uint64]uint64
	sync    func() (uint64, error)
	asked   []uint64 // the logs of the calls of MayGo
	needed  bool     // no log may go
	faults  []string
	answers sync.RWMutex // while a test holds the lock, Synced waits
	going   sync.RWMutex // while a test holds the lock, MayGo waits
}

func newRecorder() *recorder {
	return &recorder{bytes: map[uint64][]byte{}, synced: map[uint64]uint64{}}
}

func (r *recorder) fault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

func (r *recorder) newest() uint64 {
	if len(r.logs) == 0 {
		return 0
	}
	return r.logs[len(r.logs)-1]
}

func (r *recorder) Created(log uint64, sync func() (uint64, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if former := r.newest(); former >= log || r.synced[former] != uint64(len(r.bytes[former])) {
		r.fault("log %d begins while %d of %d bytes of log %d are synced", log, r.synced[former], len(r.bytes[former]), former)
	}
	r.logs, r.sync = append(r.logs, log), sync
}

func (r *recorder) Wrote(log, offset uint64, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.newest() != log || uint64(len(r.bytes[log])) != offset || len(data) == 0 {
		r.fault("%d bytes at %d of log %d, after %d of log %d", len(data), offset, log, len(r.bytes[log]), r.newest())
	}
	r.bytes[log] = append(r.bytes[log], data...)
}

func (r *recorder) Synced(log, offset uint64) {
	r.mu.Lock()
	if uint64(len(r.bytes[log])) < offset || offset < r.synced[log] {
		r.fault("log %d is synced up to %d of %d, was %d", log, offset, len(r.bytes[log]), r.synced[log])
	}
	r.synced[log] = offset
	r.mu.Unlock()
	r.answers.RLock()
	defer r.answers.RUnlock()
}

func (r *recorder) MayGo(log uint64) bool {
	r.mu.Lock()
	r.asked = append(r.asked, log)
	needed := r.needed
	r.mu.Unlock()
	r.going.RLock()
	defer r.going.RUnlock()
	return !needed
}

func (r *recorder) check(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	assert.Empty(t, r.faults)
}

func (r *recorder) written(log uint64) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.bytes[log])
}

// openTapped opens a store whose logs are short.
func openTapped(t *testing.T, below vfs.FS, tap disk.Tap) *disk.DB {
	t.Helper()
	options := &pebble.Options{FS: disk.TappedFS{FS: below, Tap: tap}, MemTableSize: 64 << 10, MemTableStopWritesThreshold: 4}
	db, err := disk.Open(nil, "data", zap.NewNop(), options, disk.Format{Key: []byte("format"), Known: 1})
	require.NoError(t, err)
	return db
}

// fill writes until the store has begun n logs.
func (r *recorder) fill(db *disk.DB, n int) error {
	begun := func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.logs) >= n
	}
	for i := 0; !begun(); i++ {
		sync := pebble.Sync
		if i%3 == 0 {
			sync = pebble.NoSync
		}
		if err := db.Set(fmt.Appendf(nil, "key%d", i), bytes.Repeat([]byte{byte(i)}, 5000+i%40000), sync); err != nil {
			return err
		}
	}
	return nil
}

func readLog(t *testing.T, from vfs.FS, log uint64) []byte {
	t.Helper()
	f, err := from.Open(fmt.Sprintf("data/%06d.log", log))
	require.NoError(t, err)
	data, err := io.ReadAll(f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return data
}

// S1: the tap gets the same bytes as the disk, in order. This includes logs that reuse the file
// of an older log, and excludes the copies of a checkpoint.
func TestATapGetsTheBytesOfEachLog(t *testing.T) {
	t.Parallel()
	mem, tap := vfs.NewCrashableMem(), newRecorder()
	db := openTapped(t, mem, tap)
	require.NoError(t, tap.fill(db, 5))
	require.NoError(t, mem.MkdirAll("copies", 0o700))
	require.NoError(t, db.Checkpoint("copies/1"))
	require.NoError(t, tap.fill(db, 15))
	names, err := mem.List("data")
	require.NoError(t, err)
	seen := 0
	for _, log := range tap.logs {
		if slices.Contains(names, fmt.Sprintf("%06d.log", log)) {
			seen++
			assert.True(t, bytes.HasPrefix(readLog(t, mem, log), tap.written(log)), "log %d", log)
		}
	}
	assert.Positive(t, seen)
	assert.Greater(t, len(tap.asked), 5, "logs that were reused or removed")
	require.NoError(t, db.Close(func() {}))
	tap.check(t)
}

// S3: bytes that the tap takes for synced survive a power cut, whether Pebble or the tap made the sync.
func TestWhatATapTakesForSyncedSurvivesAPowerCut(t *testing.T) {
	t.Parallel()
	mem, tap := vfs.NewCrashableMem(), newRecorder()
	db := openTapped(t, mem, tap)
	for i := range 3 {
		require.NoError(t, db.Set(fmt.Append(nil, i), make([]byte, 14_000), pebble.NoSync))
	}
	log := tap.newest()
	at := uint64(0)
	disktest.Until(t, func() bool { // Pebble writes whole blocks without a sync
		end, err := tap.sync()
		require.NoError(t, err)
		at = end
		return at >= 32<<10
	})
	assert.Less(t, tap.synced[log], at, "what Pebble synced")
	after := mem.CrashClone(vfs.CrashCloneCfg{})
	assert.Equal(t, tap.written(log)[:at], readLog(t, after, log)[:at])
	require.NoError(t, db.Close(func() {}))
	end, err := tap.sync()
	assert.NoError(t, err, "of a closed log")
	assert.Equal(t, uint64(len(tap.written(log))), end)
	tap.check(t)
}

func TestAWriteIsNotAnsweredBeforeTheTapLetsIt(t *testing.T) {
	t.Parallel()
	tap := newRecorder()
	db := openTapped(t, vfs.NewMem(), tap)
	tap.answers.Lock()
	done := write(db, "a")
	log := tap.newest()
	disktest.Until(t, func() bool {
		tap.mu.Lock()
		defer tap.mu.Unlock()
		return bytes.Contains(tap.bytes[log], []byte("value")) && tap.synced[log] == uint64(len(tap.bytes[log]))
	})
	select {
	case err := <-done:
		t.Errorf("the write was answered: %v", err)
	default:
	}
	tap.answers.Unlock()
	assert.NoError(t, <-done)
	require.NoError(t, db.Close(func() {}))
	tap.check(t)
}

// The guard repeats a write on a full disk, but the tap has already got the write.
func TestATapGetsAWriteOnceThoughTheDiskIsFull(t *testing.T) {
	t.Parallel()
	mem, tap := vfs.NewMem(), newRecorder()
	full := disktest.New(mem)
	db := openTapped(t, full, tap)
	full.Fill(0)
	done := write(db, "a")
	trouble, _ := db.State()
	<-trouble
	full.Set(nil)
	require.NoError(t, <-done)
	log := tap.newest()
	assert.Equal(t, 1, bytes.Count(tap.written(log), []byte("value")))
	assert.Equal(t, tap.written(log), readLog(t, mem, log)[:len(tap.written(log))])
	require.NoError(t, db.Close(func() {}))
	tap.check(t)
}

// S4: while the tap needs a log, its file is neither removed nor overwritten.
func TestALogStaysUntilTheTapLetsItGo(t *testing.T) {
	t.Parallel()
	mem, tap := vfs.NewMem(), newRecorder()
	db := openTapped(t, mem, tap)
	tap.going.Lock()
	filled := make(chan error, 1)
	go func() { filled <- tap.fill(db, 12) }()
	asked := func() []uint64 {
		tap.mu.Lock()
		defer tap.mu.Unlock()
		return slices.Clone(tap.asked)
	}
	disktest.Until(t, func() bool { return len(asked()) > 0 })
	for _, log := range asked() {
		assert.True(t, bytes.HasPrefix(readLog(t, mem, log), tap.written(log)), "log %d", log)
	}
	tap.going.Unlock()
	require.NoError(t, <-filled)
	require.NoError(t, db.Close(func() {}))
	tap.check(t)
}

// A log that only the tap needs goes to another machine at the next start, so the log must have each byte then.
func TestALogThatOnlyTheTapNeedsIsCompared(t *testing.T) {
	t.Parallel()
	mem, tap := vfs.NewMem(), newRecorder()
	tap.needed = true
	db := openTapped(t, mem, tap)
	require.NoError(t, tap.fill(db, 12))
	require.NoError(t, db.Close(func() {}))
	require.NoError(t, disk.CompareLogs(mem, "data"))
	for _, log := range tap.logs {
		whole := readLog(t, mem, log)
		disktest.Write(t, mem, fmt.Sprintf("data/%06d.log", log), whole[:len(whole)/2])
		require.ErrorIs(t, disk.CompareLogs(mem, "data"), disk.ErrDamaged, "log %d", log)
		disktest.Write(t, mem, fmt.Sprintf("data/%06d.log", log), whole)
	}
	require.NoError(t, disk.CompareLogs(mem, "data"))
}

// S4: a log that the tap needs does not hold up the store. The log goes later, or after a restart.
func TestALogThatTheTapNeedsDoesNotHoldUpTheStore(t *testing.T) {
	t.Parallel()
	mem, tap := vfs.NewMem(), newRecorder()
	tap.needed = true
	db := openTapped(t, mem, tap)
	require.NoError(t, tap.fill(db, 12))
	logs := func() (n int) {
		names, err := mem.List("data")
		require.NoError(t, err)
		for _, name := range names {
			if strings.HasSuffix(name, ".log") {
				n++
			}
		}
		return n
	}
	tap.mu.Lock()
	for _, log := range tap.logs {
		assert.True(t, bytes.HasPrefix(readLog(t, mem, log), tap.bytes[log]), "log %d", log)
	}
	tap.needed = false
	tap.mu.Unlock()
	require.NoError(t, tap.fill(db, 24))
	disktest.Until(t, func() bool { return logs() < 6 })
	tap.mu.Lock()
	tap.needed = true
	tap.mu.Unlock()
	require.NoError(t, tap.fill(db, 36))
	require.NoError(t, db.Close(func() {}))
	tap.check(t)

	tap = newRecorder()
	db = openTapped(t, mem, tap)
	require.NoError(t, tap.fill(db, 6))
	disktest.Until(t, func() bool { return logs() < 6 })
	require.NoError(t, db.Close(func() {}))
	tap.check(t)
}

func TestOptionsThatPassTheTapByAreRefused(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]*pebble.Options{
		"no log":       {DisableWAL: true},
		"elsewhere":    {WALDir: "logs"},
		"two logs":     {WALFailover: &pebble.WALFailoverOptions{}},
		"foreign logs": {WALRecoveryDirs: []wal.Dir{{}}},
	} {
		mem := vfs.NewMem()
		o.FS = mem
		_, err := disk.Open(nil, "data", zap.NewNop(), o, disk.Format{Key: []byte("format"), Known: 1})
		assert.ErrorContains(t, err, "DisableWAL", name)
		names, err := mem.List("")
		assert.NoError(t, err)
		assert.Empty(t, names, "%s: the refusal comes before the first write", name)
	}
}

// S6: ingested sorted files and excised ranges bypass the log. No code of the product may use them.
func TestNoCodePassesTheLogBy(t *testing.T) {
	t.Parallel()
	forbidden := []string{"Ingest", "IngestWithStats", "IngestExternalFiles", "IngestAndExcise", "Excise", "DisableWAL", "WALDir", "WALFailover", "WALRecoveryDirs"}
	allowed := []string{"checkLog", "OpenReplica", "open"} // a restore writes no log
	looked, found := 0, 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		looked++
		for _, decl := range file.Decls {
			f, isFunc := decl.(*ast.FuncDecl)
			ast.Inspect(decl, func(n ast.Node) bool {
				name := ""
				switch n := n.(type) {
				case *ast.SelectorExpr:
					name = n.Sel.Name
				case *ast.KeyValueExpr:
					if key, is := n.Key.(*ast.Ident); is {
						name = key.Name
					}
				}
				if slices.Contains(forbidden, name) {
					found++
					if !isFunc || !slices.Contains(allowed, f.Name.Name) {
						t.Errorf("%s uses %s, whose effect is in no log", path, name)
					}
				}
				return true
			})
		}
		return nil
	})
	require.NoError(t, err)
	assert.Greater(t, looked, 200)
	assert.Equal(t, 6, found, "the names in the allowed functions: the test sees them")
}
