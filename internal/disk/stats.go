package disk

import (
	"fmt"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Stats are the figures of a store at one moment.
type Stats struct {
	// FlushStalls counts the stalls of writes that came faster than the disk takes them:
	// memory for more is bounded.
	FlushStalls int64
	// CompactionStalls counts the stalls because sorted files had piled up.
	CompactionStalls int64
	// FailedCompactions counts the compactions that met a full disk or damaged data.
	FailedCompactions int64
	// LogBytes are the bytes of the log that a start has to read again, MemtableBytes
	// the writes in memory that are in no sorted file yet.
	LogBytes, MemtableBytes uint64
	// ItemBytes are the bytes of decoded items and pages in memory, for a store that keeps some.
	ItemBytes int64
	// L0Files and L0Sublevels are the sorted files that compactions have not merged yet,
	// and how many of them a read may have to look into. DebtBytes are the bytes that
	// compactions still have to move.
	L0Files, L0Sublevels int64
	DebtBytes            uint64
	// DiskBytes is the room that the files of the store take, as du counts it: logs that are kept
	// for the next writes are large, and Pebble's own figure leaves them out. FreeBytes and TotalBytes are its disk's, 0 if
	// the system does not say.
	DiskBytes, FreeBytes, TotalBytes uint64
	// Damaged is true once a read met damaged data.
	Damaged bool
}

// Stats returns the figures of now. The store must be open.
func (db *DB) Stats() Stats {
	m := db.Metrics()
	free, total := db.space()
	return Stats{
		FlushStalls: db.disk.flushStalls.Load(), CompactionStalls: db.disk.compactionStalls.Load(),
		FailedCompactions: m.Compact.FailedCount,
		LogBytes:          m.WAL.Size, MemtableBytes: m.MemTable.Size,
		L0Files: m.Levels[0].TablesCount, L0Sublevels: int64(m.Levels[0].Sublevels), DebtBytes: m.Compact.EstimatedDebt,
		DiskBytes: db.size(), FreeBytes: free, TotalBytes: total,
		Damaged: db.Damage() != nil,
	}
}

// size returns the bytes of the disk that the files of the store take.
func (db *DB) size() (bytes uint64) {
	names, err := db.disk.List(db.disk.dir)
	if err != nil { // a disk that fails is reported by State
		return 0
	}
	for _, name := range names {
		info, err := db.disk.Stat(db.disk.PathJoin(db.disk.dir, name))
		if err != nil { // it was deleted meanwhile
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
	if err != nil { // some file systems do not say
		return 0, 0
	}
	return usage.AvailBytes, usage.TotalBytes
}

// Bounds of Room: a compaction rewrites up to some gigabytes before it frees any.
const (
	leastRoom = 512 << 20
	mostRoom  = 10 << 30
)

// Room returns an error if a tenth of the disk or less is free, or less than 512 MiB.
// 10 GiB are enough on any disk.
func (db *DB) Room() error { return room(db.disk, db.disk.dir) }

// Room is DB.Room for the disk of a directory that may be in use.
func Room(dir string) error { return room(vfs.Default, dir) }

func room(fs vfs.FS, dir string) error {
	free, total := space(fs, dir)
	if total == 0 || free >= max(leastRoom, min(total/10, mostRoom)) {
		return nil
	}
	return fmt.Errorf("%d of %d MiB are free on the disk of %s: make room before it is full", free>>20, total>>20, dir)
}
