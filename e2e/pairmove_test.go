package e2e

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestAPairMovesItsRegisterUnderLoad moves a pair to another register while applications write and read, loses the primary after each move, and
// starts the processes with the former setting. No answered write is lost.
func TestAPairMovesItsRegisterUnderLoad(t *testing.T) {
	t.Parallel()
	one, two := twins(t)
	p := one.start(t)
	s := two.standby(t)
	one.paired(t, "primary")
	two.paired(t, "standby")
	l := callBoth(t, one, two)
	l.more(one)
	for round := range 3 {
		before := one.paired(t, "primary")
		one.fanfare(t, "pair", "move", "--to", fmt.Sprintf("s3://bucket/moved-%d", round), "--yes", "--admin", one.admin)
		assert.Greater(t, one.paired(t, "primary"), before)
		two.paired(t, "standby")
		l.more(one)
		p.kill(t)
		l.promoted(two)
		two.fanfare(t, "promote", "--primary-is-gone", "--yes", "--admin", two.admin)
		l.more(two)
		p = one.again(t)
		assert.Equal(t, two.paired(t, "primary"), one.paired(t, "standby"))
		one, two, p, s = two, one, s, p
	}
	l.end()
	l.kept(one)
	p.stop(t)
	s.stop(t)
}
