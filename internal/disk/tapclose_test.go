package disk

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// closable is a file whose syncs take some time, and fail if the file is closed meanwhile.
type closable struct {
	vfs.File

	closed atomic.Bool
}

func (c *closable) SyncData() error {
	for range 20 {
		runtime.Gosched()
	}
	if c.closed.Load() {
		return errors.New("the file is closed")
	}
	return nil
}

func (c *closable) Close() error {
	c.closed.Store(true)
	return nil
}

// The tap may sync a log while Pebble closes it. A sync of a closed file would count as a failed disk.
func TestTheTapSyncsNoClosedLog(t *testing.T) {
	t.Parallel()
	for range 300 {
		log := &tappedLog{File: &closable{}}
		synced := make(chan error, 2)
		for range cap(synced) {
			go func() {
				_, err := log.sync()
				synced <- err
			}()
		}
		runtime.Gosched()
		require.NoError(t, log.Close())
		for range cap(synced) {
			require.NoError(t, <-synced)
		}
	}
}
