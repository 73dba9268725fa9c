package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"fanfare/internal/objects"
	"fanfare/internal/stream"
)

// Findings is the result of a check of an archive.
type Findings struct {
	Objects int     `json:"objects"`
	Bytes   int64   `json:"bytes"`
	Faults  []Fault `json:"faults"`
	// Restorable reports whether a restore to the newest state is possible. Lines are the times to which a restore is possible, without
	// the restores that the faults make impossible.
	Restorable bool   `json:"restorable"`
	Lines      []Line `json:"lines"`
}

// Fault is an object that is damaged or missing.
type Fault struct {
	Object string `json:"object"`
	Fault  string `json:"fault"`
}

// verifier is one check of an archive.
type verifier struct {
	*Archive
	Findings
	total   int64
	report  func(done, total int64)
	newest  uint64
	ends    map[uint64]stream.Position // the ends of the terms
	firsts  map[uint64]uint64          // the numbers of the first segments of the terms
	catalog Catalog
	broken  []Gap // the segments that are damaged or missing
}

// Verify reads the whole archive, compares each object with its hash, and compares the lists, terms
// and segments with each other. report gets the number of bytes that were read and of all bytes.
// The archive may be in use. An error means that the store did not answer.
func (a *Archive) Verify(ctx context.Context, report func(done, total int64)) (Findings, error) {
	v := &verifier{Archive: a, report: report, ends: map[uint64]stream.Position{}, firsts: map[uint64]uint64{}}
	v.Faults, v.Findings.Lines = []Fault{}, []Line{}
	for object, err := range a.store.List(ctx, "", "") {
		if err != nil {
			return v.Findings, err
		}
		v.total += object.Size
	}
	var err error
	v.catalog, err = a.catalog(ctx, func(name string, err error) error {
		v.fault(name, "%v", err)
		return nil
	})
	if err != nil {
		return v.Findings, err
	}
	v.Objects = len(v.catalog.Bases) + len(v.catalog.Terms) + len(v.catalog.marks)
	v.newest = v.catalog.newest().Number
	for _, term := range v.catalog.Terms {
		if err := v.term(ctx, term); err != nil {
			return v.Findings, err
		}
	}
	if err := v.files(ctx); err != nil {
		return v.Findings, err
	}
	return v.Findings, v.times(ctx)
}

// times finds the times to which a restore is possible in spite of the faults.
func (v *verifier) times(ctx context.Context) error {
	switch {
	case len(v.catalog.Terms) == 0 && len(v.catalog.Bases) == 0 && len(v.Faults) == 0:
		v.fault(termsPrefix, "missing: the archive is empty, so nothing can be restored from it: check its address")
	case len(v.catalog.Bases) == 0:
		v.fault(basesPrefix, "missing: the archive has no base, so nothing can be restored from it. A running fanfare up makes one")
	}
	sound := v.catalog
	sound.Bases = slices.DeleteFunc(slices.Clone(sound.Bases), v.faulty)
	if len(sound.Bases) == 0 || len(sound.Terms) == 0 {
		return nil
	}
	lines, err := v.lines(ctx, sound, v.broken)
	if err != nil {
		if _, away := damage(0, 0, err); away != nil {
			return err
		}
		v.fault(termName(v.newest), "no restore is certain: %v", err)
		return nil
	}
	v.Findings.Lines = lines
	if last := lines[len(lines)-1]; len(last.Ranges) > 0 {
		v.Restorable = len(last.Gaps) == 0 || last.Gaps[len(last.Gaps)-1].From.Before(last.Ranges[len(last.Ranges)-1].From)
	}
	return nil
}

// faulty reports whether a base cannot begin a restore.
func (v *verifier) faulty(b Base) bool {
	return slices.ContainsFunc(v.Faults, func(f Fault) bool {
		return f.Object == BaseName(b.Term, b.First) || slices.ContainsFunc(b.Files, func(file File) bool { return f.Object == FileName(file.SHA256) })
	})
}

// fault adds the first fault of an object.
func (v *verifier) fault(object, format string, args ...any) {
	if slices.ContainsFunc(v.Faults, func(f Fault) bool { return f.Object == object }) {
		return
	}
	v.Faults = append(v.Faults, Fault{object, fmt.Sprintf(format, args...)})
}

func (v *verifier) read(bytes int64) {
	v.Objects++
	v.Bytes += bytes
	v.report(v.Bytes, v.total)
}

// outcome is a checked object. Its err is the damage.
type outcome[T any] struct {
	value T
	bytes int64
	err   error
}

// damage returns err as damage, unless the store did not answer.
func damage[T any](value T, bytes int64, err error) (outcome[T], error) {
	if errors.Is(err, objects.ErrAway) || errors.Is(err, objects.ErrRefused) || errors.Is(err, context.Canceled) {
		return outcome[T]{}, err
	}
	return outcome[T]{value, bytes, err}, nil
}

// term checks the segments of a term.
func (v *verifier) term(ctx context.Context, term Term) error {
	prefix := segmentsPrefix(term.Number)
	object, err := v.first(ctx, prefix, "")
	if err != nil {
		return err
	}
	v.ends[term.Number], v.firsts[term.Number] = term.From.stream(), 1
	first, last := uint64(1), uint64(0)
	if object.Name != "" {
		if first, err = numberAt(object.Name, prefix, segmentDigits); err == nil {
			last, err = v.lastSegment(ctx, term.Number)
		}
		if err != nil {
			return err
		}
		v.ends[term.Number], v.firsts[term.Number] = stream.Position{}, first
	}
	check := segments{verifier: v, term: term, next: first, sure: first == 1, end: term.From.stream(), last: term.At}
	// Only compressed objects are read ahead, because the frames of one segment may take 32 MiB.
	get := func(ctx context.Context, n uint64) (outcome[[]byte], error) {
		object, err := objects.Read(ctx, v.store, segmentName(term.Number, n), maxSegmentBytes)
		return damage(object, int64(len(object)), err)
	}
	for o, err := range inOrder(ctx, first, last, get) {
		if err != nil {
			return err
		}
		if err := check.segment(ctx, o); err != nil {
			return err
		}
	}
	if !check.sealed && term.Number != v.newest {
		v.fault(segmentName(term.Number, last+1), "missing: term %x ended without a seal", term.Number)
	}
	for _, next := range v.catalog.Terms {
		if next.Parent.Term == term.Number && !v.ends[term.Number].Covers(next.Parent.stream()) {
			check.breaks(last+1, "missing: term %x continues behind it", next.Number)
		}
	}
	return nil
}

// segments checks the segments of a term in order.
type segments struct {
	*verifier
	term   Term
	next   uint64
	end    stream.Position
	sure   bool // end is the end of the previous segment
	sealed bool
	last   time.Time // the time of the last sound segment
}

// breaks notes that no restore passes over segment n.
func (c *segments) breaks(n uint64, format string, args ...any) {
	c.fault(segmentName(c.term.Number, n), format, args...)
	c.broken = append(c.broken, Gap{Term: c.term.Number, N: n, From: c.last})
}

func (c *segments) segment(ctx context.Context, o outcome[[]byte]) error {
	n := c.next
	name := segmentName(c.term.Number, n)
	c.next++
	if errors.Is(o.err, objects.ErrNotThere) {
		c.sure = false
		left, err := c.first(ctx, segmentsPrefix(c.term.Number), "")
		if err == nil && left.Name < name {
			c.breaks(n, "missing")
		} // else retention deleted the segment during the check
		return err
	}
	c.read(o.bytes)
	s, err := Segment{}, o.err
	if err == nil {
		s, err = c.codec.Decode(o.value, c.term.Number, n)
	}
	if err != nil {
		c.sure = false
		c.breaks(n, "%v", err)
		return nil
	}
	switch {
	case c.sealed:
		c.fault(name, "a segment after the seal of term %x", c.term.Number)
	case !s.Seal && s.Writer != c.term.Nonce:
		c.breaks(n, "it has another writer than term %x", c.term.Number)
	case c.sure && !s.Gap && s.Start != c.end:
		c.breaks(n, "it begins at %v, and the previous segment ends at %v", s.Start, c.end)
	case s.Gap:
		object, err := c.verifier.first(ctx, gapName(c.term.Number, n), "")
		if err != nil {
			return err
		}
		if object.Name == "" {
			c.fault(gapName(c.term.Number, n), "missing: the segment follows a gap")
		}
	}
	c.sure, c.end, c.sealed, c.last = true, s.End, c.sealed || s.Seal, s.Last
	c.ends[c.term.Number] = s.End
	return nil
}

// files checks the files, and that the archive has everything that the lists of the bases name.
func (v *verifier) files(ctx context.Context) error {
	var names []string
	sizes := map[string]int64{}
	for object, err := range v.store.List(ctx, filesPrefix, "") {
		if err != nil {
			return err
		}
		names = append(names, object.Name)
		sizes[object.Name] = object.Size
	}
	get := func(ctx context.Context, n uint64) (outcome[string], error) {
		sum, size, err := v.hash(ctx, names[n-1])
		return damage(sum, size, err)
	}
	n := 0
	for o, err := range inOrder(ctx, 1, uint64(len(names)), get) {
		if err != nil {
			return err
		}
		name := names[n]
		n++
		if errors.Is(o.err, objects.ErrNotThere) { // retention deleted the file during the check
			delete(sizes, name)
			continue
		}
		v.read(o.bytes)
		if o.err != nil {
			v.fault(name, "%v", o.err)
		} else if FileName(o.value) != name {
			v.fault(name, "damaged: its SHA-256 is %s; delete the object, and the next base sends the file again", o.value)
		}
	}
	for _, b := range v.catalog.Bases {
		if err := v.base(ctx, b, sizes); err != nil {
			return err
		}
	}
	return nil
}

// hash returns the SHA-256 of an object and its size.
func (v *verifier) hash(ctx context.Context, name string) (sum string, size int64, err error) {
	body, err := v.store.Get(ctx, name)
	if err != nil {
		return "", 0, err
	}
	defer body.Close()
	hash := sha256.New()
	size, err = io.Copy(hash, body)
	return hex.EncodeToString(hash.Sum(nil)), size, err
}

// base checks the files in the list of a base.
func (v *verifier) base(ctx context.Context, b Base, sizes map[string]int64) error {
	list := BaseName(b.Term, b.First)
	if object, err := v.first(ctx, list, ""); err != nil || object.Name == "" {
		return err // retention deleted the base during the check
	}
	for _, f := range b.Files {
		name := FileName(f.SHA256)
		if size, there := sizes[name]; !there {
			v.fault(name, "missing: %s names it as %s", list, f.Name)
		} else if size != f.Bytes {
			v.fault(name, "it has %d bytes, and %s names %d bytes", size, list, f.Bytes)
		}
	}
	switch first, known := v.firsts[b.Term]; {
	case !known:
		v.fault(termName(b.Term), "missing: %s needs it", list)
	case first > b.First:
		v.fault(segmentName(b.Term, b.First), "missing: %s needs the segments from here on", list)
	case !v.ends[b.Term].Covers(b.To.stream()):
		v.fault(list, "the archive ends at %v, before the end %v of the base", v.ends[b.Term], b.To)
	}
	return nil
}
