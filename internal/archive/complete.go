package archive

import (
	"context"
	"crypto/rand"

	"fanfare/internal/stream"
)

// Complete gives a machine that has taken the place of a primary a term for the part of that primary's stream which the
// machine has as its standby, and the archive lacks. The term belongs to the directory of that primary, because the part has
// its positions. ok is false if nothing is to be written: the archive has the stream up to s.Followed, or it ends in the
// logs of another disk.
func (a *Archive) Complete(ctx context.Context, s Start) (term Term, ok bool, err error) {
	if s.Disk == "" {
		return Term{}, false, nil
	}
	newest, err := a.Newest(ctx)
	if err != nil || newest.Pair == nil || newest.Pair.Disk != s.Disk || !s.Pair.reigns(newest.Pair) {
		return Term{}, false, err
	}
	if err := a.mayFollow(ctx, s, newest); err != nil { // Take follows, and would refuse behind the seal
		return Term{}, false, err
	}
	at, err := a.end(ctx, newest)
	if err != nil {
		return Term{}, false, err
	}
	rest := Start{
		Lineage: newest.Lineage, Node: newest.Node, Version: s.Version, DataFormat: newest.DataFormat, Pair: &Pair{s.Pair.Lineage, s.Pair.Term, s.Disk},
		Nonce: rand.Text(), Asked: func(string) bool { return true }, Anyway: true,
	}
	end, err := a.seal(ctx, newest, at, func(at edge) (err error) {
		rest.At = at.end
		term, err = a.next(ctx, newest, at, rest)
		return err
	})
	if err != nil || end.Covers(s.Followed.stream()) {
		return Term{}, false, err
	}
	err = a.create(ctx, term)
	return term, err == nil, err
}

// Sequel finds the frames that continue a stream at a position. The zero value is at the zero position.
type Sequel struct {
	At    stream.Position
	ended [stream.Table + 1]bool
}

// Take reports whether a frame continues the stream. continues is false for a frame that the stream has. missing
// is true if there are other frames between.
func (q *Sequel) Take(f stream.Frame) (continues, missing bool) {
	if f.Store == stream.None {
		return false, false
	}
	at, end := q.At.Of(f.Store), f.End()
	switch {
	case f.Log < at.Log, f.Log == at.Log && !at.Before(end) && (f.Kind == stream.Begins || f.Kind == stream.Bytes):
		return false, false
	case f.Log == at.Log && at.Offset < f.Offset, f.Log > at.Log && (f.Kind != stream.Begins || !q.ended[f.Store]):
		return false, true
	}
	q.ended[f.Store] = f.Kind == stream.Ends || f.Kind == stream.Cut
	q.At = q.At.After(f)
	return true, false
}
