package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/cockroachdb/pebble/v2/vfs"

	"fanfare/internal/archiving"
	"fanfare/internal/queue"
	"fanfare/internal/restore"
	"fanfare/internal/table"
)

// take gives a restored directory the next term of an archive.
func (a *archived) take(objects *vfs.MemFS, dir string) error {
	_, err := restore.Take(context.Background(), a.opened(objects), dir, "sim", func(restore.Takeover) error { return nil })
	return err
}

// branch continues with a directory that was restored to an earlier time, beside the world: the directory takes a copy
// of the archive, and writes to it. A restore of the copy has the earlier state and these writes, and nothing that the
// lost machine wrote after the earlier state.
func (a *archived) branch(objects *vfs.MemFS, r *restoredDir) {
	copied := cloned(objects, objectsDir)
	want := append([]table.Item(nil), r.items...)
	err := a.take(copied, r.dir)
	if err == nil {
		var more []table.Item
		if more, err = a.write(copied, r); err == nil {
			want = append(want, more...)
		}
	}
	var again *restoredDir
	if err == nil {
		again, err = a.restore(copied, time.Time{})
	}
	if err != nil {
		a.fail("a machine that was restored to %v: %v", r.plan.Until, err)
		return
	}
	defer a.forget(again)
	l := &lie{first: want}
	if !l.leaves(again.items) {
		a.fail("a restore of a machine that was restored to %v differs: %d items, want %d", r.plan.Until, len(again.items), len(want))
	}
	if n := again.copies[queue.TopicPosts+" "+identity("branch", []byte("branch"))]; n != 1 {
		a.fail("a restore of a machine that was restored to %v has %d copies of its message, want 1", r.plan.Until, n)
	}
	a.saw(eventBranch)
}

// write writes to a restored directory and to its archive, until a stop in order.
func (a *archived) write(objects *vfs.MemFS, r *restoredDir) (items []table.Item, err error) {
	store, err := openObjects(objects)
	if err != nil {
		return nil, err
	}
	config, err := settings(r.disk, r.dir, store)
	if err != nil {
		return nil, err
	}
	p := &archivedProcess{ran: make(chan error, 1)}
	if p.Archiving, err = archiving.Open(context.Background(), config); err != nil {
		return nil, err
	}
	opened, err := openStores(p.files())
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.run(copier(r.disk, opened))
	for i := range 1 + a.rng.IntN(20) {
		it := table.Item{Key: table.Key{PK: "branch", SK: fmt.Sprint(i)}, Attrs: []table.Attr{{Name: "n", Value: table.N(int64(i))}}}
		_, putErr := opened.table.Put(context.Background(), table.PutInput{Item: it})
		items, err = append(items, it), errors.Join(err, putErr)
	}
	err = errors.Join(err, opened.queue.Publish(queue.TopicPosts, message.NewMessage("branch", []byte("branch"))))
	time.Sleep(time.Duration(a.rng.IntN(2)) * 4 * time.Second) // for a base
	err = errors.Join(err, p.halt(), opened.close())
	return items, errors.Join(err, p.Drain(context.Background()), p.Close())
}

// moves draws whether the world continues on another machine. The process stops in order, its disk is lost, and the
// next process continues with a restored directory: nothing may be missing.
func (a *archived) moves() {
	if a == nil || a.e.broken || a.rng.IntN(6) > 0 {
		return
	}
	e := a.e
	err := a.stop()
	if err != nil {
		a.fail("a stop in order: %v", err)
	}
	e.table = nil
	a.closed()
	r := a.restored(a.objects, time.Time{}, span{known: soon(), begun: soon()})
	if r != nil && err == nil {
		if err = a.take(a.objects, r.dir); err == nil {
			// The world uses the clone of the stores. Pebble reserves room for logs, so the stores take 140 MB of the real disk.
			err = errors.Join(os.RemoveAll(a.home), os.RemoveAll(path.Join(r.dir, "table")), os.RemoveAll(path.Join(r.dir, "queue")))
		}
		if err == nil {
			a.home, e.disk = r.dir, newDisk(r.disk)
			a.saw(eventMoved)
		}
		if err != nil {
			a.fail("take the archive: %v", err)
		}
	}
	e.forget()
	if e.open(); e.broken {
		return
	}
	if difference := e.differs(); difference != "" {
		a.fail("after the loss of the disk: %s", difference)
		e.broken = true
		return
	}
	e.recount()
	a.journal.died(time.Now())
}
