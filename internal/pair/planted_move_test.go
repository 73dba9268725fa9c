package pair_test

import "fanfare/internal/planttest"

// bugsOfMoves returns the bugs of a pair that moves to another register.
func bugsOfMoves() map[string]plantedBug {
	const (
		move, standby = "internal/pair/move.go", "internal/pair/standby.go"
		runs          = "TestAPairMovesWhileItRuns"
	)
	return map[string]plantedBug{
		"P23: a primary moves without its standby": {
			planttest.Edit{File: move, Old: "	if err := p.moveStandby(ctx, to); err != nil {\n		return err\n	}\n", New: ""},
			"TestAMoveIsRefused", "do not become a pair",
		},
		"P23: a standby that is back counts as moved": {
			planttest.Edit{File: "internal/pair/session.go", Old: "p.receiver, p.session, p.asks = s.receiver, s, \"\"", New: "p.receiver, p.session = s.receiver, s"},
			"TestAStandbyThatIsBackIsMoved", "do not become a pair",
		},
		"P23: the former entry does not end": {
			planttest.Edit{File: move, Old: "	if b.Former == nil {", New: "	if b.Former == nil || b.Role != nil {"},
			runs, "Not equal",
		},
		"P23: the move of a primary is not stored": {
			planttest.Edit{File: move, Old: "	role.Move = &Move{From: to.Configured, To: to.Address, Pending: true, Leaves: to.Leaves}\n", New: ""},
			runs, "FAIL",
		},
		"P23: a move that was cut off is over": {
			planttest.Edit{File: move, Old: "r.Move != nil && r.Move.Pending && r.Move.To", New: "r.Move != nil && r.Move.To"},
			"TestARegisterThatIsLostAfterAMove", "FAIL",
		},
		"P23: a standby that moves takes over by the former register": {
			planttest.Edit{File: standby, Old: "	case s.moves:\n		return ErrMoves\n", New: ""},
			"TestAStandbyThatMovesIsNotPromoted", "but got nil",
		},
	}
}
