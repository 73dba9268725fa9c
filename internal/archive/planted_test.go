package archive_test

import (
	"flag"
	"testing"

	"fanfare/internal/planttest"
)

// planted makes the test build the package with each planted bug and run the bug's test, which takes a minute.
var planted = flag.Bool("planted", false, "find each planted bug, and do not only look whether it still fits")

func TestEveryPlantedBugIsFound(t *testing.T) {
	t.Parallel()
	const (
		fence, refusals, writer = "internal/archive/fence.go", "internal/archive/refusals.go", "internal/archive/writer.go"
		keeper, send, retention = "internal/archive/keeper.go", "internal/archive/send.go", "internal/archive/retention.go"
	)
	asHolder := planttest.Edit{File: retention, Old: "		if next.Name != \"\" {", New: "		if next.Name != \"\" && false {"}
	for name, bug := range map[string]struct {
		edit       planttest.Edit
		test, want string
		also       []planttest.Edit
	}{
		"no seal": {
			planttest.Edit{File: fence, Old: "		if err == nil && newest.Number > 0 {\n", New: "		if err == nil && newest.Number > 0 && false {\n"},
			"TestTheFenceOverAnUnreliableStore", "has no seal", nil,
		},
		"the term before the seal": {
			planttest.Edit{File: fence, Old: "			term, err = a.sealFor(ctx, newest, at, start)\n", New: "			defer a.sealFor(ctx, newest, at, start)\n"},
			"TestTheFenceOverAnUnreliableStore", "Error", nil,
		},
		"a seal gives way to a segment": {
			planttest.Edit{File: fence, Old: "		at = edge{n, there.End, there.Last, there.Seal}", New: "		at = edge{n, there.End, there.Last, true}"},
			"TestASealGoesBehindTheLastSegment", "Error", nil,
		},
		"the seal before the right to it": {
			planttest.Edit{File: fence, Old: "		if err := a.mayFollow(ctx, start, newest); err != nil {", New: "		if at, err := a.end(ctx, newest); err == nil && newest.Number > 0 {\n			_, _ = a.seal(ctx, newest, at, func(edge) error { return nil })\n		}\n		if err := a.mayFollow(ctx, start, newest); err != nil {"},
			"TestADirectoryThatMayNotTakeTheArchiveEndsNobody", "was sealed", nil,
		},
		"an old copy writes": {
			planttest.Edit{File: fence, Old: "own && !start.At.Covers(end)", New: "own && !start.At.Covers(end) && false"},
			"TestAnOldCopyIsRefused", "another copy", nil,
		},
		"a directory without its stores is no old copy": {
			planttest.Edit{File: fence, Old: "own && !start.At.Covers(end)", New: "own && !start.At.Covers(end) && start.At != (stream.Position{})"},
			"TestAnOldCopyIsRefused", "another copy", nil,
		},
		"an old copy is refused after the seal": {
			planttest.Edit{File: fence, Old: "			return Term{}, start.old(at)\n", New: "			_, _ = a.seal(ctx, newest, at, func(edge) error { return nil })\n			return Term{}, start.old(at)\n"},
			"TestARefusedOldCopyEndsNobody", "was sealed", nil,
		},
		"a copy that has become old writes the seal": {
			planttest.Edit{File: fence, Old: "		term, err = a.next(ctx, newest, there, start)\n		return err\n", New: "		term, err = a.next(ctx, newest, at, start)\n		return err\n"},
			"TestACopyThatBecomesOldDuringItsStartEndsNobody", "Error", nil,
		},
		"the term of another copy is a late request": {
			planttest.Edit{File: fence, Old: "taken.Term.Node == start.Node && start.Asked(taken.Term.Nonce)", New: "taken.Term.Node == start.Node"},
			"TestTheTermOfAnotherCopyIsNoLateRequest", "Should be true", nil,
		},
		"a copy does not know its own terms": {
			planttest.Edit{File: fence, Old: "	case !s.wrote(newest):", New: "	case !s.wrote(newest) && false:"},
			"TestADirectoryThatMayNotTakeTheArchiveEndsNobody", "another copy", nil,
		},
		"a copy continues the term of another copy": {
			planttest.Edit{File: fence, Old: "return term.Node == s.Node && s.Asked(term.Nonce) }", New: "return term.Node == s.Node }"},
			"TestTheFenceOverAnUnreliableStore", "is of another copy", nil,
		},
		"a copy of the files takes the archive": {
			planttest.Edit{File: refusals, Old: "	case s.Likeness == datadir.Copied:\n", New: "	case s.Likeness == datadir.Copied && false:\n"},
			"TestACopyOfTheFilesIsRefused", "is a copy", nil,
		},
		"a cloned disk does not wait": {
			planttest.Edit{File: refusals, Old: "s.Likeness == datadir.Original || at.sealed", New: "s.Likeness != datadir.Copied || at.sealed"},
			"TestAClonedDiskWaitsForTheArchive", "Should be true", nil,
		},
		"a cloned disk passes over a living writer": {
			planttest.Edit{File: refusals, Old: "	case *s.Seen != seen:", New: "	case *s.Seen != seen && false:"},
			"TestAClonedDiskWaitsForTheArchive", "Error", nil,
		},
		"a take ends another term than the shown one": {
			planttest.Edit{File: fence, Old: "	case s.Anyway && s.Over != nil && newest", New: "	case false && s.Over != nil && newest"},
			"TestATakeEndsOnlyTheTermThatWasShown", "Error", nil,
		},
		"an old primary takes the archive back": {
			planttest.Edit{File: "internal/archive/term.go", Old: "p.knows(writer) && p.Term >= writer.Term", New: "p.knows(writer)"},
			"TestAPromotedStandbyTakesTheArchive", "Expected error with", nil,
		},
		"a succession hides its gap": {
			planttest.Edit{File: fence, Old: "s.Disk == newest.Pair.Disk && end.Covers(s.Followed.stream())", New: "s.Disk == newest.Pair.Disk"},
			"TestASuccessionWithoutAGap", "Error", nil,
		},
		"a late request of an earlier start is somebody else": {
			planttest.Edit{File: fence, Old: "ok && taken.Term.Node == start.Node &&", New: "ok && false &&"},
			"TestALateRequestOfAnEarlierStart", "must not start", nil,
		},
		"a writer passes a seal": {
			planttest.Edit{File: writer, Old: "		return w.fenced(ctx)\n", New: "		err = nil\n"},
			"TestTheOldWriterIsFenced", "Should be true", nil,
		},
		"a writer leaves a hole": {
			planttest.Edit{File: writer, Old: "s.Start != w.end && !s.Gap", New: "s.Start != w.end && !s.Gap && false"},
			"TestAWriterRefusesAHole", "An error is expected", nil,
		},
		"an own object looks foreign": {
			planttest.Edit{File: "internal/objects/objects.go", Old: "	if found.SHA256 == body.SHA256 {\n", New: "	if found.SHA256 == body.SHA256 && false {\n"},
			"TestTheFenceOverAnUnreliableStore", "Error", nil,
		},
		"an object is replaced": {
			planttest.Edit{File: "internal/objects/directory.go", Old: "d.fs.Link(draft, d.path(name))", New: "d.fs.Rename(draft, d.path(name))"},
			"TestTheOldWriterIsFenced", "Should be true", nil,
		},
		"bytes go before they are archived": {
			planttest.Edit{File: "internal/archive/archiver.go", Old: "	a.since.Store(part.First.UnixNano())\n", New: "	a.since.Store(part.First.UnixNano())\n	a.stream.Archived(part.End)\n"},
			"TestAnArchiveThatIsAwayCatchesUp", "Not equal", nil,
		},
		"damage is restored": {
			planttest.Edit{File: "internal/archive/segment.go", Old: "!bytes.Equal(sum, want[:])", New: "!bytes.Equal(sum, want[:]) && false"},
			"TestDamagedSegmentsAreNamed", "Error", nil,
		},
		"a file is named and not sent": {
			edit: planttest.Edit{File: send, Old: "ok && size == f.Bytes {\n		return f, 0, nil", New: "ok && size == f.Bytes || name == \"dev-secret\" {\n		return f, 0, nil"},
			test: "TestTheFirstStartMakesABase", want: "missing",
			also: []planttest.Edit{{File: keeper, Old: "!ok || size != f.Bytes", New: "(!ok || size != f.Bytes) && false"}},
		},
		"a list names a file that is gone": {
			edit: planttest.Edit{File: keeper, Old: "!ok || size != f.Bytes", New: "(!ok || size != f.Bytes) && false"},
			test: "TestAFileThatIsGoneIsSentAgain", want: "Should be empty",
		},
		"a list is written before the stream": {
			edit: planttest.Edit{File: keeper, Old: "r.Next > sent.Next+1 && r.End.Covers(b.To.stream())", New: "sent.Next > 0"},
			test: "TestTheFirstStartMakesABase", want: "Should be empty",
		},
		"a base of a fenced term gets its list": {
			edit: planttest.Edit{File: keeper, Old: "r.Next > sent.Next+1 && ", New: "sent.Next > 0 && "},
			test: "TestAFenceDuringABaseLeavesNoList", want: "should have 1 item",
		},
		"a base begins at a later segment": {
			edit: planttest.Edit{File: keeper, Old: "First: before.Next,", New: "First: before.Next + 1,"},
			test: "TestBasesAndRetentionInAStorm", want: "are missing",
		},
		"a base passes over a gap": {
			edit: planttest.Edit{File: keeper, Old: "r.Gap >= b.First {", New: "r.Gap >= b.First && false {"},
			test: "TestAGapDuringABase", want: "should have 1 item",
		},
		"no base follows a gap": {
			edit: planttest.Edit{File: keeper, Old: "b.First <= r.Gap)", New: "b.First <= r.Gap && false)"},
			test: "TestABaseAfterAGap", want: "should have 2 item",
		},
		"a gap has no mark": {
			edit: planttest.Edit{File: writer, Old: "	if w.gap {", New: "	if w.gap && false {"},
			test: "TestABaseAfterAGap", want: "should have 1 item",
		},
		"a file that a list names is deleted": {
			edit: planttest.Edit{File: retention, Old: "!named[fileHash(object.Name)] && ", New: ""},
			test: "TestRetentionLeavesWhatTheKeptTimeNeeds", want: "missing",
		},
		"a file of a new base is deleted": {
			edit: planttest.Edit{File: retention, Old: "now.Sub(object.At) > unlisted", New: "now.Sub(object.At) > unlisted/24"},
			test: "TestAFileWithoutAListStaysForADay", want: "does not contain",
		},
		"a segment of a kept base is deleted": {
			edit: planttest.Edit{File: retention, Old: "			return b.First\n", New: "			return b.First + 1\n"},
			test: "TestRetentionLeavesWhatTheKeptTimeNeeds", want: "Error",
		},
		"the base of a branch counts": {
			edit: planttest.Edit{File: "internal/archive/catalog.go", Old: "b.Term == term && chain.Has(b)", New: "b.Term == term"},
			test: "TestABranchKeepsTheBaseOfItsOwn", want: "should have 3 item",
		},
		"retention keeps less": {
			edit: planttest.Edit{File: retention, Old: "now.Add(-k.Keep)", New: "now.Add(-k.Keep/2)"},
			test: "TestBasesAndRetentionInAStorm", want: "reaches back",
		},
		"a term that began in the kept time begins with its own base": {
			edit: planttest.Edit{File: retention, Old: "			until = began\n", New: "			until = began.Add(time.Hour)\n"},
			test: "TestBasesAndRetentionInAStorm", want: "reaches back",
		},
		"segments are deleted before the lists": {
			edit: planttest.Edit{
				File: retention, Old: "	for _, b := range c.Bases {\n",
				New: "	for _, term := range c.Terms {\n		err = errors.Join(err, r.segments(ctx, term.Number, cut[term.Number]))\n	}\n	for _, b := range c.Bases {\n",
			},
			test: "TestACrashDuringTheRetention", want: "missing",
		},
		"the seal of an old term is deleted": {
			edit: planttest.Edit{File: retention, Old: "	r.swept[term] = cut\n", New: "	if cut > maxSegment {\n		_ = r.delete(ctx, held)\n	}\n	r.swept[term] = cut\n"},
			test: "TestTheLastObjectOfATermStays", want: "should have 1 item",
		},
		"an old holder deletes": {
			edit: planttest.Edit{File: retention, Old: "newest.Nonce != k.term.Nonce", New: "newest.Nonce != k.term.Nonce && false"},
			test: "TestOnlyTheHolderOfTheNewestTermDeletes", want: "Error", also: []planttest.Edit{asHolder},
		},
		"a holder does not look again": {asHolder, "TestAHolderStopsToDeleteAfterAFence", "Error", nil},
		"a check of the archive passes over damage": {
			edit: planttest.Edit{File: "internal/archive/verify.go", Old: "FileName(o.value) != name", New: "FileName(o.value) != name && false"},
			test: "TestVerifyNamesDamagedAndMissingObjects", want: "Error",
		},
	} {
		t.Run(name, func(t *testing.T) {
			overlay := planttest.Overlay(t, planttest.Root(t), append(bug.also, bug.edit))
			if *planted {
				planttest.MustFail(t, planttest.Build(t, overlay), bug.test, bug.want, 1)
			}
		})
	}
}
