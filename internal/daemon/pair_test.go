package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"fanfare/internal/admin"
	"fanfare/internal/config"
	"fanfare/internal/daemon"
	"fanfare/internal/events"
	"fanfare/internal/objects/objectstest"
	"fanfare/internal/pair"
	"fanfare/internal/porttest"
)

// machine is a process of a pair.
type machine struct {
	t   *testing.T
	dir string
	env []string
	// lease is shorter than FANFARE_FAILOVER_AFTER lets it be, because a promotion waits for the end of one, and sometimes of five.
	lease time.Duration
	// patience is the time for which a write waits for the standby.
	patience time.Duration
	// register is the bucket of the pair's register.
	register *objectstest.Bucket
	ready    chan daemon.Addresses // each begin of a role
	ended    chan error            // nil if no process runs
	kill     context.CancelFunc
	at       daemon.Addresses
	// inside is the handler of the API for a program that embeds the process.
	inside atomic.Pointer[http.Handler]
}

// newPair returns two machines that do not run yet, and whose standby becomes the primary only by an operator.
func newPair(t *testing.T) (one, two *machine) {
	t.Helper()
	keys := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, pair.MakeKeys(keys))
	register, addrs := objectstest.NewBucket(t), []string{porttest.Free(t), porttest.Free(t)}
	with := func(i int, name string) *machine {
		return &machine{t: t, dir: t.TempDir(), lease: time.Second, patience: time.Second, register: register, env: []string{
			"FANFARE_REGISTER=s3://bucket/pair", "FANFARE_FAILOVER_AFTER=1h",
			"FANFARE_PEER_ADDR=" + addrs[i], "FANFARE_PEER=" + addrs[1-i],
			"FANFARE_PEER_CERT=" + filepath.Join(keys, name+".crt"), "FANFARE_PEER_KEY=" + filepath.Join(keys, name+".key"), "FANFARE_PEER_CA=" + filepath.Join(keys, "ca.crt"),
		}}
	}
	return with(0, "one"), with(1, "two")
}

// settings returns the configuration of the machine.
func (m *machine) settings() config.Config {
	m.t.Helper()
	cfg := settings(m.t, m.dir, m.env...)
	cfg.Lease, cfg.StandbyTimeout, cfg.ArchiveEvery = m.lease, m.patience, 100*time.Millisecond
	return cfg
}

// begin starts the process. It does not wait.
func (m *machine) begin(standby bool) {
	m.t.Helper()
	ctx, cancel := context.WithCancel(withAWS(m.t.Context(), m.register))
	ended := make(chan error, 1)
	m.ready, m.ended, m.kill = make(chan daemon.Addresses, 9), ended, cancel
	cfg := m.settings()
	go func() {
		ended <- daemon.Run(ctx, daemon.Options{
			Config: cfg, Standby: standby, Roles: daemon.Roles{API: true, Fanout: true, Likes: true}, Log: zap.NewNop(),
			Grace: time.Minute, Ready: func(at daemon.Addresses) { m.ready <- at }, Handle: func(h http.Handler, _ *events.Reader) { m.inside.Store(&h) },
		})
	}()
	m.t.Cleanup(func() { _ = m.stop() }) // the tests that want an error read it
}

// await waits until the machine has a role.
func (m *machine) await(standby bool) {
	m.t.Helper()
	select {
	case m.at = <-m.ready:
		require.Equal(m.t, standby, m.at.Standby)
	case err := <-m.ended:
		m.ended = nil
		m.t.Fatalf("not started: %v", err)
	}
}

func (m *machine) start(standby bool) {
	m.t.Helper()
	m.begin(standby)
	m.await(standby)
}

func (m *machine) stop() error {
	if m.ended == nil {
		return nil
	}
	m.kill()
	err := <-m.ended
	m.ended = nil
	return err
}

func (m *machine) client() *admin.Client {
	return admin.NewClient(m.at.Admin, &http.Client{Timeout: time.Minute})
}

func (m *machine) status() pair.Status {
	m.t.Helper()
	s, err := admin.PairStatus().Do(m.t.Context(), m.client(), admin.None{})
	require.NoError(m.t, err)
	return s
}

func (m *machine) untilPaired() {
	m.t.Helper()
	until(m.t, "paired", func() bool {
		s := m.status()
		return s.Mode == pair.ModePaired && s.Connected
	})
}

// shows reports whether a page has a text. The machine may not listen yet.
func (m *machine) shows(url, text string) bool {
	req, err := http.NewRequestWithContext(m.t.Context(), http.MethodGet, url, nil)
	require.NoError(m.t, err)
	res, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		return false
	}
	page, err := io.ReadAll(res.Body)
	require.NoError(m.t, errors.Join(err, res.Body.Close()))
	return strings.Contains(string(page), text)
}

// get returns the answer of a path of the API.
func (m *machine) get(path, token string) (int, string) {
	m.t.Helper()
	req, err := http.NewRequestWithContext(m.t.Context(), http.MethodGet, "http://"+m.at.HTTP+path, nil)
	require.NoError(m.t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := (&http.Client{Timeout: time.Minute}).Do(req)
	require.NoError(m.t, err)
	text, err := io.ReadAll(res.Body)
	require.NoError(m.t, err)
	require.NoError(m.t, res.Body.Close())
	if res.StatusCode == http.StatusServiceUnavailable {
		assert.NotEmpty(m.t, res.Header.Get("Retry-After"))
	}
	return res.StatusCode, string(text)
}

// ask returns the answer of a path of the API to the program that embeds the process.
func (m *machine) ask(path string) string {
	m.t.Helper()
	res := httptest.NewRecorder()
	(*m.inside.Load()).ServeHTTP(res, httptest.NewRequestWithContext(m.t.Context(), http.MethodGet, "http://localhost"+path, http.NoBody))
	return res.Body.String()
}

// profile waits until the machine answers, and returns the profile of the token's user.
func (m *machine) profile(token string) (text string) {
	m.t.Helper()
	until(m.t, "an answer", func() bool {
		var code int
		code, text = m.get("/v1/me", token)
		return code == http.StatusOK
	})
	return text
}

// The machine with the primary is lost, the standby is promoted, and the old machine comes back as its standby.
func TestAPairChangesItsRolesWithoutALoss(t *testing.T) {
	t.Parallel()
	one, two := newPair(t)
	one.start(false)
	ann := tokens(t, one.dir)(t, "ann")
	called(t, one.at.HTTP, ann, "before the pair")
	two.start(true)
	two.untilPaired()
	one.untilPaired()
	until(t, "the metric", func() bool { return metric(t, one.at.Admin, "fanfare_pair_paired") == 1 })
	for i := range 20 {
		called(t, one.at.HTTP, ann, fmt.Sprint("paired ", i))
	}
	require.NoError(t, one.stop(), "a stop does not wait for the standby")
	_, err := admin.Promote().Do(t.Context(), two.client(), admin.Promotion{})
	require.ErrorContains(t, err, "--primary-is-gone")
	s, err := admin.Promote().Do(t.Context(), two.client(), admin.Promotion{PrimaryIsGone: true})
	require.NoError(t, err)
	assert.Equal(t, pair.RolePrimary, s.Role)
	two.await(false)
	text := two.profile(ann) // the secret of the tokens came with the seed
	assert.Contains(t, text, "paired 19")
	called(t, two.at.HTTP, ann, "by the second machine")

	one.start(true) // its role is primary, but the other machine has a later term
	one.untilPaired()
	two.untilPaired()
	called(t, two.at.HTTP, ann, "on both machines again")
	require.NoError(t, two.stop())
	_, err = admin.Promote().Do(t.Context(), one.client(), admin.Promotion{PrimaryIsGone: true})
	require.NoError(t, err)
	one.await(false)
	text = one.profile(ann)
	assert.Contains(t, text, "on both machines again")
}

// An upgrade: the roles change, and change back, without a seed and without a lost write.
func TestAPairExchangesItsRoles(t *testing.T) {
	t.Parallel()
	one, two := newPair(t)
	one.start(false)
	two.start(true)
	one.untilPaired()
	ann := tokens(t, one.dir)(t, "ann")
	for i, round := range []struct{ from, to *machine }{{one, two}, {two, one}} {
		round.to.untilPaired()
		called(t, round.from.at.HTTP, ann, fmt.Sprint("before exchange ", i))
		disk, err := pair.LoadRole(round.from.dir)
		require.NoError(t, err)
		s, err := admin.Promote().Do(t.Context(), round.to.client(), admin.Promotion{})
		require.NoError(t, err)
		assert.Equal(t, pair.RolePrimary, s.Role)
		round.to.await(false)
		round.from.await(true)
		assert.Contains(t, round.to.ask("/v1/me"), `"unauthenticated"`)
		assert.Contains(t, round.from.ask("/v1/me"), `"standby"`)
		text := round.to.profile(ann)
		assert.Contains(t, text, fmt.Sprint("before exchange ", i))
		round.to.untilPaired()
		after, err := pair.LoadRole(round.from.dir)
		require.NoError(t, err)
		assert.Equal(t, disk.Disk, after.Disk, "it continues without a seed")
		assert.Greater(t, after.Term, disk.Term)
	}
}

// P11, P4: without its standby and its register a paired primary answers neither writes nor, after the lease, reads. It continues when one of the two
// is back.
func TestAPairedPrimaryAnswersNothingWithoutItsStandbyAndItsRegister(t *testing.T) {
	t.Parallel()
	one, two := newPair(t)
	one.start(false)
	two.start(true)
	one.untilPaired()
	ann := tokens(t, one.dir)(t, "ann")
	called(t, one.at.HTTP, ann, "paired")
	one.register.SetAway(true)
	require.NoError(t, two.stop())
	until(t, "no answers", func() bool {
		code, _ := one.get("/v1/me", ann)
		return code == http.StatusServiceUnavailable
	})
	assert.Equal(t, pair.ModePaired, one.status().Mode)
	assert.Positive(t, metric(t, one.at.Admin, `fanfare_pair_refused_total{reason="unpromised"}`))

	// A start asks the register, and then waits for its standby, or until the register lets it be alone.
	require.NoError(t, one.stop(), "nothing is lost")
	admin := porttest.Free(t)
	one.env = append(one.env, "FANFARE_ADMIN_ADDR="+admin)
	one.begin(false)
	until(t, "the reason of the wait", func() bool { return one.shows("http://"+admin+"/readyz", "the register of the pair") })
	one.register.SetAway(false)
	one.await(false)
	text := one.profile(ann)
	assert.Contains(t, text, "paired")
	called(t, one.at.HTTP, ann, "alone")
	two.start(true)
	one.untilPaired()
	called(t, one.at.HTTP, ann, "paired again")
}

func TestADirectoryOfAPairIsNotOpenedAlone(t *testing.T) {
	t.Parallel()
	one, two := newPair(t)
	one.start(false)
	two.start(true)
	one.untilPaired()
	require.NoError(t, one.stop())
	require.NoError(t, two.stop())
	for dir, want := range map[string]string{one.dir: "fanfare unpair", two.dir: "of a standby"} {
		err := daemon.Run(t.Context(), daemon.Options{Config: settings(t, dir), Log: zap.NewNop()})
		require.ErrorContains(t, err, want)
		_, _, err = daemon.OpenTransfer(t.Context(), settings(t, dir), zap.NewNop())
		require.ErrorContains(t, err, want)
	}
	// A standby would lose data of its own.
	data := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(data, "table"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(data, "FORMAT"), []byte("3\n"), 0o600))
	err := daemon.Run(t.Context(), daemon.Options{Config: settings(t, data, two.env...), Standby: true, Log: zap.NewNop()})
	require.ErrorContains(t, err, "data of its own")
	// A second primary would have other data.
	one.begin(false)
	two.start(true)
	one.await(false)
	err = daemon.Run(t.Context(), daemon.Options{Config: settings(t, t.TempDir(), two.env...), Log: zap.NewNop()})
	require.ErrorContains(t, err, "is a primary already")
	err = daemon.Run(t.Context(), daemon.Options{Config: settings(t, t.TempDir()), Standby: true, Log: zap.NewNop()})
	require.ErrorContains(t, err, "FANFARE_PEER")
}

// A standby whose data do not fit is refused until its primary is alone, and then gets a new copy of all data.
func TestAStandbyThatIsRefusedGetsANewCopy(t *testing.T) {
	t.Parallel()
	one, two := newPair(t)
	one.start(false)
	two.start(true)
	one.untilPaired()
	two.untilPaired()
	ann := tokens(t, one.dir)(t, "ann")
	called(t, one.at.HTTP, ann, "paired")
	require.NoError(t, two.stop())
	require.NoError(t, os.RemoveAll(filepath.Join(two.dir, pair.TailDir)))
	two.start(true)
	one.untilPaired()
	two.untilPaired()
	until(t, "no reason any more", func() bool { return one.status().Reason == "" })
	require.NoError(t, one.stop())
	_, err := admin.Promote().Do(t.Context(), two.client(), admin.Promotion{PrimaryIsGone: true})
	require.NoError(t, err)
	two.await(false)
	text := two.profile(ann)
	assert.Contains(t, text, "paired")
}
