package archive

import (
	"context"
	"errors"
	"fmt"

	"fanfare/internal/objects"
)

// Compare compares the end of an archive with what a directory knows about it: the newest term that it got, and the seal of that term if its
// process ended in order. Nothing in the archive itself shows that its last objects are missing.
func (a *Archive) Compare(ctx context.Context, state *State) (faults []Fault, err error) {
	if state == nil || state.Took == 0 {
		return nil, nil
	}
	term, err := a.Term(ctx, state.Took)
	if errors.Is(err, objects.ErrNotThere) {
		return []Fault{{termName(state.Took), "missing: the directory wrote it"}}, nil
	}
	if damage, away := damage(term, 0, err); away != nil || damage.err != nil {
		return nil, away // Verify names the damage
	}
	if term.Node != state.Node || state.End == 0 {
		return nil, nil
	}
	last, err := a.lastSegment(ctx, state.Took)
	if err == nil && last < state.End {
		faults = []Fault{{segmentName(state.Took, last+1), fmt.Sprintf("missing: the directory wrote up to segment %d of term %d", state.End, state.Took)}}
	}
	return faults, err
}
