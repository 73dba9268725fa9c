package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/objects/objectstest"
	"fanfare/internal/pair"
	"fanfare/internal/porttest"
)

// twin is a machine of a pair, and its commands.
type twin struct {
	*testing.T
	dir, admin string
	env        []string
	*running
}

func newTwins(t *testing.T, register *objectstest.Bucket) (one, two *twin) {
	t.Helper()
	keys := filepath.Join(t.TempDir(), "keys")
	code, _, errs := result(t, nil, "fanfare", "pair", "keys", keys)
	require.Zero(t, code, errs)
	peers := []string{porttest.Free(t), porttest.Free(t)}
	with := func(i int, name string) *twin {
		w := &twin{T: t, dir: t.TempDir(), admin: porttest.Free(t), env: []string{
			"FANFARE_PEER_ADDR=" + peers[i], "FANFARE_PEER=" + peers[1-i], "FANFARE_PEER_CA=" + filepath.Join(keys, "ca.crt"),
			"FANFARE_PEER_CERT=" + filepath.Join(keys, name+".crt"), "FANFARE_PEER_KEY=" + filepath.Join(keys, name+".key"),
			"FANFARE_REGISTER=s3://bucket/pair", "FANFARE_FAILOVER_AFTER=1h",
		}}
		for name, value := range register.Env() {
			w.env = append(w.env, name+"="+value)
		}
		return w
	}
	return with(0, "one"), with(1, "two")
}

func (w *twin) up(args ...string) {
	w.Helper()
	w.running = upWith(w.T, w.env, w.dir, append(args, "--admin", w.admin)...)
}

// run runs a command with the machine's environment.
func (w *twin) run(args ...string) (code int, out, errs string) {
	w.Helper()
	return result(w.T, append(w.env, "FANFARE_ADMIN_ADDR="+w.admin, "FANFARE_DATA_DIR="+w.dir), "fanfare", args...)
}

// succeeds runs a command that must succeed, and returns its output.
func (w *twin) succeeds(args ...string) string {
	w.Helper()
	code, out, errs := w.run(args...)
	require.Zero(w, code, "%v: %s", args, errs)
	return out
}

// fails runs a command that must fail with an exit code and a text.
func (w *twin) fails(code int, text string, args ...string) {
	w.Helper()
	got, out, errs := w.run(args...)
	assert.Equal(w, code, got, "%v", args)
	assert.Contains(w, errs, text, "%v", args)
	assert.Empty(w, out, "%v", args)
}

func (w *twin) status() (s pair.Status) {
	w.Helper()
	require.NoError(w, json.Unmarshal([]byte(w.succeeds("pair", "status", "--json")), &s))
	return s
}

func (w *twin) until(role, mode string) {
	w.Helper()
	until(w.T, role+" "+mode, func() bool {
		code, out, _ := w.run("pair", "status", "--json")
		var s pair.Status
		return code == 0 && json.Unmarshal([]byte(out), &s) == nil && s.Role == role && s.Mode == mode && s.Connected == (mode == pair.ModePaired) && s.Register != nil && s.Register.Mode == mode
	})
}

// The commands show the register, and ask it before they change the roles.
func TestTheCommandsOfAPair(t *testing.T) {
	t.Parallel()
	register := objectstest.NewBucket(t)
	one, two := newTwins(t, register)
	one.up()
	two.up("--standby")
	one.until(pair.RolePrimary, pair.ModePaired)
	two.until(pair.RoleStandby, pair.ModePaired)
	s := one.status()
	assert.Equal(t, s.Term, s.Register.Term)
	assert.NotEmpty(t, s.Register.Standby)
	assert.Regexp(t, `^primary, paired, term 2; the other machine, \S+, is connected.*; the register, read \S+ ago: primary \w+ of term 2, paired since 20`, one.succeeds("pair", "status"))
	assert.Regexp(t, `^standby, paired, term 2; .*; the register, read`, two.succeeds("pair", "status"))

	one.fails(1, "is the primary already", "promote", "--yes")
	two.fails(1, "the primary is not gone, but connected", "promote", "--primary-is-gone", "--yes")
	two.fails(2, "--standby-is-gone", "unpair")
	one.fails(1, "in use", "unpair", "--standby-is-gone", "--yes")
	require.NoError(t, json.Unmarshal([]byte(two.succeeds("promote", "--yes", "--json")), &s))
	assert.Equal(t, pair.RolePrimary, s.Role)
	assert.EqualValues(t, 3, s.Term)
	two.until(pair.RolePrimary, pair.ModePaired)
	one.until(pair.RoleStandby, pair.ModePaired)

	// A standby that was away may lack answered writes.
	require.Zero(t, one.stop(t, syscall.SIGTERM))
	two.until(pair.RolePrimary, pair.ModeAlone)
	assert.Regexp(t, `is away.*; alone for `, two.succeeds("pair", "status"))
	require.Zero(t, two.stop(t, syscall.SIGTERM))
	one.up("--standby")
	one.fails(1, "may lack answered writes", "promote", "--primary-is-gone", "--yes")
	one.fails(1, "cannot hand over", "promote", "--yes")
	register.SetAway(true)
	one.fails(1, "register", "promote", "--accept-loss", "--yes")
	register.SetAway(false)
	require.Zero(t, one.stop(t, syscall.SIGTERM))

	// The register gets the change of unpair before the role.
	two.up()
	one.up("--standby")
	two.until(pair.RolePrimary, pair.ModePaired)
	require.Zero(t, one.stop(t, syscall.SIGKILL)+1)
	require.Zero(t, two.stop(t, syscall.SIGKILL)+1)
	one.fails(1, "fanfare promote here", "unpair", "--standby-is-gone", "--yes")
	register.SetAway(true)
	two.fails(1, "FANFARE_REGISTER s3://bucket/pair", "unpair", "--standby-is-gone", "--yes")
	register.SetAway(false)
	var out struct {
		DataDir string `json:"data_dir"`
	}
	require.NoError(t, json.Unmarshal([]byte(two.succeeds("unpair", "--standby-is-gone", "--yes", "--json")), &out))
	assert.Equal(t, two.dir, out.DataDir)
	assert.Contains(t, two.succeeds("unpair", "--standby-is-gone", "--yes"), "is alone: start fanfare up")
	require.NoError(t, os.RemoveAll(one.dir))
	two.up()
	two.until(pair.RolePrimary, pair.ModeAlone)
}

// A pair uses another register while it runs, and with the former setting after it. Then it has lost the entry of that register.
func TestAPairMovesItsRegister(t *testing.T) {
	t.Parallel()
	register := objectstest.NewBucket(t)
	one, two := newTwins(t, register)
	one.up()
	two.up("--standby")
	two.until(pair.RoleStandby, pair.ModePaired)
	one.fails(2, "--to", "pair", "move", "--yes")
	two.fails(1, "run the command on the primary", "pair", "move", "--to", "s3://bucket/new", "--yes")
	one.fails(1, "uses this register already", "pair", "move", "--to", "s3://bucket/pair", "--yes")
	one.fails(1, "a directory cannot", "pair", "move", "--to", "file:///new", "--yes")
	term := one.status().Term
	assert.Contains(t, one.succeeds("pair", "move", "--to", "s3://bucket/new", "--yes"), "set FANFARE_REGISTER")
	two.until(pair.RoleStandby, pair.ModePaired)
	assert.Greater(t, one.status().Term, term)
	one.fails(1, "has an entry of a pair", "pair", "move", "--to", "s3://bucket/pair", "--yes")

	require.Zero(t, two.stop(t, syscall.SIGTERM))
	require.Zero(t, one.stop(t, syscall.SIGTERM))
	one.env = append(one.env, "FANFARE_REGISTER=s3://bucket/new") // the other machine still has the former address
	one.up()
	two.up("--standby")
	two.until(pair.RoleStandby, pair.ModePaired)

	register.Empty()
	assert.Contains(t, one.succeeds("pair", "move", "--to", "s3://bucket/next", "--yes"), "set FANFARE_REGISTER")
	two.until(pair.RoleStandby, pair.ModePaired)
	require.NoError(t, json.Unmarshal([]byte(two.succeeds("promote", "--yes", "--json")), new(pair.Status)))
	two.until(pair.RolePrimary, pair.ModePaired)
}

// The two machines of a pair are lost, and a restored directory gets their register.
func TestARestoredDirectoryGetsTheRegister(t *testing.T) {
	t.Parallel()
	one, two := newTwins(t, objectstest.NewBucket(t))
	one.up()
	require.Zero(t, one.stop(t, syscall.SIGTERM))
	restored := upWith(t, nil, two.dir) // as after a restore, the directory has no role
	require.Zero(t, restored.stop(t, syscall.SIGTERM))
	two.fails(1, "fanfare pair begin --after-restore", "up", "--http", "127.0.0.1:0", "--admin", two.admin)
	two.fails(2, "--after-restore", "pair", "begin", "--yes")
	assert.Contains(t, two.succeeds("pair", "begin", "--after-restore", "--yes"), "has the register")
	two.up()
	two.until(pair.RolePrimary, pair.ModeAlone)
	one.fails(1, "the register is of another pair", "up", "--http", "127.0.0.1:0", "--admin", one.admin)
}

// A copy of a data directory does not start beside the original, and unpair, which would make a second primary of it, refuses it, too, even
// if the original does not answer.
func TestACopyOfADataDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	one, two := newTwins(t, objectstest.NewBucket(t))
	one.up()
	require.Zero(t, one.stop(t, syscall.SIGTERM))
	require.NoError(t, os.CopyFS(two.dir, os.DirFS(one.dir)))
	one.up()
	two.fails(4, pair.ErrCopied.Error(), "up", "--http", "127.0.0.1:0", "--admin", two.admin)
	two.fails(1, pair.ErrSameDisk.Error()+" (the other machine has more)", "unpair", "--standby-is-gone", "--yes")
	assert.Contains(t, one.succeeds("pair", "status"), pair.ErrSameDisk.Error())
	require.Zero(t, one.stop(t, syscall.SIGTERM))
	two.fails(4, pair.ErrOldCopy.Error(), "unpair", "--standby-is-gone", "--yes")
}
