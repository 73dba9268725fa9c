package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"iter"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"fanfare/internal/objects"
)

// objectsDir is the directory of the archive's objects, on a disk of its own.
const objectsDir = "archive"

// openObjects opens the objects of a disk.
func openObjects(disk *vfs.MemFS) (objects.Store, error) {
	if err := disk.MkdirAll(objectsDir, 0o700); err != nil {
		return nil, err
	}
	return objects.OpenDirectory(disk, objectsDir)
}

// farStore is a store of objects behind a network: the store is away, answers late, loses answers, makes an
// effect after the answer, and returns torn or changed segments and files. Its draws depend on the name of the
// object and the number of the try, because the goroutines of an archive call the store in any order.
type farStore struct {
	objects.Store
	seed uint64
	late sync.WaitGroup // the effects that are on their way

	mu    sync.Mutex
	tries map[string]uint64
	// sound ends all trouble.
	sound bool
	// bad is the time of the last trouble.
	bad   time.Time
	fired Counters
}

func newFarStore(store objects.Store, seed uint64) *farStore {
	return &farStore{Store: store, seed: seed, tries: map[string]uint64{}, fired: Counters{}}
}

// FaultObjects is trouble of an archive's store of objects. The names of its kinds begin with it.
const FaultObjects = "objects: "

const (
	objectsAway    = FaultObjects + "away"
	objectsFailed  = FaultObjects + "failed call"
	objectsLost    = FaultObjects + "lost answer"
	objectsLate    = FaultObjects + "late effect"
	objectsTorn    = FaultObjects + "torn object"
	objectsChanged = FaultObjects + "changed object"
)

func hashed(parts ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprintln(h, parts...)
	return h.Sum64()
}

// fate draws the fault of a call, "" for none, and its delay. In half of the minutes the network is sound.
func (s *farStore) fate(call, name string) (fault string, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries[call+name]++
	x := hashed(s.seed, call, name, s.tries[call+name])
	wait = time.Duration(1+x%20_000) * time.Microsecond
	now := time.Now()
	minute, hour := hashed(s.seed, now.Unix()/60)%100, hashed(s.seed, "long", now.Unix()/600)%100
	switch x = x / 20_000 % 100; {
	case s.sound:
	case hour < 10 || minute < 10:
		fault = objectsAway
	case minute < 50:
	case x < 5:
		fault = objectsFailed
	case x < 10:
		fault = objectsLost
	case x < 15:
		fault = objectsLate
	case x < 20:
		fault = objectsTorn
	case x < 25:
		fault = objectsChanged
	}
	if fault != "" {
		s.bad = now
		s.fired[fault]++
	}
	return fault, wait
}

// mend ends all trouble of the store.
func (s *farStore) mend(sound bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sound = sound
}

// calm reports whether there was no trouble for some time.
func (s *farStore) calm(lasts time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.bad) > lasts
}

func isAway(call, name string) error { return fmt.Errorf("%s %s: %w", call, name, objects.ErrAway) }

// nearStore is the network of one process. alive returns false once the process is dead: then no call begins, and
// no answer arrives.
type nearStore struct {
	*farStore
	alive func() bool
}

// Create implements objects.Store.
func (s nearStore) Create(ctx context.Context, name string, body objects.Body) error {
	if !s.alive() {
		return isAway("create", name)
	}
	fault, wait := s.fate("create", name)
	// The body is read now: the process may remove its file after the call.
	content, err := io.ReadAll(io.NewSectionReader(body.From, 0, body.Size))
	if err != nil {
		return err
	}
	body.From = bytes.NewReader(content)
	effect := func() error { return s.Store.Create(context.WithoutCancel(ctx), name, body) }
	switch fault {
	case objectsAway, objectsFailed:
		return isAway("create", name)
	case objectsLate:
		s.late.Go(func() {
			time.Sleep(200 * wait)
			_ = effect() // the answer is lost, whatever it is
		})
		return isAway("create", name)
	}
	time.Sleep(wait)
	err = effect()
	if fault == objectsLost || !s.alive() {
		return isAway("create", name)
	}
	return errors.Join(context.Cause(ctx), err)
}

// Get implements objects.Store.
func (s nearStore) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	fault, wait := s.fate("get", name)
	if time.Sleep(wait); !s.alive() || fault == objectsAway || fault == objectsFailed || fault == objectsLost {
		return nil, isAway("get", name)
	}
	body, err := s.Store.Get(ctx, name)
	if err != nil || fault != objectsTorn && fault != objectsChanged {
		return body, err
	}
	content, err := io.ReadAll(body)
	if err = errors.Join(err, body.Close()); err != nil || len(content) == 0 {
		return io.NopCloser(bytes.NewReader(content)), err
	}
	at := int(hashed(s.seed, name)) & (1<<32 - 1) % len(content)
	if fault == objectsChanged && hasHash(name) {
		content[at] ^= 4
		return io.NopCloser(bytes.NewReader(content)), nil
	}
	return io.NopCloser(io.MultiReader(bytes.NewReader(content[:at]), torn{isAway("get", name)})), nil
}

// hasHash reports whether an object carries a hash of its content.
func hasHash(name string) bool {
	return strings.HasPrefix(name, "f/") || strings.Contains(name, "/s/")
}

// torn is the end of a body that was cut.
type torn struct{ err error }

func (t torn) Read([]byte) (int, error) { return 0, t.err }

// List implements objects.Store.
func (s nearStore) List(ctx context.Context, prefix, after string) iter.Seq2[objects.Object, error] {
	fault, wait := s.fate("list", prefix+after)
	if time.Sleep(wait); s.alive() && (fault == "" || fault == objectsLate || fault == objectsChanged) {
		return s.Store.List(ctx, prefix, after)
	}
	return func(yield func(objects.Object, error) bool) {
		if fault == objectsTorn && s.alive() {
			for object, err := range s.Store.List(ctx, prefix, after) {
				if !yield(object, err) {
					return
				}
				break
			}
		}
		yield(objects.Object{}, isAway("list", prefix))
	}
}

// Delete implements objects.Store.
func (s nearStore) Delete(ctx context.Context, name string) error {
	fault, wait := s.fate("delete", name)
	if time.Sleep(wait); !s.alive() || fault == objectsAway || fault == objectsFailed {
		return isAway("delete", name)
	}
	err := s.Store.Delete(ctx, name)
	if fault == objectsLost {
		return isAway("delete", name)
	}
	return err
}
