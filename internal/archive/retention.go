package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
)

const (
	// calm is the age of a term from which its holder deletes. Until then, the former holder has
	// written the list of a base whose files were complete before the seal.
	calm = time.Hour
	// unlisted is the age from which a file without a list belongs to a base that failed.
	unlisted = 24 * time.Hour
	// mostDeleted is the maximum number of objects that one run deletes, so that a base does not
	// wait. A day has 86,400 segments, and 24 runs.
	mostDeleted = 10_000
)

// errNotHolder means that another process may delete.
var errNotHolder = errors.New("this process does not hold the newest term of the archive, so it deletes nothing")

// errEnough ends a run that deleted mostDeleted objects.
var errEnough = errors.New("enough objects were deleted")

// cutoffs returns for each term the first segment that a restore to a time from since on needs, and
// a number above all segments for a term that no such restore needs. So a base is needed if its
// first segment is not below the cutoff.
//
// A restore follows a term and its ancestors. For each term whose time reaches into the kept time,
// the newest base before the kept time is needed, or the newest base before the term if the term
// began later, and all that follows on the path.
func (c Catalog) cutoffs(since time.Time) map[uint64]uint64 {
	cut := map[uint64]uint64{}
	for _, term := range c.Terms {
		cut[term.Number] = maxSegment + 1
	}
	for i, term := range c.Terms {
		if i+1 < len(c.Terms) && c.created[termName(c.Terms[i+1].Number)].Before(since) {
			continue // the term ended before the kept time
		}
		until := since // the base has to be older
		if began := c.created[termName(term.Number)]; began.After(since) {
			until = began
		}
		chain := c.chain(term.Number)
		for _, link := range slices.Backward(chain) {
			first := c.firstNeeded(chain, link.Number, until)
			cut[link.Number] = min(cut[link.Number], max(first, 1))
			if first > 0 {
				break
			}
		}
	}
	return cut
}

// firstNeeded returns the first segment of the newest base of a term of a chain that existed at a
// time, 0 if there is none. Times are of the store's clock.
func (c Catalog) firstNeeded(chain Chain, term uint64, until time.Time) uint64 {
	for _, b := range c.bases(chain, term) {
		if !c.created[BaseName(b.Term, b.First)].After(until) {
			return b.First
		}
	}
	return 0
}

// Retain deletes the bases, segments and files that no restore to a time within Keep needs (A7).
// The lists go first, because they name segments and files: after a crash no list names anything
// that is gone.
func (k *Keeper) Retain(ctx context.Context) error {
	c, err := k.archive.Catalog(ctx)
	if err != nil {
		return err
	}
	newest := c.newest()
	if newest.Nonce != k.term.Nonce {
		return fmt.Errorf("%w: %s has term %x", errNotHolder, newest.Node, newest.Number)
	}
	now, err := k.storeTime(ctx)
	if err != nil || now.Sub(c.created[termName(newest.Number)]) < calm {
		return err
	}
	r := sweep{k, 0}
	cut := c.cutoffs(now.Add(-k.Keep))
	named := map[string]bool{}
	for _, b := range c.Bases {
		if b.First < cut[b.Term] {
			err = errors.Join(err, r.delete(ctx, BaseName(b.Term, b.First)))
			continue
		}
		for _, f := range b.Files {
			named[f.SHA256] = true
		}
	}
	if err == nil {
		err = r.rest(ctx, c, cut, named, now)
	}
	if r.deleted > 0 {
		k.Log.Info("deleted objects of the archive that no restore needs", zap.Int("objects", r.deleted), zap.Error(err))
	}
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// storeTime returns the time of the newest segment by the clock of the store, so it is at most the
// present time of that clock.
func (k *Keeper) storeTime(ctx context.Context) (time.Time, error) {
	r, _ := k.archiver.Reached()
	object, err := k.archive.first(ctx, segmentName(k.term.Number, r.Next-1), "")
	return object.At, err
}

// sweep is one run of the retention.
type sweep struct {
	*Keeper
	deleted int
}

// rest deletes segments, marks and files, once the lists that need them are gone.
func (r *sweep) rest(ctx context.Context, c Catalog, cut map[uint64]uint64, named map[string]bool, now time.Time) error {
	for _, term := range c.Terms {
		if err := r.segments(ctx, term.Number, cut[term.Number]); err != nil {
			return err
		}
	}
	for _, m := range c.marks {
		if m.n < cut[m.term] {
			if err := r.delete(ctx, gapName(m.term, m.n)); err != nil {
				return err
			}
		}
	}
	for object, err := range r.archive.store.List(ctx, filesPrefix, "") {
		if err != nil {
			return err
		}
		if !named[fileHash(object.Name)] && now.Sub(object.At) > unlisted {
			if err := r.delete(ctx, object.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// segments deletes the segments of a term below a cutoff, but never the last object of the term:
// the next seal takes the name after it, and the seal stops a writer that awakes late.
func (r *sweep) segments(ctx context.Context, term, cut uint64) error {
	if r.swept[term] >= cut {
		return nil
	}
	prefix, held := segmentsPrefix(term), ""
	for object, err := range r.archive.store.List(ctx, prefix, "") {
		if err != nil {
			return err
		}
		if held != "" {
			if err := r.delete(ctx, held); err != nil {
				return err
			}
		}
		n, err := numberAt(object.Name, prefix, segmentDigits)
		if err != nil {
			return err
		}
		if held = object.Name; n >= cut {
			break
		}
	}
	r.swept[term] = cut
	return nil
}

// delete deletes an object if this process still holds the newest term.
func (r *sweep) delete(ctx context.Context, name string) error {
	if r.deleted == mostDeleted {
		return errEnough
	}
	if r.deleted%100 == 0 {
		next, err := r.archive.first(ctx, termsPrefix, strings.TrimSuffix(termDir(r.term.Number), "/")+"~")
		if err != nil {
			return err
		}
		if next.Name != "" {
			return fmt.Errorf("%w: there is %s", errNotHolder, next.Name)
		}
	}
	r.deleted++
	return r.archive.store.Delete(ctx, name)
}
