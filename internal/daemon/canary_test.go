package daemon_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
	"fanfare/internal/ops/canary"
)

// The canary uses the path of every post and like, and leaves no post.
func TestTheCanaryPassesThroughAWholeProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at, stop := start(t, settings(t, dir, "FANFARE_CANARY=on"))
	for _, step := range canary.Steps() {
		until(t, "a passed step "+step, func() bool { return metric(t, at.Admin, `fanfare_canary_seconds_count{step="`+step+`"}`) > 0 })
		assert.Contains(t, read(t, "http://"+at.Admin+"/metrics"), `fanfare_canary_failures_total{step="`+step+`"} 0`)
	}
	reader := traced(t, "http://"+at.HTTP, tokens(t, dir)(t, canary.Reader), postTrace)
	until(t, "a moment between two rounds, with no post", func() bool { // the next round may be under way
		home, err := reader.Home(client.Push).Page(t.Context(), "", 20)
		return err == nil && len(home.Items) == 0
	})
	require.NoError(t, stop())
}

func TestThereIsNoCanaryUnlessItIsAskedFor(t *testing.T) {
	t.Parallel()
	at, _ := start(t, settings(t, t.TempDir()))
	assert.NotContains(t, read(t, "http://"+at.Admin+"/metrics"), "fanfare_canary")
}
