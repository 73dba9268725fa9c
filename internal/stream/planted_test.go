package stream_test

import (
	"flag"
	"testing"

	"fanfare/internal/planttest"
)

// planted makes the test build the package with each planted bug and run the bug's test.
var planted = flag.Bool("planted", false, "find each planted bug, and do not only look whether it still fits")

func TestEveryPlantedBugIsFound(t *testing.T) {
	t.Parallel()
	const open, files = "internal/stream/open.go", "internal/stream/files.go"
	for name, bug := range map[string]struct {
		edit       planttest.Edit
		test, want string
	}{
		"a torn batch passes for whole": {
			planttest.Edit{File: open, Old: "	if n < begin || file.batches == 0 {", New: "	if n >= 0 {"},
			"TestABatchThatIsOnTheDiskOnlyInPartIsReadFromTheLogs", "Error",
		},
		"a hole in the spool passes for continuous": {
			planttest.Edit{File: open, Old: "			p.trim(p.next()) // frames between the two batches were dropped\n", New: ""},
			"TestASpoolWithAHoleBeginsBehindIt", "dropped frames",
		},
		"a file of an earlier process is written again": {
			planttest.Edit{File: files, Old: "		f.next = number + 1\n", New: "		f.next = number\n"},
			"TestABatchThatIsOnTheDiskOnlyInPartIsReadFromTheLogs", "Error",
		},
		"a file of a failed sync stays as it is": {
			planttest.Edit{File: files, Old: "	if f.torn {\n", New: "	if f.torn && f.FS == nil {\n"},
			"TestASpoolGoesOnAfterAFailedSync", "dropped frames",
		},
		"a removed file comes back": {
			planttest.Edit{File: files, Old: "			err = disk.SyncDir(f.FS, f.Dir) // else a power", New: "			err = nil // else a power"},
			"TestAPowerCutBringsNoFileBack", "Should be empty",
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
