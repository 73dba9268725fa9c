package archiving_test

import (
	"flag"
	"testing"

	"fanfare/internal/planttest"
)

// planted makes the test build the package with each planted bug and run the bug's test.
var planted = flag.Bool("planted", false, "find each planted bug, and do not only look whether it still fits")

func TestEveryPlantedBugIsFound(t *testing.T) {
	t.Parallel()
	const archiving, complete = "internal/archiving/archiving.go", "internal/archiving/complete.go"
	for name, bug := range map[string]struct {
		edit       planttest.Edit
		test, want string
	}{
		"a segment ends inside what a start found in its logs": {
			planttest.Edit{File: complete, Old: "c.safe && at.After(c.segment.Last), len", New: "c.safe, len"},
			"TestARestoreMayEndInsideALongTail", "is not greater than",
		},
		"a process that stops does not seal": {
			planttest.Edit{File: archiving, Old: "	n, err := a.archive.Seal(ctx, *a.term)\n", New: "	n, err := uint64(0), error(nil)\n"},
			"TestTheOriginalStartsWithoutAQuestion", "a reboot",
		},
		"a cloned disk looks for its original only once": {
			planttest.Edit{File: archiving, Old: "time.Until(a.seenAt.Add(archive.Quiet(a.cfg.Every)))", New: "0"},
			"TestACopyEndsNobody", "Error",
		},
	} {
		t.Run(name, func(t *testing.T) {
			overlay := planttest.Overlay(t, planttest.Root(t), []planttest.Edit{bug.edit})
			if *planted {
				planttest.MustFail(t, planttest.Build(t, overlay), bug.test, bug.want, 1)
			}
		})
	}
}
