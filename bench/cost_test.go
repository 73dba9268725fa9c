package main

import (
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The CPU time of PostgreSQL is the sum over its backends, which start and end during a run.
func TestTheTimeOfAFamilyHasChildrenThatRunAndThatEnded(t *testing.T) {
	const burn = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"
	c := exec.Command("sh", "-c", "exec 3<&0; ("+burn+"); ("+burn+"; echo done; read line <&3) & wait") // it ends with its input
	in, err := c.StdinPipe()
	require.NoError(t, err)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	_, err = out.Read(make([]byte, 5)) // now both children have used CPU time
	require.NoError(t, err)
	family, err := cpuOfFamily(c.Process.Pid)
	require.NoError(t, err)
	parent, err := statOf(c.Process.Pid)
	require.NoError(t, err)
	assert.Greater(t, parent.reaped, time.Duration(0), "the child that ended")
	assert.Greater(t, family, parent.cpu+parent.reaped, "the child that runs")
	require.NoError(t, in.Close())
	assert.NoError(t, c.Wait())
}
