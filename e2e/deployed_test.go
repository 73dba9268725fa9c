package e2e

import (
	"cmp"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
	"fanfare/internal/config"
	"fanfare/internal/porttest"
)

// deployed is a `fanfare up` as a deployment describes it: the unit of systemd, a compose file or the chart.
type deployed struct {
	command []string
	env     map[string]string
	// grace is the time between SIGTERM and SIGKILL.
	grace time.Duration
	// at has the address of this machine for each port of the deployment (see place).
	at   map[string]string
	keys issuer
}

// place replaces the addresses, the directory of the data and the keys of the issuer, which this machine lacks. The values of
// over replace more variables.
func (d *deployed) place(t *testing.T, over map[string]string) {
	t.Helper()
	cfg, err := config.Load(entries(d.env), config.API)
	require.NoError(t, err, "the environment as it is deployed")
	assert.Equal(t, config.AuthJWT, cfg.Auth, "with dev tokens anyone could be any user")
	assert.False(t, cfg.AdminIsPublic())
	d.env, d.at, d.keys = maps.Clone(d.env), map[string]string{}, newIssuer(t)
	for variable, otherwise := range map[string]string{
		"FANFARE_HTTP_ADDR": cfg.HTTPAddr, "FANFARE_ADMIN_ADDR": cfg.AdminAddr, "FANFARE_METRICS_ADDR": "", "FANFARE_PEER_ADDR": "",
	} {
		address := cmp.Or(d.env[variable], otherwise)
		if address == "" {
			continue
		}
		_, port, err := net.SplitHostPort(address)
		require.NoError(t, err)
		d.at[port] = porttest.Free(t)
		d.env[variable] = d.at[port]
	}
	d.env["FANFARE_DATA_DIR"], d.env["FANFARE_JWKS_URL"] = filepath.Join(t.TempDir(), "data"), d.keys.url
	maps.Copy(d.env, over)
}

func (d *deployed) start(t *testing.T) *process {
	t.Helper()
	return start(t, entries(d.env), filepath.Base(d.command[0]), d.command[1:]...)
}

// ends sends SIGTERM. The process has to end in order before the platform would kill it.
func (d *deployed) ends(t *testing.T, p *process) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	within(t, "the stop", d.grace, func() bool { return !p.running() })
	require.NoError(t, p.err, tail(p.log))
}

// as returns a client for a user.
func (d *deployed) as(t *testing.T, user string) *client.Client {
	t.Helper()
	return reach(t, d.at["8080"]).AsToken(d.keys.token(t, user, d.env))
}

// survivesARestart starts the process, waits for its probes, writes a post, ends the process by SIGTERM, and reads the
// post after a second start.
func (d *deployed) survivesARestart(t *testing.T, healthy func() bool) {
	t.Helper()
	begins := func() *process {
		p := d.start(t)
		await(t, "the probes", func() bool {
			require.True(t, p.running(), "%v\n%s", p.err, tail(p.log))
			return healthy()
		})
		return p
	}
	p := begins()
	written := d.posts(t)
	d.ends(t, p)
	p = begins()
	d.has(t, written)
	d.ends(t, p)
}

// posts writes a post, and returns its id.
func (d *deployed) posts(t *testing.T) (id string) {
	t.Helper()
	ann := d.as(t, "ann")
	_, err := ann.PutMe(t.Context(), client.ProfileInput{Name: "Ann"})
	require.NoError(t, err)
	post, err := ann.CreatePost(t.Context(), client.PostInput{Text: "a post"})
	require.NoError(t, err)
	return post.ID
}

// has reads the post of posts.
func (d *deployed) has(t *testing.T, id string) {
	t.Helper()
	post, err := d.as(t, "ann").Post(t.Context(), id)
	require.NoError(t, err)
	assert.Equal(t, "a post", post.Text)
}

// answers returns the status of a GET, 0 without an answer.
func answers(t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
	if err != nil {
		return 0
	}
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}
