package embedded_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"fanfare/internal/queue"
	"fanfare/internal/queue/embedded"
	"fanfare/internal/queue/queuetest"
)

// crashable opens brokers on a file system in memory. Crash keeps only the synced part
// of it.
type crashable struct{ fs *vfs.MemFS }

func (c *crashable) open(t *testing.T, o queuetest.Options) queue.Broker {
	t.Helper()
	options := embedded.Options{FS: c.fs, Log: zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel))}
	if o.MaxInFlight > 0 {
		options.MaxInFlight = map[string]int{}
		for _, topic := range queue.Topics() {
			options.MaxInFlight[topic] = o.MaxInFlight
		}
	}
	b, err := embedded.Open("queue", options)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, b.Close())
	})
	return b
}

func (c *crashable) crash(*testing.T, queue.Broker) {
	c.fs = c.fs.CrashClone(vfs.CrashCloneCfg{})
}

func TestBrokerKeepsTheContract(t *testing.T) {
	queuetest.Run(t, func(*testing.T) queuetest.Backend {
		c := &crashable{vfs.NewCrashableMem()}
		return queuetest.Backend{Open: c.open, Crash: c.crash, Fair: true}
	})
}

func TestBrokerPassesWatermillsSuite(t *testing.T) {
	b, err := embedded.Open(t.TempDir(), embedded.Options{})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, b.Close())
	})
	queuetest.RunWatermill(t, func(*testing.T) queue.Broker { return b },
		func(context.Context, queue.Broker, string) error { return nil })
}

// The process that has a real directory open holds its lock.
func TestSecondBrokerOnADirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	_, err := embedded.Open(dir, embedded.Options{})
	assert.ErrorContains(t, err, "in use")
}

func TestDirectoryThatCannotBeMadeIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := embedded.Open(filepath.Join(file, "queue"), embedded.Options{})
	assert.ErrorContains(t, err, file)
}
