package doctor

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/config"
	"fanfare/internal/daemon"
	"fanfare/internal/objects"
	"fanfare/internal/pair"
)

func TestDoctorTriesTheCertificateOfThePeer(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"keys", "strangers"} {
		require.NoError(t, pair.MakeKeys(filepath.Join(dir, name)))
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	defer serving.Wait()
	defer listener.Close()
	files := func(keys, name string) pair.Keys {
		return pair.Keys{Cert: filepath.Join(dir, keys, name+".crt"), Key: filepath.Join(dir, keys, name+".key"), CA: filepath.Join(dir, keys, "ca.crt")}
	}
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			// The other machine answers the hello as a machine that asks.
			_, err = pair.Ask(t.Context(), func(ctx context.Context) (net.Conn, error) { return files("keys", "two").Accept(ctx, conn) }, pair.AskingHello(pair.NewRole(dir, pair.RolePrimary), 1, "v"))
			_ = errors.Join(err, conn.Close()) // a stranger's session fails
		}
	})
	find := func(keys pair.Keys, peer, check string) Finding {
		cfg, err := config.Load([]string{
			"FANFARE_DATA_DIR=" + t.TempDir(), "FANFARE_PEER=" + peer, "FANFARE_PEER_ADDR=127.0.0.1:1", "FANFARE_PEER_CERT=" + keys.Cert, "FANFARE_PEER_KEY=" + keys.Key, "FANFARE_PEER_CA=" + keys.CA, "FANFARE_REGISTER=s3://bucket/pair",
		}, config.API)
		require.NoError(t, err)
		cfg.Register = "" // there is no bucket
		found := Examine(t.Context(), cfg, nil, daemon.Roles{}, time.Now)
		i := slices.IndexFunc(found, func(f Finding) bool { return f.Check == check })
		require.GreaterOrEqual(t, i, 0)
		return found[i]
	}
	at := listener.Addr().String()
	assert.Equal(t, LevelOK, find(files("keys", "one"), at, "pair").Level)
	assert.Equal(t, LevelOK, find(files("keys", "one"), at, "clock of the pair").Level)
	assert.Equal(t, LevelFault, find(files("strangers", "one"), at, "pair").Level)
	assert.Equal(t, LevelFault, find(files("keys", "three"), at, "pair").Level)
	assert.Equal(t, LevelWarning, find(files("keys", "one"), "127.0.0.1:1", "pair").Level)
}

func TestDoctorComparesTheClocksOfAPair(t *testing.T) {
	now := time.Now()
	for off, want := range map[time.Duration]Level{0: LevelOK, time.Second: LevelOK, 2 * time.Second: LevelWarning, -2 * time.Second: LevelWarning, time.Minute: LevelWarning, 61 * time.Second: LevelFault, -time.Hour: LevelFault} {
		e := &examination{}
		e.compareClocks(now.Add(off), now, now)
		assert.Equal(t, want, e.found[0].Level, off)
	}
}

// forgetful is a conditional store that ignores some conditions.
type forgetful struct {
	content               []byte
	version               objects.Version
	createsTwice, forgets bool
}

// Fetch implements objects.Conditional.
func (f *forgetful) Fetch(context.Context, string, int64) ([]byte, objects.Version, error) {
	return f.content, f.version, nil
}

// Swap implements objects.Conditional.
func (f *forgetful) Swap(_ context.Context, _ string, old objects.Version, _ objects.Body) (objects.Version, error) {
	ignores := f.createsTwice && old == "" || f.forgets && old != ""
	if old != f.version && !ignores {
		return "", objects.ErrChanged
	}
	f.version += "x"
	return f.version, nil
}

func TestDoctorFindsAStoreThatIgnoresConditions(t *testing.T) {
	require.NoError(t, trySwaps(t.Context(), &forgetful{}, "doctor/a"))
	require.ErrorIs(t, trySwaps(t.Context(), &forgetful{createsTwice: true}, "doctor/a"), errUnconditional)
	require.ErrorIs(t, trySwaps(t.Context(), &forgetful{forgets: true}, "doctor/a"), errUnconditional)
}
