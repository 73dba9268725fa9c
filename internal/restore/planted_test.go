package restore_test

import (
	"flag"
	"testing"

	"fanfare/internal/planttest"
)

// planted makes the test build the package with each planted bug and run the bug's test, which takes a minute.
var planted = flag.Bool("planted", false, "find each planted bug, and do not only look whether it still fits")

func TestEveryPlantedBugIsFound(t *testing.T) {
	t.Parallel()
	const afterTheTime = "a base that ends after the time"
	const plan, run, files = "internal/restore/plan.go", "internal/restore/restore.go", "internal/restore/files.go"
	also := map[string][]planttest.Edit{ // a second guard
		afterTheTime: {{File: plan, Old: " || i == to.link && !to.at.Covers(stream.Position(base.To)) {", New: " {"}},
	}
	for name, bug := range map[string]struct {
		edit       planttest.Edit
		test, want string
	}{
		"a parent is not cut": {
			planttest.Edit{File: run, Old: "if !link.Cut || frame.Store", New: "if !link.Cut || true || frame.Store"},
			"TestAParentIsCutWhereItsChildContinues", "Error",
		},
		afterTheTime: {
			planttest.Edit{File: plan, Old: "if i < to.link || to.at.Covers(ends.End) {", New: "if i < to.link || ends.N > 0 {"},
			"TestABaseThatEndsAfterTheTimeIsNotTaken", "Error",
		},
		"the list begins when the files of a base were copied": {
			planttest.Edit{File: "internal/archive/lines.go", Old: "				from = e.Last\n", New: "				from = b.MadeAt\n"},
			"TestTheListOfTimesBeginsWhereRestoresBegin", "the list begins at",
		},
		"a header alone decides": {
			planttest.Edit{File: "internal/archive/chain.go", Old: "	s, err := a.Segment(ctx, term, n)\n	return Entry{s.Header, len(s.Frames)}, err\n", New: "	return a.Entry(ctx, term, n)\n"},
			"TestADamagedHeaderIsNamedOrNotNeeded", "does not contain",
		},
		"a hole in a damaged header is taken for one": {
			planttest.Edit{File: plan, Old: "		if err == nil && !begins {", New: "		if false {"},
			"TestADamagedHeaderIsNamedOrNotNeeded", "does not contain",
		},
		"a frame after the time": {
			planttest.Edit{File: plan, Old: "			case frame.Time > limit:", New: "			case frame.Time > limit && false:"},
			"TestNoFrameAfterTheTimeIsApplied", "has later writes",
		},
		"a damaged file": {
			planttest.Edit{File: files, Old: "n != file.Bytes || hex.", New: "n != file.Bytes && hex."},
			"TestADamagedOrMissingObjectIsNamed", "Error",
		},
		"a gap is passed": {
			planttest.Edit{File: plan, Old: "	if behind.Gap { //", New: "	if behind.Gap && false { //"},
			"TestAGapIsRefused", "Should be true",
		},
		"a gap before the base's end is passed": {
			planttest.Edit{File: plan, Old: "			return f.gap(time, e)\n", New: "			_ = time\n"},
			"TestAGapIsRefused", "Should be true",
		},
		"the state of the source": {
			planttest.Edit{File: files, Old: "	case name == datadir.SecretFile:", New: "	case name == datadir.SecretFile || name == archive.StateFile:"},
			"TestABaseWithAFileOfTheSourceIsRefused", "archive.json",
		},
		"the node of the source": {
			planttest.Edit{File: run, Old: "	state.Followed = followed\n", New: "	state.Followed, state.Node = followed, lineage\n"},
			"TestARestoredDirectoryHasANodeOfItsOwn", "Should not be",
		},
		"a place that the copy does not have": {
			planttest.Edit{File: run, Old: "	state.Followed = followed\n", New: ""},
			"TestARestoredDirectoryHasANodeOfItsOwn", "Not equal",
		},
		"a part of what a crash left": {
			planttest.Edit{File: plan, Old: "		if last.Kind == stream.Safe {", New: "		if last.Kind == stream.Safe || true {"},
			"TestWhatACrashLeftIsOnePiece", "is ahead of the other one",
		},
		"the log numbers of another machine": {
			planttest.Edit{File: run, Old: "part.link.Node != r.plan.parts[i-1].link.Node {", New: "part.link.Node != r.plan.parts[i-1].link.Node && false {"},
			"TestAParentIsCutWhereItsChildContinues", "Error",
		},
		"a restore that leaves its last batches in memory": {
			planttest.Edit{File: run, Old: "		if err := db.Flush(); err != nil {", New: "		if err := error(nil); err != nil || db == nil {"},
			"TestARestoreHasTheWritesOfItsTime", "Error",
		},
		"a take without a question": {
			planttest.Edit{File: "internal/restore/take.go", Old: "	if err := confirm(t); err != nil {\n		return t, err\n	}\n", New: ""},
			"TestARestoredDirectoryHasANodeOfItsOwn", "Error",
		},
	} {
		t.Run(name, func(t *testing.T) {
			overlay := planttest.Overlay(t, planttest.Root(t), append(also[name], bug.edit))
			if *planted {
				planttest.MustFail(t, planttest.Build(t, overlay), bug.test, bug.want, 1)
			}
		})
	}
}
