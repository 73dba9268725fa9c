package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
	"fanfare/internal/table"
)

const damagedItems = 8000

// damaged returns a directory whose only sorted file has expired items and some bad blocks, at two places.
func damaged(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	s := open(t, dir, Options{SweepEvery: -1})
	var items []table.Item
	for i := range damagedItems {
		it := expiring(fmt.Sprintf("u#%05d#timeline", i), 1)
		it.Attrs = append(it.Attrs, table.Attr{Name: "x", Value: table.S(strings.Repeat(fmt.Sprint(i), 20))})
		items = append(items, it)
	}
	putAll(t, s, items...)
	require.NoError(t, errors.Join(s.db.Flush(), s.Close()))
	files, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		b, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, at := range []int{len(b) / 4, len(b) / 2} {
			b[at] ^= 0x40
		}
		require.NoError(t, os.WriteFile(name, b, 0o600))
	}
	return dir
}

// unread estimates the number of items that cannot be read. A bad block has about 30 items.
func unread(t *testing.T, s *Store) (bad int) {
	t.Helper()
	for i := 0; i < damagedItems; i += 10 {
		if _, err := s.Get(t.Context(), table.GetInput{Key: table.Key{PK: fmt.Sprintf("u#%05d#timeline", i), SK: "s"}}); err != nil {
			wantDamaged(t, s, err)
			bad += 10
		}
	}
	return bad
}

func TestDamagedBlocksAreReportedAndSwept(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.WarnLevel)
	s := open(t, damaged(t), Options{SweepEvery: -1, Log: zap.New(core)})
	bad := unread(t, s)
	require.NotZero(t, bad, "items cannot be read")
	require.LessOrEqual(t, bad, damagedItems/20, "items cannot be read")
	assert.NoError(t, s.Health(), "Health: though all can be written")
	n, err := s.Sweep(t.Context())
	// Past skips a little more than the block.
	if err != nil || n == damagedItems || n < damagedItems-bad-damagedItems/20 {
		t.Errorf("the sweep deleted %d of %d items, %d of them in bad blocks: %v", n, damagedItems, bad, err)
	}
	assert.LessOrEqual(t, logs.Len(), 10, "lines for damage in two places")
}

// Each flush causes a compaction of the accumulated files, and each such compaction fails.
func TestACompactionThatMeetsDamageWaits(t *testing.T) {
	t.Parallel()
	s := open(t, damaged(t), Options{SweepEvery: -1, MemoryBytes: 2 << 20})
	began := time.Now()
	fill := func(round int) {
		var items []table.Item
		for i := range 800 {
			items = append(items, numbered(fmt.Sprintf("u#%05d#timeline", i*10), int64(round)))
		}
		putAll(t, s, items...)
		assert.NoError(t, s.db.Flush())
	}
	round := 0
	disktest.Until(t, func() bool { fill(round); round++; return s.Stats().FailedCompactions > 0 })
	for range 30 {
		fill(round)
		round++
	}
	// Two compactions may run at the same time, and the pauses grow from a second.
	if n, most := s.Stats().FailedCompactions, 2+2*int64(time.Since(began)/time.Second); n > most {
		t.Errorf("%d compactions failed in %s, want at most %d", n, time.Since(began), most)
	}
	assert.ErrorIs(t, s.Damage(), disk.ErrDamaged)
}
