package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
	queueembedded "fanfare/internal/queue/embedded"
	"fanfare/internal/table"
	tableembedded "fanfare/internal/table/embedded"
)

// FaultDamaged is a file of a disk that is lost, cut, or replaced by another one of its kind, between a stop and a start.
const FaultDamaged = "file damaged"

// mostSpoiled is the maximum number of damages of a world.
const mostSpoiled = 2

// spoiled is a copy of a disk that a process has left. One file of the copy is damaged. A start with it serves what a start with the whole disk
// serves, or it is refused because of the damage.
type spoiled struct {
	whole, memory *vfs.MemFS
	what          string
	faults        []string
}

// checkDamage damages a copy of the disk that a process has left, and starts with it. It runs outside of the bubble, as checkFailure does, because
// a refused start may leave goroutines.
func (e *engine) checkDamage(image *vfs.MemFS) {
	if e.outside == nil || e.damages >= mostSpoiled || e.harm.IntN(4) > 0 {
		return
	}
	d := &spoiled{whole: vfs.NewMem(), memory: vfs.NewMem()}
	for _, to := range []*vfs.MemFS{d.whole, d.memory} {
		if _, err := vfs.Clone(image, to, dataDir, dataDir); err != nil {
			e.fail("oracle", "%v", err)
			return
		}
	}
	if d.what = spoil(e.harm, d.memory); d.what == "" {
		return
	}
	e.damages++
	e.w.Fired[FaultDamaged]++
	e.outside.run(d.run)
	for _, what := range d.faults {
		e.fail("I5", "%s: %s", d.what, what)
	}
}

// spoil damages a file of a store, if it finds one whose damage does not look like a power cut.
func spoil(rng *rand.Rand, fs *vfs.MemFS) (what string) {
	dir := []string{tableDir, queueDir}[rng.IntN(2)]
	names, err := fs.List(dir)
	if err != nil || len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	name := names[rng.IntN(len(names))]
	path, kind := fs.PathJoin(dir, name), fileKind(name)
	alike := slices.DeleteFunc(slices.Clone(names), func(other string) bool { return fileKind(other) != kind })
	content, err := disktest.Read(fs, path)
	how := rng.IntN(3)
	switch {
	case err != nil || name == "LOCK":
		return ""
	case how == 0 || len(content) == 0:
		return path + " is lost" + failed(fs.Remove(path))
	case kind == ".log" && name == alike[len(alike)-1]: // its end may be gone
		return ""
	case how == 1:
		return path + " is cut" + failed(putFile(fs, path, content[:rng.IntN(len(content))]))
	}
	other, err := disktest.Read(fs, fs.PathJoin(dir, alike[rng.IntN(len(alike))]))
	if err != nil || len(other) == len(content) { // the size of a sorted file shows which one it is
		return ""
	}
	return path + " is another one" + failed(putFile(fs, path, other))
}

func failed(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

// fileKind returns the common part of the names of a kind: the end of the name, or its beginning.
func fileKind(name string) string {
	if at := strings.LastIndexByte(name, '.'); at >= 0 && !strings.HasPrefix(name, "marker.") {
		return name[at:]
	}
	kind, _, _ := strings.Cut(name, "-")
	return kind
}

func putFile(fs vfs.FS, path string, data []byte) error {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(slices.Clone(data)) // a vfs.MemFS may change the bytes that it gets
	return errors.Join(err, f.Sync(), f.Close())
}

// run compares a start with the damaged disk and a start with the whole one.
func (d *spoiled) run() {
	want, err := served(d.whole)
	if err != nil { // the process has not made its stores yet
		return
	}
	got, err := served(d.memory)
	switch {
	case errors.Is(err, disk.ErrDamaged):
	case err != nil:
		d.faults = append(d.faults, fmt.Sprintf("the start fails, and its error does not name the damage: %v", err))
	case got != want:
		at := 0
		for at < min(len(got), len(want)) && got[at] == want[at] {
			at++
		}
		at = max(0, at-100)
		d.faults = append(d.faults, fmt.Sprintf("from byte %d on the start serves %.300q, and the whole disk has %.300q", at, got[at:], want[at:]))
	}
}

// served returns all that stores serve which are there. A store is never made.
func served(fs vfs.FS) (all string, err error) {
	s := stores{}
	defer func() {
		if s.table != nil {
			err = errors.Join(err, s.table.Close())
		}
		if s.queue != nil {
			err = errors.Join(err, s.queue.Close())
		}
	}()
	if s.table, err = tableembedded.Open(tableDir, tableembedded.Options{FS: fs, SweepEvery: -1, MemoryBytes: engineMemory}); err != nil {
		return "", err
	}
	if s.queue, err = queueembedded.Open(queueDir, queueembedded.Options{FS: fs, Doubt: func() error { return errDown }}); err != nil {
		return "", err
	}
	var text strings.Builder
	for in := (table.ScanInput{}); ; {
		page, err := s.table.Scan(context.Background(), in)
		if err != nil {
			return "", err
		}
		for _, item := range page.Items {
			fmt.Fprintln(&text, item)
		}
		if in.After = page.Next; page.Next == (table.Key{}) {
			break
		}
	}
	fmt.Fprintln(&text, depths(s.queue))
	if _, err := s.queue.ReadLog("", func(position string, payload []byte) bool {
		fmt.Fprintln(&text, position, string(payload))
		return true
	}); err != nil {
		return "", err
	}
	return text.String(), s.queue.Damage()
}
