package daemon_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheAuditorMakesItsRoundsInAWholeProcess(t *testing.T) {
	t.Parallel()
	at, stop := start(t, settings(t, t.TempDir(), "FANFARE_AUDIT=on"))
	until(t, "a whole round", func() bool { return metric(t, at.Admin, "fanfare_audit_round_timestamp_seconds") > 0 })
	assert.Contains(t, read(t, "http://"+at.Admin+"/metrics"), `fanfare_audit_findings{kind="like-count"} 0`)
	require.NoError(t, stop())
}

func TestThereIsNoAuditorUnlessItIsAskedFor(t *testing.T) {
	t.Parallel()
	at, _ := start(t, settings(t, t.TempDir()))
	assert.NotContains(t, read(t, "http://"+at.Admin+"/metrics"), "fanfare_audit")
}
