package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"fanfare/internal/admin"
	"fanfare/internal/datadir"
	"fanfare/internal/ops/backup"
	queueembedded "fanfare/internal/queue/embedded"
	"fanfare/internal/stream"
	tableembedded "fanfare/internal/table/embedded"
)

// checkpoint is the name of the directory, within the data directory, to which a backup
// first copies the stores.
const checkpoint = "checkpoint"

// backups makes backups of a process on the embedded engine, one at a time.
type backups struct {
	dir     *datadir.Dir
	table   *tableembedded.Store
	queue   *queueembedded.Broker
	now     func() time.Time
	version string
	making  sync.Mutex
	copying sync.Mutex // a store makes one checkpoint at a time
}

// Backup makes a backup. It first copies the queue and then the table to the
// directory checkpoint on the same disk, which is quick. Then the queue continues, and
// Backup copies the directory checkpoint to dir.
func (b *backups) Backup(ctx context.Context, dir string) (made admin.Backup, err error) {
	if !b.making.TryLock() {
		return made, errors.New("another backup is being made: wait for its end")
	}
	defer b.making.Unlock()
	if err := backup.Prepare(dir, b.dir.Path(".")); err != nil {
		return made, err
	}
	at := b.dir.Path(checkpoint)
	if err := errors.Join(os.RemoveAll(at), os.Mkdir(at, 0o700)); err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(at)) }()
	var madeAt time.Time
	began, held := b.now(), time.Duration(0)
	b.copying.Lock()
	err = b.queue.Checkpoint(ctx, filepath.Join(at, datadir.Queue), func() error {
		err := b.table.Checkpoint(ctx, filepath.Join(at, datadir.Table))
		madeAt = b.now()
		held = madeAt.Sub(began)
		return err
	})
	b.copying.Unlock()
	if err != nil {
		return made, err
	}
	contents, err := backup.Write(ctx, dir, backup.Source{Dir: b.dir, Stores: at, MadeAt: madeAt, Version: b.version})
	if err != nil {
		return made, err
	}
	made = admin.Backup{Dir: dir, Files: len(contents.Files), Bytes: contents.Bytes(), HeldMillis: held.Milliseconds()}
	return made, nil
}

// forArchive makes the directory of a base of the archive (archive.Source). The stores continue meanwhile, because
// the segments have the bytes that the copies lack. The secret belongs to a base, but the format and the lock do not (S8).
func (b *backups) forArchive(ctx context.Context, dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	secret, err := datadir.ReadSecret(b.dir.Path("."))
	if err == nil {
		err = datadir.WriteFile(filepath.Join(dir, datadir.SecretFile), secret)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // with tokens of an issuer there is no secret
		return err
	}
	b.copying.Lock()
	defer b.copying.Unlock()
	if err := b.queue.Checkpoint(ctx, filepath.Join(dir, datadir.Queue), func() error { return nil }); err != nil {
		return err
	}
	return b.table.Checkpoint(ctx, filepath.Join(dir, datadir.Table))
}

// beginLog makes a store begin its next log soon.
func (b *backups) beginLog(store stream.Store) error {
	if store == stream.Queue {
		return b.queue.BeginLog()
	}
	return b.table.BeginLog()
}
