package embedded

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
	"fanfare/internal/queue"
)

func wantUnavailable(t *testing.T, err, cause error) {
	t.Helper()
	if _, ok := errors.AsType[*queue.UnavailableError](err); !ok || !errors.Is(err, cause) {
		t.Fatalf("error = %v, want an UnavailableError because %v", err, cause)
	}
}

func text(id string) *message.Message { return message.NewMessage(id, []byte("x")) }

// receive acks n messages and returns their ids in order.
func receive(t *testing.T, b *Broker, n int) []string {
	t.Helper()
	in, err := b.Subscribe(t.Context(), topicName)
	require.NoError(t, err)
	var ids []string
	for range n {
		msg := <-in
		ids = append(ids, msg.UUID)
		msg.Ack()
	}
	slices.Sort(ids)
	return ids
}

// I5: published messages exist once the disk has room again, and after a crash.
func TestAFullDiskIsWaitedOut(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	fs := disktest.New(mem)
	b := mustOpen(t, fs)
	fs.Fill(20_000)
	answered := map[string]bool{}
	var err error
	for i := 0; err == nil; i++ {
		id := fmt.Sprint(i)
		msg := message.NewMessage(id, []byte(strings.Repeat("x", 1000)))
		if err = b.Publish(topicName, msg); err == nil {
			answered[id] = true
		}
	}
	wantUnavailable(t, err, disk.ErrFull)
	assert.NotEmpty(t, answered, "nothing was answered while there was room")
	wantUnavailable(t, b.Publish(topicName, text("refused")), disk.ErrFull)
	wantUnavailable(t, b.DeadLetter(t.Context(), topicName, text("refused"), "why"), disk.ErrFull)
	assert.ErrorIs(t, b.Health(), disk.ErrFull)

	fs.Set(nil)
	disktest.Until(t, func() bool { return b.Health() == nil })
	require.NoError(t, b.Publish(topicName, text("after")))
	answered["after"] = true
	for name, broker := range map[string]*Broker{
		"the same process":  b,
		"one after a crash": mustOpen(t, mem.CrashClone(vfs.CrashCloneCfg{})),
	} {
		depth, err := broker.Depth(t.Context(), topicName)
		require.NoError(t, err)
		// The message whose publish failed on the full disk may exist, too.
		ids := receive(t, broker, int(depth.Ready))
		for id := range answered {
			assert.Containsf(t, ids, id, "%s lost message", name)
		}
		if len(ids) > len(answered)+1 || slices.Contains(ids, "refused") {
			t.Errorf("%s has %d messages, %d were answered: %v", name, len(ids), len(answered), ids)
		}
	}
}

// Answers of consumers that were given while the disk was full are written once the disk has room.
func TestAnswersOfConsumersWaitForRoom(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	fs := disktest.New(mem)
	b := mustOpen(t, fs)
	require.NoError(t, b.Publish(topicName, text("1"), text("2"), text("3")))
	fs.Fill(0)
	assert.Len(t, receive(t, b, 3), 3)
	// A failing publish would also show that the disk is full, but its message may be stored in
	// spite of the error.
	disktest.Until(t, func() bool { return errors.Is(b.Health(), disk.ErrFull) })
	fs.Set(nil)
	disktest.Until(t, func() bool { // all acks are written, but perhaps not synced
		depth, err := b.Depth(t.Context(), topicName)
		return err == nil && b.Health() == nil && depth == queue.Depth{}
	})
	require.NoError(t, b.Publish(topicName, text("4"))) // the sync of this publish covers the acks
	crashed := mustOpen(t, mem.CrashClone(vfs.CrashCloneCfg{}))
	depth, err := crashed.Depth(t.Context(), topicName)
	require.NoError(t, err)
	if ids := receive(t, crashed, int(depth.Ready)); !slices.Contains(ids, "4") || slices.Contains(ids, "1") {
		t.Errorf("after a crash: %v, want 4 and not 1", ids)
	}
}

// I6: a redrive on a full disk happens exactly once.
func TestARedriveIsNotRepeatedOverAFullDisk(t *testing.T) {
	t.Parallel()
	fs := disktest.New(vfs.NewMem())
	b := mustOpen(t, fs)
	for i := range 10 {
		require.NoError(t, b.DeadLetter(t.Context(), topicName, text(fmt.Sprint(i)), "why"))
	}
	fs.Fill(0)
	_, _, err := b.Redrive(t.Context(), topicName, nil, nil)
	wantUnavailable(t, err, disk.ErrFull)
	_, _, err = b.Redrive(t.Context(), topicName, nil, nil)
	wantUnavailable(t, err, disk.ErrFull)
	fs.Set(nil)
	disktest.Until(t, func() bool {
		_, _, err := b.Redrive(t.Context(), topicName, nil, nil)
		return err == nil
	})
	if depth, err := b.Depth(t.Context(), topicName); err != nil || depth != (queue.Depth{Ready: 10}) {
		t.Errorf("depth %+v, %v, want 10 ready", depth, err)
	}
}

func TestAFailedDiskEndsWritesAndLosesNothing(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"write", "sync"} {
		t.Run(op, func(t *testing.T) {
			mem := vfs.NewCrashableMem()
			fs := disktest.New(mem)
			b, err := Create("queue", Options{FS: fs})
			require.NoError(t, err)
			require.NoError(t, b.Publish(topicName, text("before")))
			fs.Fail(syscall.EIO, op)
			wantUnavailable(t, b.Publish(topicName, text("meanwhile")), disk.ErrFailed)
			fs.Set(nil)
			wantUnavailable(t, b.Publish(topicName, text("refused")), disk.ErrFailed)
			for range 2 {
				assert.ErrorIs(t, b.Close(), disk.ErrFailed)
			}
			after := mustOpen(t, mem.CrashClone(vfs.CrashCloneCfg{}))
			ids := receive(t, after, 1)
			assert.Equalf(t, "before", ids[0], "after a restart: %v", ids)
		})
	}
}

// The disk becomes full just before the stop, and Close still returns.
func TestCloseDoesNotWaitForRoom(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	fs := disktest.New(mem)
	b, err := Create("queue", Options{FS: fs})
	require.NoError(t, err)
	require.NoError(t, b.Publish(topicName, text("1")))
	fs.Fill(0)
	receive(t, b, 1) // the ack is not written yet
	assert.ErrorIs(t, b.Close(), disk.ErrFull)
	after := mustOpen(t, mem.CrashClone(vfs.CrashCloneCfg{}))
	ids := receive(t, after, 1)
	assert.Equalf(t, "1", ids[0], "after a restart: %v", ids)
}

func TestOpenNamesTheDirectoryAndItsError(t *testing.T) {
	t.Parallel()
	for _, op := range []string{"mkdir", "create", "write", "sync"} {
		for _, errno := range []syscall.Errno{syscall.EROFS, syscall.ENOSPC} {
			fs := disktest.New(vfs.NewMem())
			fs.Fail(errno, op)
			stop := make(chan struct{})
			close(stop)
			b, err := Create("some/dir", Options{FS: fs, Stop: stop})
			if err == nil {
				t.Errorf("%s fails with %v: Open succeeded", op, errno)
				err = b.Close()
			}
			if !strings.Contains(err.Error(), errno.Error()) || !strings.Contains(err.Error(), "some/dir") {
				t.Errorf("%s: error %q does not name %v and the directory", op, err, errno)
			}
		}
	}
}
