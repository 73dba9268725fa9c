package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"

	"fanfare/internal/archive"
	"fanfare/internal/disk"
	"fanfare/internal/queue"
	queueembedded "fanfare/internal/queue/embedded"
	"fanfare/internal/restore"
	"fanfare/internal/table"
)

// loss is the loss of a machine at the death of its process.
type loss struct {
	objects *vfs.MemFS // the objects of the archive
	// promised is the time before which the archive promises everything.
	promised time.Time
}

const (
	// calmFor is the time without trouble after which the archive has to be up to date.
	calmFor = 20 * time.Second
	// mostLost is the longest time of writes that a loss of the machine may take in steady times.
	mostLost = 2500 * time.Millisecond
)

// loses draws whether the machine is lost together with its process.
func (a *archived) loses() *loss {
	if a.rng.IntN(3) > 0 {
		return nil
	}
	l := &loss{objects: cloned(a.objects, objectsDir)}
	e, now := a.e, time.Now()
	if a.far.calm(calmFor) && e.trouble == "" && now.Sub(e.room) > calmFor && now.Sub(e.opened) > calmFor {
		l.promised = now.Add(-mostLost)
	}
	return l
}

// aims draws a power cut at a rare moment: a segment was written since the last write, which is not on the disk.
func (a *archived) aims() bool {
	return a != nil && a.e.w.faults != (Rates{}) && !a.e.killed && a.e.trouble == "" && a.e.lie == nil &&
		len(a.e.lazies) > 0 && time.Since(a.e.lazyAt) > archiveEvery+archiveEvery/4 && a.rng.IntN(3) == 0
}

// cloned copies a directory of a disk.
func cloned(disk vfs.FS, dir string) *vfs.MemFS {
	copied := vfs.NewMem()
	if _, err := vfs.Clone(disk, copied, dir, dir); err != nil {
		panic(err) // unreachable: both disks are in memory
	}
	return copied
}

// recover is called when the next process is running. It checks a restore from the archive, as
// after a loss of the disk.
func (a *archived) recover() {
	if a == nil {
		return
	}
	l := a.loss
	if a.loss = nil; l != nil {
		a.checkLoss(l)
	}
	a.journal.died(a.upTo)
}

func (a *archived) checkLoss(l *loss) {
	newest := a.restored(l.objects, time.Time{}, span{known: l.promised, begun: soon()})
	if newest == nil {
		return
	}
	defer a.forget(newest)
	if !l.promised.IsZero() {
		a.saw(eventSteady)
	}
	from, to := newest.plan.Base.MadeAt, newest.plan.Until
	a.damage(l.objects, time.Time{}, span{known: l.promised, begun: soon()})
	if to.After(from) {
		at := millisecond(from.Add(time.Duration(a.rng.Int64N(int64(to.Sub(from)))))).Add(time.Millisecond)
		want := span{known: at, begun: at}
		if r := a.restored(l.objects, at, want); r != nil {
			a.saw(eventTime)
			if a.rng.IntN(2) == 0 {
				a.branch(l.objects, r)
			}
			a.forget(r)
			a.damage(l.objects, at, want)
		}
	}
}

// last returns the time of the last segment.
func (a *archived) last() (at time.Time) {
	ctx, opened := context.Background(), a.opened(a.objects)
	chain, err := opened.Chain(ctx, 0, 0)
	for _, link := range slices.Backward(chain) {
		var n uint64
		if _, n, err = opened.Span(ctx, link); n > 0 || err != nil {
			var entry archive.Entry
			if err == nil {
				entry, err = opened.Entry(ctx, link.Number, n)
			}
			at = entry.Last
			break
		}
	}
	if err != nil && !strings.Contains(err.Error(), "no such object") {
		a.fail("read the end: %v", err)
	}
	return at
}

// restoredDir is a restored directory.
type restoredDir struct {
	dir    string
	plan   restore.Plan
	disk   *vfs.MemFS // a copy of the stores
	items  []table.Item
	copies map[string]int
}

// forget deletes a restored directory.
func (a *archived) forget(r *restoredDir) {
	if err := os.RemoveAll(r.dir); err != nil {
		a.fail("delete a directory: %v", err)
	}
}

// restored restores a time, zero for the newest state, and compares the state with the journal. It returns nil if
// the archive rightly refuses the restore.
func (a *archived) restored(objects *vfs.MemFS, at time.Time, want span) *restoredDir {
	r, err := a.restore(objects, at)
	if err != nil {
		a.refused(objects, at, err)
		return nil
	}
	if at.IsZero() && want.known.Before(millisecond(r.plan.Until)) {
		want.known = millisecond(r.plan.Until)
	}
	if difference := a.journal.check(want, r.items, r.copies); difference != "" {
		a.fail("a restore to %v (%s to %s, over %d segments): %s", at, r.plan.Base.MadeAt, r.plan.Until, r.plan.Segments, difference)
	}
	a.saw(eventRestored)
	if r.plan.Term() > r.plan.Base.Term {
		a.saw(eventTerms)
	}
	return r
}

// refused checks the refusal of a restore to a time that the archive has, as far as its bases and segments show.
func (a *archived) refused(objects *vfs.MemFS, at time.Time, err error) {
	early, isEarly := errors.AsType[*restore.EarlyError](err)
	if isEarly && early.Earliest.IsZero() {
		a.saw(eventNoBase)
		return
	}
	// Only a full spool or a full disk drops frames.
	if _, is := errors.AsType[*restore.GapError](err); is && (a.spool < 1<<20 || a.e.w.Fired[FaultFull] > 0) && a.hasGap(objects) {
		a.saw(eventGap)
		return
	}
	a.fail("a restore to %v: %v", at, err)
}

func (a *archived) hasGap(objects *vfs.MemFS) bool {
	opened := a.opened(objects)
	chain, err := opened.Chain(context.Background(), 0, 0)
	if err != nil {
		return false
	}
	for _, err := range opened.Gaps(context.Background(), chain) {
		return err == nil
	}
	return false
}

// restore makes a directory, and reads its stores.
func (a *archived) restore(objects *vfs.MemFS, at time.Time) (*restoredDir, error) {
	ctx, opened := context.Background(), a.opened(objects)
	plan, err := restore.Find(ctx, opened, restore.Target{At: at})
	if err != nil {
		return nil, err
	}
	dir, err := a.directory()
	if err != nil {
		return nil, err
	}
	r := &restoredDir{dir: dir, plan: plan, disk: vfs.NewCrashableMem(), copies: map[string]int{}}
	err = restore.Run(ctx, opened, plan, dir, restore.Options{Done: func(int64) {}, Log: zap.NewNop()})
	if bytes, sizeErr := roomOf(a.dir); sizeErr != nil || bytes > mostKept {
		a.fail("the restores of this seed take %d bytes of the disk of this machine: %v", bytes, sizeErr)
	}
	for _, name := range []string{"table", "queue"} {
		if err == nil {
			_, err = vfs.Clone(vfs.Default, r.disk, path.Join(dir, name), dataDir+"/"+name, vfs.CloneSync)
		}
	}
	for _, dir := range []string{dataDir, ""} { // the names of the directories survive a power cut
		if err == nil {
			err = disk.SyncDir(r.disk, dir)
		}
	}
	if err == nil {
		err = r.read()
	}
	if err != nil {
		a.forget(r)
		return nil, err
	}
	return r, nil
}

// read reads the stores of a copy of the directory.
func (r *restoredDir) read() error {
	copied := cloned(r.disk, dataDir)
	s, err := openStores(copied, copied, func(o *queueembedded.Options) {
		o.Now = func() time.Time { return time.Now().AddDate(1, 0, 0) } // no message is delayed
	})
	if err != nil {
		return err
	}
	if r.items, err = allItems(s.table); err == nil {
		err = r.count(s.queue)
	}
	return errors.Join(err, s.close())
}

// count counts the copies of each message and each dead letter.
func (r *restoredDir) count(broker *queueembedded.Broker) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, topic := range queue.Topics() {
		channel, err := broker.Subscribe(ctx, topic)
		if err != nil {
			return err
		}
		var came []string
		go func() { // runs until the subscription ends
			for msg := range channel {
				came = append(came, identity(msg.UUID, msg.Payload))
				msg.Ack()
			}
		}()
		synctest.Wait()
		letters, err := broker.ListDead(ctx, topic, 1<<20)
		if err != nil {
			return err
		}
		for _, letter := range letters {
			came = append(came, identity(letter.ID, letter.Payload))
		}
		for _, who := range came {
			r.copies[topic+" "+who]++
		}
	}
	return nil
}

// damage damages one object of a copy of the archive: a restore names the object, or does not need it.
func (a *archived) damage(objects *vfs.MemFS, at time.Time, want span) {
	damaged := cloned(objects, objectsDir)
	name, content := a.drawObject(damaged)
	how := "changed"
	if i := a.rng.IntN(len(content)); a.rng.IntN(3) == 0 {
		how, content = "cut", content[:i]
	} else {
		if a.rng.IntN(2) == 0 { // in the header of a segment
			i = min(i, a.rng.IntN(200))
		}
		content[i] ^= 1 << a.rng.IntN(8)
	}
	a.put(damaged, name, content)
	r, err := a.restore(damaged, at)
	if err == nil {
		if difference := a.journal.check(want, r.items, r.copies); difference != "" {
			a.fail("a restore to %v beside the %s object %s: %s", at, how, name, difference)
		}
		a.saw(eventUnharmed)
		a.forget(r)
		return
	}
	if !names(err, name) {
		a.fail("a restore that needs the %s object %s does not name it: %v", how, name, err)
	}
	a.saw(eventDamaged)
}

// names reports whether an error names an object: a segment by its numbers.
func names(err error, object string) bool {
	text := err.Error()
	if term, n, ok := strings.Cut(strings.TrimPrefix(object, "t/"), "/s/"); ok {
		number, _ := strconv.ParseUint(n, 16, 64)
		of, _ := strconv.ParseUint(term, 16, 64)
		return strings.Contains(text, fmt.Sprintf("segment %x of term %x", number, of)) || strings.Contains(text, object)
	}
	return strings.Contains(text, object)
}

// drawObject draws a segment or a file of the archive.
func (a *archived) drawObject(disk *vfs.MemFS) (name string, content []byte) {
	var all []string
	store, err := openObjects(disk)
	if err == nil {
		for object, err := range store.List(context.Background(), "", "") {
			if err == nil && hasHash(object.Name) && object.Size > 0 {
				all = append(all, object.Name)
			}
		}
	}
	name = all[a.rng.IntN(len(all))]
	if a.rng.IntN(2) == 0 { // a restore needs the newest objects
		name = all[max(0, len(all)-1-a.rng.IntN(5))]
	}
	f, err := disk.Open(objectsDir + "/" + name)
	if err != nil {
		panic(err) // unreachable: the disk is in memory
	}
	info, err := f.Stat()
	if err == nil {
		content = make([]byte, info.Size())
		_, err = f.ReadAt(content, 0)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		panic(err) // unreachable, as above
	}
	return name, content
}

// put replaces an object.
func (a *archived) put(disk *vfs.MemFS, name string, content []byte) {
	f, err := disk.Create(objectsDir+"/"+name, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = f.Write(content)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		panic(err) // unreachable: the disk is in memory
	}
}
