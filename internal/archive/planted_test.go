package archive_test

import (
	"flag"
	"testing"

	"fanfare/internal/planttest"
)

// planted makes the test build the package with each planted bug and run the bug's test, which takes a minute.
var planted = flag.Bool("planted", false, "find each planted bug, and do not only look whether it still fits")

func TestEveryPlantedBugIsFound(t *testing.T) {
	const fence, writer = "internal/archive/fence.go", "internal/archive/writer.go"
	for name, bug := range map[string]struct {
		edit       planttest.Edit
		test, want string
	}{
		"no seal": {
			planttest.Edit{File: fence, Old: "		if newest.Number > 0 {\n", New: "		if newest.Number > 0 && false {\n"},
			"TestTheFenceOverAnUnreliableStore", "has no seal",
		},
		"the term before the seal": {
			planttest.Edit{
				File: fence, Old: "			if end, err = a.seal(ctx, newest); err != nil {\n				return Term{}, err\n			}\n",
				New: "			defer a.seal(ctx, newest)\n			last, err := a.lastSegment(ctx, newest.Number)\n			if err != nil {\n				return Term{}, err\n			}\n			if s, err := a.Segment(ctx, newest.Number, last); err == nil {\n				end = s.End\n			}\n",
			},
			"TestTheFenceOverAnUnreliableStore", "Error",
		},
		"a seal gives way to a segment": {
			planttest.Edit{File: fence, Old: "		if end = there.End; there.Seal {", New: "		if end = there.End; there.Seal || true {"},
			"TestASealGoesBehindTheLastSegment", "Error",
		},
		"the seal before the right to it": {
			planttest.Edit{File: fence, Old: "		if err := start.mayFollow(newest); err != nil {", New: "		if newest.Number > 0 {\n			_, _ = a.seal(ctx, newest)\n		}\n		if err := start.mayFollow(newest); err != nil {"},
			"TestADirectoryThatMayNotTakeTheArchiveEndsNobody", "was sealed",
		},
		"an old copy writes": {
			planttest.Edit{File: fence, Old: "newest.Node == start.Node && !start.At.Covers(end)", New: "newest.Node == start.Node && !start.At.Covers(end) && false"},
			"TestAnOldCopyIsRefused", "old copy",
		},
		"a copy forgets what it asked for": {
			planttest.Edit{File: fence, Old: "	case newest.Number > s.Asked:", New: "	case newest.Number > s.Asked && false:"},
			"TestADirectoryThatMayNotTakeTheArchiveEndsNobody", "old copy",
		},
		"a late request of an earlier start is somebody else": {
			planttest.Edit{File: fence, Old: "ok && taken.Term.Node == start.Node", New: "ok && taken.Term.Node == start.Node && false"},
			"TestALateRequestOfAnEarlierStart", "must not start",
		},
		"a writer passes a seal": {
			planttest.Edit{File: writer, Old: "		return w.fenced(ctx)\n", New: "		err = nil\n"},
			"TestTheOldWriterIsFenced", "Should be true",
		},
		"a writer leaves a hole": {
			planttest.Edit{File: writer, Old: "s.Start != w.end && !s.Gap", New: "s.Start != w.end && !s.Gap && false"},
			"TestAWriterRefusesAHole", "An error is expected",
		},
		"an own object looks foreign": {
			planttest.Edit{File: "internal/objects/objects.go", Old: "	if found.SHA256 == body.SHA256 {\n", New: "	if found.SHA256 == body.SHA256 && false {\n"},
			"TestTheFenceOverAnUnreliableStore", "Error",
		},
		"an object is replaced": {
			planttest.Edit{File: "internal/objects/directory.go", Old: "d.fs.Link(draft, d.path(name))", New: "d.fs.Rename(draft, d.path(name))"},
			"TestTheOldWriterIsFenced", "Should be true",
		},
		"bytes go before they are archived": {
			planttest.Edit{File: "internal/archive/archiver.go", Old: "	a.since.Store(part.First.UnixNano())\n", New: "	a.since.Store(part.First.UnixNano())\n	a.stream.Archived(part.End)\n"},
			"TestAnArchiveThatIsAwayCatchesUp", "Not equal",
		},
		"damage is restored": {
			planttest.Edit{File: "internal/archive/segment.go", Old: "!bytes.Equal(sum, want[:])", New: "!bytes.Equal(sum, want[:]) && false"},
			"TestDamagedSegmentsAreNamed", "Error",
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
