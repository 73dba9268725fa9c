package pair

import (
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk/disktest"
	"fanfare/internal/stream"
)

// The frames of a write that failed may be in the tail, but not in the stores. Such a tail completes no archive.
func TestATailWithAFailedWriteIsNotKept(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]bool{"whole": false, "after a failed sync": true} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			files := disktest.New(mem)
			require.NoError(t, mem.MkdirAll("data", 0o755))
			var reported []Succession
			s := &Standby{role: NewRole(t.TempDir(), RoleStandby), cfg: StandbyConfig{
				FS: files, Dir: "data", Stream: "data/stream",
				Succeeded: func(at Succession) error {
					reported = append(reported, at)
					return nil
				},
			}}
			s.role.Lineage, s.role.Peer, s.role.Claimed = "lineage", "other", 1
			tail, err := openTail(files, s.path(TailDir), tailSize)
			require.NoError(t, err)
			s.tail = tail
			require.NoError(t, tail.append(stream.Frame{Kind: stream.Begins, Store: stream.Queue, Log: 1}, stream.Frame{Kind: stream.Begins, Store: stream.Table, Log: 1}))
			upto, err := tail.sync()
			require.NoError(t, err)
			if fails {
				files.Set(func(op, _ string, _ int) error {
					if op == "sync" {
						return syscall.EIO
					}
					return nil
				})
				require.NoError(t, tail.append(stream.Frame{Kind: stream.Bytes, Store: stream.Queue, Log: 1, Data: make([]byte, 10)}))
				_, err := tail.sync()
				require.ErrorIs(t, err, syscall.EIO)
				tail.drop()
				files.Set(nil)
			}
			require.NoError(t, s.become(true))
			require.Equal(t, RolePrimary, s.role.Role)
			if fails {
				require.Empty(t, reported)
				_, err := mem.Stat(s.path(TailDir))
				require.Error(t, err)
				return
			}
			require.Equal(t, []Succession{{Disk: "other", Upto: upto}}, reported)
			for f, err := range (KeptTail{FS: mem, Dir: s.path(TailDir)}).Frames() {
				require.NoError(t, err)
				require.True(t, f.Store == stream.None || upto.Of(f.Store) == f.End())
			}
		})
	}
}
