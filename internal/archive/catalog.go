package archive

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"fanfare/internal/objects"
)

// Catalog has the small objects of an archive: the terms, the lists of the bases, and the marks of
// the gaps. It has no segments, because an archive has hundreds of thousands of segments.
type Catalog struct {
	// Terms are in the order of their numbers, Bases in the order of their names.
	Terms []Term
	Bases []Base

	marks   []mark
	created map[string]time.Time // the times of terms and bases, by the clock of the store
}

// mark is the mark of a segment behind a gap.
type mark struct{ term, n uint64 }

// Catalog reads the catalog.
func (a *Archive) Catalog(ctx context.Context) (Catalog, error) {
	return a.catalog(ctx, func(_ string, err error) error { return err })
}

// catalog reads the catalog, and calls damaged for each object that cannot be read. If damaged
// returns nil, the catalog lacks the object.
//
// The bases come before the marks: a base behind a gap that appears in between must not hide the gap.
// The terms come last, so that they include the term of each base.
func (a *Archive) catalog(ctx context.Context, damaged func(name string, err error) error) (Catalog, error) {
	c := Catalog{created: map[string]time.Time{}}
	skip := func(name string, err error) error {
		switch {
		case err == nil || errors.Is(err, objects.ErrNotThere): // retention deleted the object
			return nil
		case errors.Is(err, objects.ErrAway) || errors.Is(err, objects.ErrRefused) || ctx.Err() != nil:
			return err
		}
		return damaged(name, err)
	}
	for object, err := range a.store.List(ctx, basesPrefix, "") {
		if err != nil {
			return c, err
		}
		b, err := a.base(ctx, object.Name)
		if err == nil {
			c.Bases = append(c.Bases, b)
			c.created[object.Name] = object.At
		}
		if err := skip(object.Name, err); err != nil {
			return c, err
		}
	}
	for object, err := range a.store.List(ctx, gapsPrefix, "") {
		if err != nil {
			return c, err
		}
		term, n, err := pairAt(object.Name, gapsPrefix)
		if err == nil {
			c.marks = append(c.marks, mark{term, n})
		}
		if err := skip(object.Name, err); err != nil {
			return c, err
		}
	}
	return c, a.listTerms(ctx, &c, skip)
}

// listTerms adds the terms. Two short lists for each term pass over the term's segments.
func (a *Archive) listTerms(ctx context.Context, c *Catalog, skip func(string, error) error) error {
	for after := termsPrefix; ; {
		first, err := a.first(ctx, termsPrefix, after)
		if err != nil || first.Name == "" {
			return err
		}
		number, err := numberAt(first.Name, termsPrefix, termDigits)
		if err != nil {
			return err
		}
		name := termName(number)
		object, err := a.first(ctx, name, "")
		if err != nil {
			return err
		}
		term, err := a.Term(ctx, number)
		if err == nil {
			c.Terms = append(c.Terms, term)
			c.created[name] = object.At
		}
		if err := skip(name, err); err != nil {
			return err
		}
		after = name
	}
}

// first returns the first object of a list, the zero Object if there is none.
func (a *Archive) first(ctx context.Context, prefix, after string) (objects.Object, error) {
	for object, err := range a.store.List(ctx, prefix, after) {
		return object, err
	}
	return objects.Object{}, nil
}

func (a *Archive) base(ctx context.Context, name string) (Base, error) {
	term, first, err := pairAt(name, basesPrefix)
	if err != nil {
		return Base{}, err
	}
	return a.Base(ctx, BaseID{term, first})
}

// chain returns the chain of a term, which is empty if the catalog lacks the term.
func (c Catalog) chain(number uint64) Chain {
	chain, err := newChain(number, 0, func(number uint64) (Term, error) {
		i, found := slices.BinarySearchFunc(c.Terms, number, func(t Term, n uint64) int { return cmp.Compare(t.Number, n) })
		if !found {
			return Term{}, objects.ErrNotThere
		}
		return c.Terms[i], nil
	})
	if err != nil {
		return nil
	}
	return chain
}

// bases returns the bases of a term with which a restore along a chain can begin, the newest first.
func (c Catalog) bases(chain Chain, term uint64) (bases []Base) {
	for _, b := range slices.Backward(c.Bases) {
		if b.Term == term && chain.Has(b) {
			bases = append(bases, b)
		}
	}
	return bases
}

// newest returns the newest term, the zero Term if there is none.
func (c Catalog) newest() Term {
	if len(c.Terms) == 0 {
		return Term{}
	}
	return c.Terms[len(c.Terms)-1]
}

// latest returns the newest base with which a restore to the present end of a term can begin, nil
// if there is none. A base before a gap does not count. The base of another directory does not count
// either: a directory begins with a base of its own.
func (c Catalog) latest(term Term) *Base {
	chain := c.chain(term.Number)
	for _, link := range slices.Backward(chain) {
		if link.Node != term.Node {
			return nil
		}
		var gap uint64
		for _, m := range c.marks {
			if m.term == link.Number {
				gap = m.n
			}
		}
		if bases := c.bases(chain, link.Number); len(bases) > 0 && bases[0].First > gap {
			return &bases[0]
		}
		if gap > 0 {
			return nil
		}
	}
	return nil
}

// fileHash returns the hash in the name of a file of a base.
func fileHash(name string) string { return strings.TrimPrefix(name, filesPrefix) }
