package pair

import (
	"fmt"

	"fanfare/internal/stream"
)

// reach is the place up to which frames have the stream without a hole. A standby confirms no other place: behind a hole it would confirm
// bytes that are nowhere on its disk.
type reach struct {
	at   stream.Position
	open [stream.Table + 1]bool // the log at the place has neither an end nor a cut
	free [stream.Table + 1]bool // the next frame may begin anywhere: the first file of a tail begins inside the stream
}

// take moves the reach by a frame. It returns an error for a frame with a hole before it. A log ends before the next one begins.
func (r *reach) take(f stream.Frame) error {
	if f.Store == stream.None {
		return nil
	}
	if r.free[f.Store] {
		r.free[f.Store], r.at = false, r.at.With(f.Store, stream.Place{})
	}
	at := r.at.Of(f.Store)
	begins := f.Log > at.Log && f.Kind == stream.Begins && !r.open[f.Store]
	follows := f.Log < at.Log || f.Log == at.Log && f.Offset <= at.Offset
	if at != (stream.Place{}) && !begins && !follows {
		return fmt.Errorf("%w: the stream of the %s has a hole from %v to %v", ErrDamaged, storeDir(f.Store), at, stream.Place{Log: f.Log, Offset: f.Offset})
	}
	after := r.at.After(f)
	switch {
	case f.Log >= at.Log && (f.Kind == stream.Ends || f.Kind == stream.Cut):
		r.open[f.Store] = false
	case after != r.at:
		r.open[f.Store] = true
	}
	r.at = after
	return nil
}
