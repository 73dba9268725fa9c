package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// cable is the network between the machines of a pair, with a proxy before each machine.
type cable [2]*toxiproxy.Proxy

// cabled returns a pair whose machines reach each other only through a cable.
func cabled(t *testing.T) (one, two *upright, c cable) {
	t.Helper()
	one, two = twins(t)
	c = wired(t, one, two)
	for _, u := range []*upright{one, two} {
		u.env = append(u.env, "FANFARE_FAILOVER_AFTER=1h")
	}
	return one, two, c
}

// wired lets the machines of a pair reach each other only through a cable.
func wired(t *testing.T, one, two *upright) (c cable) {
	t.Helper()
	for i, u := range []*upright{one, two} {
		addr := ""
		for _, v := range u.env {
			if a, is := strings.CutPrefix(v, "FANFARE_PEER_ADDR="); is {
				addr = a
			}
		}
		server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
		c[i] = toxiproxy.NewProxy(server, fmt.Sprint(i), "127.0.0.1:0", addr)
		require.NoError(t, c[i].Start())
		t.Cleanup(c[i].Stop)
		u.env = append(u.env, "FANFARE_FAILOVER_AFTER=3s", "FANFARE_DEV_SECRET="+strings.Repeat("s", 32))
	}
	one.env = append(one.env, "FANFARE_PEER="+c[1].Listen)
	two.env = append(two.env, "FANFARE_PEER="+c[0].Listen)
	return c
}

// spoil gives the cable a fault in some directions: "upstream" is to the machine of a proxy.
func (c cable) spoil(t *testing.T, kind, attributes string, directions ...string) {
	t.Helper()
	for _, proxy := range c {
		for _, d := range directions {
			_, err := proxy.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(`{"name": %q, "type": %q, "stream": %q, "attributes": {%s}}`, d, kind, d, attributes)))
			require.NoError(t, err)
		}
	}
}

func (c cable) mend() {
	for _, proxy := range c {
		proxy.Toxics.ResetToxics(context.Background())
	}
}

// onlyCopy is the warning of a primary that is alone.
const onlyCopy = "this machine has the only copy"

// sees waits until a page of a machine has a text.
func (u *upright) sees(t *testing.T, path, text string) {
	t.Helper()
	await(t, path+" shows "+text, func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+u.admin+path, http.NoBody)
		require.NoError(t, err)
		resp, err := (&http.Client{Timeout: time.Second}).Do(req)
		if err != nil {
			return false
		}
		page, err := io.ReadAll(resp.Body)
		return resp.Body.Close() == nil && err == nil && strings.Contains(string(page), text)
	})
}

// logs waits until the log of the process has a text.
func (p *process) logs(t *testing.T, text string) {
	t.Helper()
	await(t, "the log has "+text, func() bool {
		raw, err := os.ReadFile(p.log)
		return err == nil && strings.Contains(string(raw), text)
	})
}

// disk returns the name of a machine's disk. A machine that gets a copy of all data has another disk.
func (u *upright) disk(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(u.data, "ROLE"))
	require.NoError(t, err)
	var role struct {
		Disk string `json:"disk_id"`
	}
	require.NoError(t, json.Unmarshal(text, &role))
	return role.Disk
}

// again starts a machine whose data directory has a role.
func (u *upright) again(t *testing.T) *process {
	t.Helper()
	return start(t, u.env, "fanfare", "up", "--data-dir", u.data, "--http", u.http, "--admin", u.admin)
}

// TestAReplacedPrimaryAnswersNothing promotes the standby of a primary that was stopped for longer than the lease, on both machines in turn.
func TestAReplacedPrimaryAnswersNothing(t *testing.T) {
	t.Parallel()
	one, two, _ := cabled(t)
	p := one.start(t)
	s := two.standby(t)
	one.paired(t, "primary")
	two.paired(t, "standby")
	l := callBoth(t, one, two)
	l.more(one)
	for range 2 {
		p.signal(t, syscall.SIGSTOP)
		l.promoted(two)
		two.fanfare(t, "promote", "--primary-is-gone", "--yes", "--admin", two.admin)
		l.more(two)
		p.signal(t, syscall.SIGCONT)
		p.logs(t, "this machine becomes its standby")
		assert.Equal(t, two.paired(t, "primary"), one.paired(t, "standby"))
		l.more(two)
		one, two, p, s = two, one, s, p
	}
	l.end()
	l.kept(one)
	p.stop(t)
	s.stop(t)
}

// TestAPairOutlivesItsProcesses kills processes of a pair, and puts an older copy of the primary's data directory back.
func TestAPairOutlivesItsProcesses(t *testing.T) {
	t.Parallel()
	one, two, _ := cabled(t)
	p := one.start(t)
	s := two.standby(t)
	one.paired(t, "primary")
	two.paired(t, "standby")
	l := callBoth(t, one, two)
	l.more(one)
	s.kill(t)
	s = two.standby(t)
	l.more(one)
	one.paired(t, "primary")

	disk := two.disk(t)
	p.kill(t)
	p = one.again(t)
	l.more(one)
	s.stop(t)
	one.sees(t, "/readyz", onlyCopy)
	one.sees(t, "/admin/pair", `"connected":false,"reason":"`)
	s = two.standby(t)
	l.more(one)
	assert.Equal(t, disk, two.disk(t), "a standby that was away gets a copy of all data")

	p.kill(t)
	s.kill(t)
	p = one.again(t)
	l.more(one)
	one.sees(t, "/admin/pair", `"connected":false`)
	s = two.standby(t)
	two.paired(t, "standby")
	l.more(one)

	s.kill(t) // a paired primary stops without its standby
	p.stop(t)
	old := one.data + "-old"
	require.NoError(t, os.CopyFS(old, os.DirFS(one.data)))
	p = one.again(t)
	s = two.standby(t)
	p.ready(t, one.admin)
	two.paired(t, "standby")
	l.more(one)
	p.stop(t)
	require.NoError(t, os.Rename(filepath.Join(one.data, "LOCK"), filepath.Join(old, "LOCK"))) // else the files are a copy
	require.NoError(t, os.RemoveAll(one.data))
	require.NoError(t, os.Rename(old, one.data))
	p = one.again(t)
	p.logs(t, "the data directory is an old copy") // P17
	<-p.exited
	require.ErrorContains(t, p.err, "exit status 4")
	await(t, "the standby", func() bool {
		_, _, err := fanfare(t, two.env, "promote", "--primary-is-gone", "--yes", "--admin", two.admin)
		return err == nil
	})
	l.more(two)
	l.end()
	l.kept(two)
	s.stop(t)
}
