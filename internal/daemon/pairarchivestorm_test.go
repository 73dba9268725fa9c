package daemon_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fanfare/internal/admin"
	"fanfare/internal/restore"
)

// mark is an answered write, and the time of its answer.
type mark struct {
	text string
	at   time.Time
}

// changing is a pair whose machines change their roles, and whose archive is away at times.
type changing struct {
	*testing.T
	rng              *rand.Rand
	quick, away      bool
	root, ann        string
	primary, standby *machine
	marks            []mark
}

// write makes some writes. No other write has the millisecond of an answer.
func (c *changing) write() {
	c.Helper()
	for range 1 + c.rng.IntN(3) {
		text := fmt.Sprintf("mark-%04d", len(c.marks))
		called(c.T, c.primary.at.HTTP, c.ann, text)
		at := time.Now()
		c.marks = append(c.marks, mark{text, at})
		until(c.T, "the next millisecond", func() bool { return time.Now().UnixMilli() > at.UnixMilli() })
	}
}

// set sets whether the archive is away.
func (c *changing) set(away bool) {
	c.Helper()
	mount(c.T, c.root, !away)
	c.away = away
}

func (c *changing) paired() {
	c.Helper()
	c.primary.untilPaired()
	c.standby.untilPaired()
}

// step does one of the operations of operators and machines.
func (c *changing) step() {
	c.Helper()
	switch c.rng.IntN(6) {
	case 0, 1:
		c.set(!c.away)
	case 2:
		_, err := admin.Promote().Do(c.Context(), c.standby.client(), admin.Promotion{})
		require.NoError(c, err)
		c.standby.await(false)
		c.primary.await(true)
		c.primary, c.standby = c.standby, c.primary
	case 3, 4:
		require.NoError(c, c.primary.stop())
		if !c.quick {
			_, err := admin.Promote().Do(c.Context(), c.standby.client(), admin.Promotion{PrimaryIsGone: true})
			require.NoError(c, err)
		}
		c.standby.await(false)
		c.primary, c.standby = c.standby, c.primary
		c.write()
		if c.rng.IntN(2) == 0 {
			require.NoError(c, c.primary.stop())
			c.primary.start(false)
		}
		c.standby.start(true)
	default:
		require.NoError(c, c.primary.stop())
		c.primary.begin(false)
		c.primary.await(false)
	}
	c.paired()
}

// A restore to the time of an answer has the write, or names a gap.
func TestEachTimeOfAPairIsRestoredOrNamed(t *testing.T) {
	t.Parallel()
	for seed, quick := range []bool{false, true} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			c := &changing{T: t, rng: rand.New(rand.NewPCG(uint64(seed+1), 7)), quick: quick}
			c.root, c.primary, c.standby = newArchived(t)
			for _, m := range []*machine{c.primary, c.standby} {
				if quick {
					m.env = append(m.env, "FANFARE_FAILOVER_AFTER=3s")
				}
			}
			c.primary.start(false)
			c.standby.start(true)
			c.paired()
			c.ann = tokens(t, c.primary.dir)(t, "ann")
			c.primary.based(c.ann, c.root, 1)
			for range 5 {
				c.write()
				c.step()
			}
			c.write()
			c.set(false)
			last := c.marks[len(c.marks)-1]
			until(t, "the archive has the last write", func() bool {
				_, _ = rename(t, c.primary.at.HTTP, c.ann, "a late write") // the primary may not answer any more
				_, err := has(t, c.root, last.at, "")
				_, early := errors.AsType[*restore.LateError](err)
				return !early
			})
			for _, m := range c.marks {
				found, err := has(t, c.root, m.at, m.text)
				if _, gap := errors.AsType[*restore.GapError](err); gap {
					continue
				}
				require.NoError(t, err)
				require.Truef(t, found, "%s is missing at %v", m.text, m.at)
			}
			checked, err := archiveIn(t, c.root).Verify(t.Context(), func(int64, int64) {})
			require.NoError(t, err)
			require.Empty(t, checked.Faults)
		})
	}
}
