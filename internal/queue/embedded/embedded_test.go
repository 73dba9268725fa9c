package embedded_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	queuetest.RunWatermill(t, func(*testing.T) queue.Broker { return b },
		func(context.Context, queue.Broker, string) error { return nil })
}

// The process that has a real directory open holds its lock.
func TestSecondBrokerOnADirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	if _, err := embedded.Open(dir, embedded.Options{}); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("error %v, want one that says that the directory is in use", err)
	}
}

func TestDirectoryThatCannotBeMadeIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := embedded.Open(filepath.Join(file, "queue"), embedded.Options{}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("error %v, want one that names the directory", err)
	}
}
