package disk_test

import (
	"flag"
	"testing"

	"fanfare/internal/planttest"
)

// planted makes the test build the package with each planted bug and run the bug's test.
var planted = flag.Bool("planted", false, "find each planted bug, and do not only look whether it still fits")

func TestEveryPlantedBugIsFound(t *testing.T) {
	t.Parallel()
	const keeper, needs, files = "internal/disk/keeper.go", "internal/disk/needs.go", "internal/disk/files.go"
	for name, bug := range map[string]struct {
		edit planttest.Edit
		test string
	}{
		"a store without a list is a new one": {
			planttest.Edit{File: keeper, Old: "	if isNew {\n", New: "	if isNew || errors.Is(err, fs.ErrNotExist) {\n"}, "TestAnAbsentStoreIsNoNewOne",
		},
		"the bytes of a manifest are not compared": {
			planttest.Edit{File: needs, Old: "	if current == n.Manifest.Name {\n", New: "	if false {\n"}, "TestADamagedManifestIsNamed",
		},
		"a log is given up without the list": {
			planttest.Edit{File: keeper, Old: "	return k.write()\n}\n\n// write writes", New: "	return nil\n}\n\n// write writes"}, "TestAStoreStartsWheneverItWasKilled",
		},
		"a log that only the tap needs is not in the list": {
			planttest.Edit{File: "internal/disk/tap.go", Old: "	l.mu.Lock()\n	defer l.mu.Unlock()\n	l.unused = append(l.unused, name)\n", New: "	l.mu.Lock()\n	defer l.mu.Unlock()\n	l.unused = append(l.unused, name)\n	_ = l.FS.(*keeper).giveUp(name)\n"}, "TestALogThatOnlyTheTapNeedsIsCompared",
		},
		"the end of the newest log is not looked at": {
			planttest.Edit{File: keeper, Old: "	for at := (end/block + 1) * block; at < info.Size(); at += block {\n", New: "	for at := info.Size(); at < info.Size(); at += block {\n"}, "TestAFalseEndOfALogIsNamed",
		},
		"a file is renamed without a sync of the file": {
			planttest.Edit{File: files, Old: "		err = f.Sync()\n", New: "		err = nil\n"}, "TestAWrittenFileOutlivesAPowerCut",
		},
		"a file is renamed without a sync of the directory": {
			planttest.Edit{File: files, Old: "	return errors.Join(d.Sync(), d.Close())\n", New: "	return d.Close()\n"}, "TestAWrittenFileOutlivesAPowerCut",
		},
	} {
		t.Run(name, func(t *testing.T) {
			overlay := planttest.Overlay(t, planttest.Root(t), []planttest.Edit{bug.edit})
			if *planted {
				planttest.MustFail(t, planttest.Build(t, overlay), bug.test, "", 1)
			}
		})
	}
}
