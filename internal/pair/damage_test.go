package pair

import (
	"context"
	"flag"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/disk"
	"fanfare/internal/disk/disktest"
	"fanfare/internal/objects"
	"fanfare/internal/stream"
	"fanfare/internal/strictjson"
)

var updateDamage = flag.Bool("update-damage", false, "write the table of damage of a pair into docs/OUTAGES.md")

// tailOf returns a tail of four files in a directory. Each file has whole logs, so only the list shows that one is absent. early is called when
// the tail has two files.
func tailOf(t *testing.T, files vfs.FS, dir string, early func()) *tail {
	t.Helper()
	made, err := openTail(files, dir, 1)
	require.NoError(t, err)
	for n := range uint64(5) {
		require.NoError(t, made.append(wholeLog(n+1)...))
		_, err = made.sync()
		require.NoError(t, err)
		if n == 1 {
			early()
		}
		if n == 2 {
			require.NoError(t, made.trim(1))
		}
	}
	return made
}

// decided means that the machine may start, but serves only what the rules of the pair allow: the other machine or the register knows better.
const decided = "decided"

// pairFiles adds the role of a primary, the role of a standby, and a register.
func pairFiles(t *testing.T, clean vfs.FS) (kinds []disktest.Kind) {
	t.Helper()
	add := func(name string, now, older any, why string) {
		text, err := strictjson.MarshalSummed(now)
		require.NoError(t, err)
		before, err := strictjson.MarshalSummed(older)
		require.NoError(t, err)
		disktest.Write(t, clean, "data/"+name, text)
		kinds = append(kinds, disktest.Kind{Name: "`" + path.Base(name) + "`" + map[string]string{"a": " of a primary", "b": " of a standby"}[path.Dir(name)], File: "data/" + name, Older: before, Why: why})
	}
	require.NoError(t, clean.MkdirAll("data/a", 0o700))
	require.NoError(t, clean.MkdirAll("data/b/tail", 0o700))
	primary, standby := *someRole(), *someRole()
	primary.Role, primary.Format, standby.Format = RolePrimary, roleFormat, roleFormat
	alone, seeding := primary, standby
	alone.Mode, alone.Term, seeding.Mode = ModeAlone, primary.Term-1, ModeSeeding
	add("a/"+RoleFile, &primary, &alone, "a paired primary waits for its standby, and an older term loses")
	add("b/"+RoleFile, &standby, &seeding, "the primary knows the disk of its standby")
	entry := Entry{Format: registerFormat, Lineage: "L", Term: 2, Primary: "A", Mode: ModePaired, Standby: "B", Nonce: "N"}
	before := entry
	before.Term--
	add(RegisterFile, entry, before, "a machine of a later term refuses the register")
	return kinds
}

// checkRole returns what becomes of a start with a damaged role.
func checkRole(t *testing.T, damaged vfs.FS, dir, what string) string {
	t.Helper()
	copied := t.TempDir()
	if _, err := damaged.Stat(dir + "/" + TailDir); err == nil {
		require.NoError(t, os.Mkdir(filepath.Join(copied, TailDir), 0o700))
	}
	if text, err := disktest.Read(damaged, dir+"/"+RoleFile); err == nil {
		require.NoError(t, os.WriteFile(filepath.Join(copied, RoleFile), text, 0o600))
	}
	role, err := LoadRole(copied)
	if err != nil {
		assert.ErrorContains(t, err, RoleFile, what)
		return disktest.Named
	}
	assert.Truef(t, role == nil || role.Term < someRole().Term || role.Mode == ModeSeeding, "%s: a changed role is taken", what)
	return decided
}

// held is a store on condition with one content; nil for no object.
type held struct {
	objects.Conditional
	content []byte
}

func (h held) Fetch(context.Context, string, int64) ([]byte, objects.Version, error) {
	if h.content == nil {
		return nil, "", objects.ErrNotThere
	}
	return h.content, "1", nil
}

// checkRegister returns what becomes of a start with a damaged register.
func checkRegister(t *testing.T, damaged vfs.FS, what string) string {
	t.Helper()
	var store held
	if text, err := disktest.Read(damaged, "data/"+RegisterFile); err == nil {
		store.content = append([]byte{}, text...)
	}
	entry, _, err := StoreRegister(store, "").Read(t.Context())
	if err != nil { // ErrNoEntry becomes ErrRegisterGone, see TestARegisterThatHasLostItsEntryIsRefused
		assert.ErrorContains(t, err, "register", what)
		return disktest.Named
	}
	assert.EqualValuesf(t, 1, entry.Term, "%s: a changed entry is taken", what)
	return decided
}

// Whatever file of a pair is damaged, a machine does not start, or has each frame that it has confirmed, or the other machine decides. After
// kill -9 only the newest file of a tail may lack its end.
func TestEachDamageOfAPairIsNamedOrHarmless(t *testing.T) {
	t.Parallel()
	clean, early := vfs.NewMem(), vfs.NewMem()
	keep := func() {
		_, err := vfs.Clone(clean, early, "data", "data")
		require.NoError(t, err)
	}
	const killed, stopped = "data/killed/tail", "data/stopped/tail"
	tailOf(t, clean, killed, func() {})
	whole := tailOf(t, clean, stopped, keep)
	require.NoError(t, whole.finish())
	file := func(dir string, number uint64) string { return path.Join(dir, path.Base(whole.disk.Path(number))) }
	content := func(fs vfs.FS, name string) []byte { return read(t, fs, name) }
	const torn = "looks like a power cut"
	kinds := []disktest.Kind{
		{Name: "`tail/`: `NEEDS`", File: path.Join(stopped, tailNeeds), Older: content(early, path.Join(stopped, tailNeeds)), Why: "the files are there"},
		{Name: "`tail/`: oldest file", File: file(stopped, 1), Older: content(early, file(stopped, 0))},
		{Name: "`tail/`: file in the middle", File: file(stopped, 2), Older: content(clean, file(stopped, 1))},
		{Name: "`tail/`: newest file", File: file(stopped, 4), Older: content(clean, file(stopped, 3))},
		{Name: "`tail/`: newest file, after kill -9", File: file(killed, 4), Older: content(clean, file(killed, 3)), Why: torn},
	}
	kinds = append(kinds, pairFiles(t, clean)...)
	check := func(t *testing.T, damaged vfs.FS, what string) string {
		t.Helper()
		name, _, _ := strings.Cut(what, ",")
		switch path.Base(name) {
		case RoleFile:
			return checkRole(t, damaged, path.Dir(name), what)
		case RegisterFile:
			return checkRegister(t, damaged, what)
		}
		got, err := openTail(damaged, path.Dir(name), 1)
		if err != nil {
			assert.ErrorIs(t, err, ErrDamagedCopy, what)
			assert.ErrorContains(t, err, "tail", what)
			return disktest.Named
		}
		defer func() { require.NoError(t, got.disk.Close()) }()
		if assert.ObjectsAreEqual(framesIn(t, whole), framesIn(t, got)) {
			return disktest.Harmless
		}
		assert.Contains(t, what, file(killed, 4), "confirmed frames are missing in silence")
		return disktest.LastWrites
	}
	require.Equal(t, disktest.Harmless, check(t, clean, file(stopped, 1)+", no damage"))
	table, cells := disktest.DamageTable(t, clean, "data", kinds, check)
	t.Log(cells, "cells")
	disktest.Paste(t, "../../docs/OUTAGES.md", "damage of a pair", table, *updateDamage)
}

// A crash at any moment leaves a tail that opens, with a list that is true.
func TestTheListOfATailSurvivesACrash(t *testing.T) {
	t.Parallel()
	mem := vfs.NewCrashableMem()
	require.NoError(t, disk.MakeDir(mem, "data"))
	var confirmed stream.Position
	type image struct {
		mem       *vfs.MemFS
		confirmed stream.Position
	}
	var images []image
	files := disktest.New(mem)
	files.Set(func(string, string, int) error {
		images = append(images, image{mem.CrashClone(vfs.CrashCloneCfg{}), confirmed})
		return nil
	})
	for range 2 { // two processes
		tail, err := openTail(files, "data/tail", 1)
		require.NoError(t, err)
		for n := tail.disk.Next(); n < tail.disk.Next()+4; n++ {
			require.NoError(t, tail.append(wholeLog(n+1)...))
			confirmed, err = tail.sync()
			require.NoError(t, err)
			if n%2 == 1 {
				require.NoError(t, tail.trim(n-1))
			}
			if n > 6 {
				break
			}
		}
		require.NoError(t, tail.finish())
	}
	require.NotEmpty(t, images)
	for i, after := range images {
		got, err := openTail(after.mem, "data/tail", 1)
		require.NoError(t, err, "crash %d", i)
		require.True(t, got.end().Covers(after.confirmed), "crash %d", i)
		require.NoError(t, got.disk.Close())
	}
}

// A standby whose whole tail is gone has no place in the stream, so it is not promoted as one that has each answered write.
func TestAStandbyWithoutATailIsNotPromoted(t *testing.T) {
	t.Parallel()
	s, _ := openTestStandby(t, ModeFollowing)
	require.NoError(t, s.look(t.Context()))
	require.ErrorIs(t, s.mayPromote(false), ErrNotPaired)
	require.NoError(t, s.mayPromote(true))
	require.NoError(t, s.Close())
}
