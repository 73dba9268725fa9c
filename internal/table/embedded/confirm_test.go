package embedded

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
	"fanfare/internal/table"
)

// ignored is a disk.Tap that needs nothing.
type ignored struct{}

func (ignored) Created(uint64, func() (uint64, error)) {}
func (ignored) Wrote(uint64, uint64, []byte)           {}
func (ignored) Synced(uint64, uint64)                  {}
func (ignored) MayGo(uint64) bool                      { return true }

// P4: while the other machine is away, writes are refused, and reads of settled data are answered.
func TestOnlySettledDataAreReadWhileAnotherMachineIsAway(t *testing.T) {
	t.Parallel()
	var away atomic.Pointer[chan struct{}]
	fs := disk.TappedFS{FS: vfs.NewMem(), Tap: ignored{}, Patience: time.Millisecond, Confirmed: func(uint64, uint64) <-chan struct{} {
		if confirmed := away.Load(); confirmed != nil {
			return *confirmed
		}
		return nil
	}}
	s := open(t, "data", Options{FS: fs, SweepEvery: -1})
	put := func(pk string) error {
		_, err := s.Put(t.Context(), table.PutInput{Item: numbered(pk, 1)})
		return err
	}
	require.NoError(t, put("before"))
	confirmed := make(chan struct{})
	away.Store(&confirmed)
	wantUnavailable(t, put("meanwhile"), disk.ErrUnconfirmed)
	wantUnavailable(t, put("later"), disk.ErrUnconfirmed)
	assert.Equal(t, int64(1), number(t, s, "before"))
	_, err := s.Get(t.Context(), table.GetInput{Key: table.Key{PK: "meanwhile", SK: "s"}})
	wantUnavailable(t, err, disk.ErrUnconfirmed) // the other machine may lack the write

	away.Store(nil)
	close(confirmed)
	disktest.Until(t, func() bool { return s.Health() == nil })
	require.NoError(t, put("after"))
	for pk, want := range map[string]int64{"before": 1, "meanwhile": 1, "later": 0, "after": 1} {
		assert.Equal(t, want, number(t, s, pk), pk)
	}
}
