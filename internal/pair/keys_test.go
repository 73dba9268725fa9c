package pair

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func keysOf(dir, name string) Keys {
	return Keys{Cert: filepath.Join(dir, name+".crt"), Key: filepath.Join(dir, name+".key"), CA: filepath.Join(dir, "ca.crt")}
}

// talk returns what a server with keys receives from a client with keys.
func talk(t *testing.T, server, client Keys) (string, error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	type received struct {
		text string
		err  error
	}
	got := make(chan received, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			conn, err = server.Accept(t.Context(), conn)
		}
		if err != nil {
			got <- received{"", err}
			return
		}
		text, err := io.ReadAll(conn)
		got <- received{string(text), err}
		_ = conn.Close() // the test is over
	}()
	conn, err := client.Dial(context.Background(), listener.Addr().String())
	if err == nil {
		_, err = conn.Write([]byte("hello"))
		require.NoError(t, conn.Close())
	}
	r := <-got
	if err != nil {
		return "", err
	}
	return r.text, r.err
}

func TestOnlyTheTwoMachinesOfAPairTalk(t *testing.T) {
	t.Parallel()
	dir, other := filepath.Join(t.TempDir(), "keys"), filepath.Join(t.TempDir(), "keys")
	require.NoError(t, MakeKeys(dir))
	require.NoError(t, MakeKeys(other))
	require.Error(t, MakeKeys(dir), "keys in use are not overwritten")
	one, two := keysOf(dir, "one"), keysOf(dir, "two")
	require.NoError(t, one.Check())
	text, err := talk(t, one, two)
	require.NoError(t, err)
	assert.Equal(t, "hello", text)

	for name, client := range map[string]Keys{"keys of another pair": keysOf(other, "two"), "no keys": {}} {
		text, err := talk(t, one, client)
		assert.Errorf(t, err, name)
		assert.Emptyf(t, text, name)
	}
	text, err = talk(t, keysOf(other, "one"), two)
	require.Error(t, err, "a server of another pair")
	assert.Empty(t, text)

	text, err = talk(t, Keys{}, Keys{})
	require.NoError(t, err)
	assert.Equal(t, "hello", text)
}

func TestTheKeysAreForTheirOwnerAlone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, MakeKeys(dir))
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, files, 5)
	for _, file := range files {
		info, err := file.Info()
		require.NoError(t, err)
		assert.EqualValues(t, 0o600, info.Mode().Perm(), file.Name())
	}
	k := keysOf(dir, "one")
	k.CA = k.Key
	assert.ErrorContains(t, k.Check(), "FANFARE_PEER_CA")
	k.Cert = filepath.Join(dir, "none")
	assert.ErrorContains(t, k.Check(), "FANFARE_PEER_CERT")
}
