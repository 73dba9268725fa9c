package disk

import (
	"fmt"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Stats are the figures of a store at one moment.
type Stats struct {
	// FlushStalls counts the stalls of writes that arrive faster than the disk can write: the
	// memory for waiting writes is bounded.
	FlushStalls int64
	// CompactionStalls counts the stalls of writes because of too many sorted files.
	CompactionStalls int64
	// FailedCompactions counts the compactions that failed because of a full disk or
	// damaged data.
	FailedCompactions int64
	// LogBytes is the size of the log that a start has to read again. MemtableBytes is the size
	// of the writes in memory that are not yet in a sorted file.
	LogBytes, MemtableBytes uint64
	// ItemBytes is the size of decoded items and pages in memory, for a store that caches them.
	ItemBytes int64
	// L0Files is the number of sorted files that compactions have not merged yet. L0Sublevels
	// is the number of these files that a read may have to look into. DebtBytes is the number
	// of bytes that compactions still have to move.
	L0Files, L0Sublevels int64
	DebtBytes            uint64
	// DiskBytes is the room that the files of the store take, as du counts it. It includes the large
	// logs that are kept for the next writes. Pebble's own figure omits these logs. FreeBytes and
	// TotalBytes describe the disk, and are 0 if the system does not report them.
	DiskBytes, FreeBytes, TotalBytes uint64
	// NearlyFull is true while the disk has little room, see RoomFor.
	NearlyFull bool
	// Damaged is true once a read has found damaged data.
	Damaged bool
}

// Stats returns the present figures. The store must be open.
func (db *DB) Stats() Stats {
	m := db.Metrics()
	free, total := db.space()
	return Stats{
		FlushStalls: db.disk.flushStalls.Load(), CompactionStalls: db.disk.compactionStalls.Load(),
		FailedCompactions: m.Compact.FailedCount,
		LogBytes:          m.WAL.Size, MemtableBytes: m.MemTable.Size,
		L0Files: m.Levels[0].TablesCount, L0Sublevels: int64(m.Levels[0].Sublevels), DebtBytes: m.Compact.EstimatedDebt,
		DiskBytes: db.size(), FreeBytes: free, TotalBytes: total,
		NearlyFull: db.Room() != nil, Damaged: db.Damage() != nil,
	}
}

// size returns the bytes on the disk that the store's files take.
func (db *DB) size() (bytes uint64) {
	names, err := db.disk.List(db.disk.dir)
	if err != nil { // State reports a disk that fails
		return 0
	}
	for _, name := range names {
		info, err := db.disk.Stat(db.disk.PathJoin(db.disk.dir, name))
		if err != nil { // the file was deleted after the listing
			continue
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			bytes += uint64(stat.Blocks) * 512
		} else {
			bytes += uint64(info.Size())
		}
	}
	return bytes
}

func (db *DB) space() (free, total uint64) { return space(db.disk, db.disk.dir) }

func space(fs vfs.FS, dir string) (free, total uint64) {
	usage, err := fs.GetDiskUsage(dir)
	if err != nil { // some file systems do not report their usage
		return 0, 0
	}
	return usage.AvailBytes, usage.TotalBytes
}

// leastRoom and mostRoom bound the room that RoomFor requires: a compaction writes up to some
// gigabytes before it frees any.
const (
	leastRoom = 512 << 20
	mostRoom  = 10 << 30
)

// Room returns an error if the disk is nearly full.
func (db *DB) Room() error { return RoomFor(db.disk, db.disk.dir, 0) }

// Room returns an error if the disk of a directory is nearly full. The directory may be in use.
func Room(dir string) error { return RoomFor(vfs.Default, dir, 0) }

// RoomFor is the rule of a nearly full disk, for all that Fanfare writes. It returns an error if after more bytes less than
// a tenth of the disk of the directory, or less than 512 MiB, is free. 10 GiB are enough on any disk. A file system that
// does not report its usage has room.
func RoomFor(fs vfs.FS, dir string, more int64) error {
	free, total := space(fs, dir)
	if total == 0 || free >= max(leastRoom, min(total/10, mostRoom))+uint64(more) {
		return nil
	}
	return fmt.Errorf("%d of %d MiB are free on the disk of %s: make room before it is full", free>>20, total>>20, dir)
}
