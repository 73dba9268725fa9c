package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/cockroachdb/pebble/v2/vfs"

	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
	"fanfare/internal/queue"
	queueembedded "fanfare/internal/queue/embedded"
	"fanfare/internal/table"
	tableembedded "fanfare/internal/table/embedded"
)

// failure is a copy of the engine whose disk fails for good: an operation on the log or the
// manifest of one store returns an I/O error. From then on the store refuses each write, and the
// process ends, because only the next start repairs the store. Pebble's goroutines then wait for
// the end of the process. A bubble does not allow such goroutines, so the copy runs outside of the
// bubble of its world.
type failure struct {
	memory    *vfs.MemFS
	store, of string // the store, "table" or "queue", and the file
	op        string // the operation that fails: create, write or sync
	lasting   bool   // each later operation on the store's files fails, too

	mu   sync.Mutex
	left int    // operations until the failure
	file string // the file that has failed, "" before the failure

	first    []table.Item // the table before the failure
	answered []table.Item
	sent     int // number of answered messages
	faults   []string
}

// outside runs work outside of a bubble.
type outside struct {
	work chan func()
	done chan struct{}
	dir  string // on the disk of this machine
}

func newOutside(dir string) *outside {
	o := &outside{make(chan func()), make(chan struct{}), dir}
	go func() { // runs until close
		for work := range o.work {
			work()
			o.done <- struct{}{}
		}
	}()
	return o
}

func (o *outside) run(work func()) {
	o.work <- work
	<-o.done
}

func (o *outside) close() { close(o.work) }

// checkFailure makes the disk of a copy of the engine fail.
func (e *engine) checkFailure() {
	one := func(of ...string) string { return of[e.rng.IntN(len(of))] }
	f := &failure{
		memory: e.disk.after(100), store: one("table", "queue"), of: one(".log", ".log", "MANIFEST"), op: one("create", "write", "write", "sync", "sync"),
		lasting: e.rng.IntN(2) == 0, left: 1 + e.rng.IntN(1+e.rng.IntN(60)),
	}
	var err error
	if f.first, err = allItems(e.model); err != nil {
		e.fail("oracle", "%v", err)
		return
	}
	e.outside.run(f.run)
	if err := f.memory.RemoveAll(dataDir); err != nil { // Pebble's goroutines still use the rest
		e.fail("oracle", "%v", err)
	}
	if f.file != "" {
		e.w.Fired[FaultFailed]++
	}
	for _, what := range f.faults {
		e.fail("I5", "an I/O error of %s in the %s of %s (lasting: %v): %s", f.file, f.op, f.store, f.lasting, what)
	}
}

func (f *failure) wrong(format string, args ...any) {
	f.faults = append(f.faults, fmt.Sprintf(format, args...))
}

// meet is a disktest.Fault. After a failed sync the operating system has dropped the data, and a
// second sync succeeds without the data.
func (f *failure) meet(op, name string, _ int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	in := strings.Contains(name, "/"+f.store+"/")
	switch {
	case f.file != "" && f.lasting && in:
		return syscall.EIO
	case f.file != "" && name == f.file && op == "sync":
		return disktest.ErrLie
	case f.file != "" || !in || op != f.op || !strings.Contains(name, f.of):
		return nil
	}
	if f.left--; f.left > 0 {
		return nil
	}
	f.file = name
	return syscall.EIO
}

func (f *failure) has() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.file != ""
}

// run writes until the store refuses a write, and opens the data that the next process finds.
func (f *failure) run() {
	fs := disktest.New(f.memory)
	s, err := openStores(fs, fs)
	if err != nil {
		f.wrong("the start fails: %v", err)
		return
	}
	before := depths(s.queue)
	fs.Set(f.meet) // not earlier: after a failed start Pebble's goroutines may end the process
	f.write(s.table, s.queue)
	f.recover(f.memory.CrashClone(vfs.CrashCloneCfg{}), before)
}

// write writes to both stores until one store refuses a write.
func (f *failure) write(store *tableembedded.Store, broker *queueembedded.Broker) {
	ctx := context.Background()
	pad := []table.Attr{{Name: "pad", Value: table.S(strings.Repeat("x", 4000))}}
	put := func(i int) error {
		it := table.Item{Key: table.Key{PK: fmt.Sprint("u#disk", i), SK: "x"}, Attrs: pad}
		err := f.answer(store.Health, func() error {
			_, err := store.Put(ctx, table.PutInput{Item: it})
			return err
		})
		if err == nil {
			f.answered = append(f.answered, it)
		}
		return err
	}
	publish := func(i int) error {
		err := f.answer(broker.Health, func() error {
			return broker.Publish(queue.TopicPosts, message.NewMessage(fmt.Sprint("disk", i), []byte("x")))
		})
		if err == nil {
			f.sent++
		}
		return err
	}
	writes := map[string]func(int) error{"table": put, "queue": publish}
	health := map[string]func() error{"table": store.Health, "queue": broker.Health}
	var err error
	for i := 0; i < 60 && err == nil; i++ {
		for _, name := range []string{"table", "queue"} {
			if err = writes[name](i); err != nil {
				f.refused(name, err)
				break
			}
		}
	}
	if f.has() {
		for wait := 0; health[f.store]() == nil && wait < 10_000; wait++ { // the failure may be recent
			time.Sleep(time.Millisecond)
		}
		if err := health[f.store](); !errors.Is(err, disk.ErrFailed) {
			f.wrong("the health of the store is %v, want %v", err, disk.ErrFailed)
		}
		f.refused(f.store, writes[f.store](60))
		f.read(ctx, store)
	}
	for name, err := range map[string]error{"table": store.Close(), "queue": broker.Close()} {
		if failed := errors.Is(err, disk.ErrFailed); failed != (f.has() && name == f.store) {
			f.wrong("the close of %s answers %v", name, err)
		}
	}
}

// answer waits for the answer to a write. A writer begins the next log itself. If that fails, the
// writer waits for the end of the process, and its caller gets no answer.
func (f *failure) answer(health func() error, write func() error) error {
	done := make(chan error, 1)
	go func() { done <- write() }() // runs until the write or the process ends
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for late := 0; ; late++ {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			if err := health(); err == nil {
				late = 0
			} else if late > 500 {
				return &table.UnavailableError{Op: "write", Err: err}
			}
		}
	}
}

// refused checks the answer to a write after the failure.
func (f *failure) refused(store string, err error) {
	if store != f.store || !f.has() || !isOutage(err) || !errors.Is(err, disk.ErrFailed) {
		f.wrong("a write to %s answers %v, want an outage because %v", store, err, disk.ErrFailed)
	}
}

// read checks that reads still find each answered write. A read may wait in vain for a write of the
// same slot.
func (f *failure) read(ctx context.Context, store *tableembedded.Store) {
	for _, want := range f.answered {
		got, err := store.Get(ctx, table.GetInput{Key: want.Key, Consistent: true})
		if f.store == "table" && isOutage(err) && errors.Is(err, disk.ErrFailed) {
			continue
		}
		if err != nil || got.Item == nil || !equal(*got.Item, want) {
			f.wrong("a read of %v answers %v, %v", want.Key, got.Item, err)
		}
	}
}

// recover checks that the next process finds each answered write. before has the number of messages
// of each topic at the start.
func (f *failure) recover(image *vfs.MemFS, before map[string]int64) {
	s, err := openStores(image, image)
	if err != nil {
		f.wrong("the next start fails: %v", err)
		return
	}
	there, err := allItems(s.table)
	got := map[table.Key]table.Item{}
	for _, it := range there {
		got[it.Key] = it
	}
	for _, want := range append(f.first, f.answered...) {
		if it, ok := got[want.Key]; err != nil || !ok || !equal(it, want) {
			f.wrong("the next process has %v for %v: %v", it, want, err)
		}
	}
	if known := len(f.first) + len(f.answered); len(there) < known || len(there) > known+1 {
		f.wrong("the next process has %d items, want %d, and perhaps the unanswered one", len(there), known)
	}
	before[queue.TopicPosts] += int64(f.sent)
	for topic, n := range depths(s.queue) {
		if n < before[topic] {
			f.wrong("the next process has %d messages of %s, want %d", n, topic, before[topic])
		}
	}
	if err := s.close(); err != nil {
		f.wrong("the next process does not close: %v", err)
	}
}

// depths returns the number of messages and dead letters of each topic.
func depths(broker *queueembedded.Broker) map[string]int64 {
	all := map[string]int64{}
	for _, topic := range queue.Topics() {
		if d, err := broker.Depth(context.Background(), topic); err == nil {
			all[topic] = d.Ready + d.Delayed + d.InFlight + d.Dead
		}
	}
	return all
}
