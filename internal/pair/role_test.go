package pair

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/datadir"
	"fanfare/internal/disk"
	"fanfare/internal/strictjson"
)

var update = flag.Bool("update", false, "write the golden file of the role")

const goldenRole = "testdata/role1.json"

func someRole() *Role {
	return &Role{Lineage: "LINEAGE", Disk: "DISK", Role: RoleStandby, Mode: ModeFollowing, Term: 7, Peer: "OTHER", Claimed: 9, Accepted: 4, GivesUp: true, Lease: 3000, Since: 5, here: &datadir.Print{Born: 1, Inode: 2, Device: 3, Boot: "BOOT"}}
}

// A release reads the entries that an earlier release wrote.
func TestTheRegistersEntryKeepsItsFormat(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/register1.json")
	require.NoError(t, err)
	e, err := decodeEntry(text)
	require.NoError(t, err)
	assert.Equal(t, Entry{Format: 1, Lineage: "LINEAGE", Term: 7, Primary: "DISK", Mode: ModePaired, Standby: "OTHER", Lease: 3000, Since: 1764180000000, Nonce: "NONCE"}, e)
	back, err := strictjson.MarshalSummed(e)
	require.NoError(t, err)
	assert.Equal(t, string(text), string(back))
	_, err = decodeEntry([]byte(strings.Replace(string(text), `"format":1`, `"format":2`, 1)))
	require.ErrorContains(t, err, "format")
}

func TestADirectoryKeepsItsRole(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	none, err := LoadRole(dir)
	require.NoError(t, err)
	assert.Nil(t, none)

	for _, role := range []string{RolePrimary, RoleStandby} {
		r := NewRole(dir, role)
		require.NoError(t, r.Save())
		back, err := LoadRole(dir)
		require.NoError(t, err)
		assert.NotEqual(t, r.process, back.process)
		back.process = r.process
		assert.Equal(t, r, back)
		assert.NotEqual(t, r.Disk, NewRole(dir, role).Disk)
	}
	r := NewRole(dir, RolePrimary)
	r.Mode, r.Peer, r.Term = ModePaired, "other", 9
	require.NoError(t, r.Save())
	back, err := LoadRole(dir)
	require.NoError(t, err)
	back.process = r.process
	assert.Equal(t, r, back)
	assert.EqualValues(t, 9, back.Term)
}

// A replaced primary may have writes that the other machine lacks, so nobody may take its disk for a copy.
func TestAReplacedPrimaryBecomesAStandbyWithoutData(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := NewRole(dir, RolePrimary)
	r.Mode, r.Peer = ModePaired, "other"
	former := *r
	require.NoError(t, r.Demote())
	back, err := LoadRole(dir)
	require.NoError(t, err)
	back.process = r.process
	assert.Equal(t, r, back)
	assert.Equal(t, RoleStandby, back.Role)
	assert.Equal(t, ModeSeeding, back.Mode)
	assert.NotEqual(t, former.Disk, back.Disk)
	assert.Equal(t, former.Term, back.Term, "it follows no older primary")
}

func TestOnlyAPrimaryIsUnpaired(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := NewRole(dir, RoleStandby)
	require.NoError(t, r.Save())
	register := &entries{version: 1, entry: Entry{Lineage: "L", Term: 1, Primary: "A", Mode: ModeAlone}}
	require.ErrorContains(t, Unpair(t.Context(), r, register), "fanfare promote")
	r = NewRole(dir, RolePrimary)
	r.Mode, r.Peer = ModePaired, "other"
	require.NoError(t, r.Save())
	require.ErrorContains(t, Alone(dir), "is of a pair")
	r.Mode, r.Claimed = ModeAlone, 2 // the register has let it be alone
	require.NoError(t, r.Save())
	require.ErrorContains(t, Alone(dir), "is of a pair")
	register.entry = Entry{Lineage: r.Lineage, Term: 1, Primary: r.Disk, Mode: ModePaired, Standby: "other"}
	require.NoError(t, Unpair(t.Context(), r, register))
	assert.Equal(t, []string{ModeEnded, ""}, []string{register.entry.Mode, register.entry.Standby})
	require.NoError(t, Alone(dir))
	back, err := LoadRole(dir)
	require.NoError(t, err)
	assert.Equal(t, ModeAlone, back.Mode)
	assert.Empty(t, back.Peer, "the former standby is not continued")
}

func TestTheFormatOfARoleIsPinned(t *testing.T) {
	t.Parallel()
	r := someRole()
	r.path = filepath.Join(t.TempDir(), RoleFile)
	require.NoError(t, r.Save())
	text, err := os.ReadFile(r.path)
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(goldenRole, text, 0o600))
	}
	want, err := os.ReadFile(goldenRole)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(text))
	back, err := decodeRole(want)
	require.NoError(t, err)
	back.path, back.here = r.path, r.here
	assert.Equal(t, r, back)
}

// A role that was guessed could make a second primary.
func TestARoleThatNoVersionWroteIsRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Role){
		"no disk":                 func(r *Role) { r.Disk = "" },
		"its own peer":            func(r *Role) { r.Peer = r.Disk },
		"unknown role":            func(r *Role) { r.Role = "witness" },
		"standby alone":           func(r *Role) { r.Mode = ModeAlone },
		"standby paired":          func(r *Role) { r.Mode = ModePaired },
		"standby without primary": func(r *Role) { r.Peer = "" },
		"no lineage":              func(r *Role) { r.Lineage = "" },
		"no term":                 func(r *Role) { r.Term = 0 },
		"primary that is seeded":  func(r *Role) { r.Role, r.Mode = RolePrimary, ModeSeeding },
		"paired without standby":  func(r *Role) { r.Role, r.Mode, r.Peer = RolePrimary, ModePaired, "" },
	} {
		r := someRole()
		change(r)
		r.path = filepath.Join(t.TempDir(), RoleFile)
		require.Errorf(t, r.Save(), name)
		assert.NoFileExists(t, r.path, name)
	}
	_, err := decodeRole([]byte(`{"format":2,"witness":"x"}`))
	newer := &disk.FormatError{}
	require.ErrorAs(t, err, &newer)
	for _, text := range []string{"", "{}", "[]", `{"format":1}`, `{"format":1,"disk":"x"}`, `{"format":0}`} {
		_, err := decodeRole([]byte(text))
		assert.Errorf(t, err, "%q", text)
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, RoleFile), []byte("{"), 0o600))
	_, err = LoadRole(dir)
	assert.ErrorContains(t, err, RoleFile)
}

// A role that was written is read back, whatever its text.
func FuzzARoleIsReadAsItIsWritten(f *testing.F) {
	golden, err := os.ReadFile(goldenRole)
	require.NoError(f, err)
	f.Add(golden)
	f.Add([]byte(`{"format":1,"lineage":"","disk_id":"x","role":"standby","mode":"seeding","term":0,"peer_disk":""}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := decodeRole(text)
		if err != nil {
			return
		}
		r.path = filepath.Join(t.TempDir(), RoleFile)
		require.NoError(t, r.Save())
		back, err := LoadRole(filepath.Dir(r.path))
		require.NoError(t, err)
		r.process = back.process
		assert.Equal(t, r, back)
	})
}
