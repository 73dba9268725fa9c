package histories

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/planttest"
	"fanfare/internal/sim"
)

var (
	seeds   = flag.Uint64("seeds", 300, "how many seeds to run")
	from    = flag.Uint64("from", 1, "the first seed")
	planted = flag.Bool("planted", false, "build the product with each planted bug, and refuse its histories")
)

// TestMain keeps the simulation on one thread, as the tests of package sim do.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	os.Exit(m.Run())
}

// TestHistoriesOfTheStorms checks the history of each register in some seeds. If no call is in progress
// after the last read, the model has to refuse an additional read that contradicts the last read.
func TestHistoriesOfTheStorms(t *testing.T) {
	histories, calls, unanswered, lies, explained := 0, 0, 0, 0, true
	if testing.Short() {
		*seeds = min(*seeds, 6)
	}
	for seed := *from; seed < *from+*seeds && explained; seed++ {
		res := sim.Run(t, seed, sim.Options{Histories: true})
		assert.Emptyf(t, res.Violations, "seed %d", seed)
		for register, of := range byRegister(res.Calls) {
			open := 0
			for _, c := range of {
				if c.Ended == sim.Never {
					open++
				}
			}
			histories, calls, unanswered = histories+1, calls+len(of), unanswered+open
			explained = explained && assert.Truef(t, linearizable(of), "seed %d: no order of the calls explains the answers about %s: %+v", seed, register, of)
			lie := of[len(of)-1]
			if lie.Client >= 0 || open > 0 {
				continue
			}
			lies++
			lie.On, lie.Began, lie.Ended = !lie.On, lie.Ended+1, lie.Ended+2
			assert.Falsef(t, linearizable(append(of, lie)), "seed %d: a stale answer about %s is not found", seed, register)
		}
	}
	t.Logf("%d histories of %d calls, %d of them without an answer; %d stale answers refused", histories, calls, unanswered, lies)
	assert.Greater(t, lies, histories/4)
	assert.Positive(t, unanswered)
}

// bugs returns changes of the product. The model has to refuse the histories of each change.
func bugs() map[string]planttest.Edit {
	const follows, likes, like = "internal/feed/follows.go", "internal/feed/likes.go", "internal/likeagg/like.go"
	return map[string]planttest.Edit{
		"stale relationship":                 {File: follows, Old: `s.access.BatchGet(ctx, keys, true)`, New: `s.access.BatchGet(ctx, keys, false)`},
		"stale list":                         {File: follows, Old: `query: table.Query{PK: pk, Consistent: true}`, New: `query: table.Query{PK: pk}`},
		"end of a repost by a stale binding": {File: "internal/feed/reposts.go", Old: `s.access.Get(ctx, schema.RepostKey(user, post), true)`, New: `s.access.Get(ctx, schema.RepostKey(user, post), false)`},
		"older reaction wins":                {File: like, Old: `if old.Version < a.version {`, New: `if old.Version != a.version {`},
		"follow that failed, answered": {File: follows, Old: `	if changed || err != nil {
		return changed, err
	}
	access.Cause(ctx, of.later)`, New: `	if changed {
		return changed, err
	}
	access.Cause(ctx, of.later)`},
		"reaction whose event is lost, answered": {File: likes, Old: `	return s.access.PublishAbove(ctx, queue.TopicLikes, messages.Action(like, kind), floor)`, New: `	_ = s.access.PublishAbove(ctx, queue.TopicLikes, messages.Action(like, kind), floor)
	return nil`},
		"take-back whose event is lost, answered": {File: likes, Old: `	return s.access.PublishAbove(ctx, queue.TopicLikes, &messages.Unliked{Like: like}, floor)`, New: `	_ = s.access.PublishAbove(ctx, queue.TopicLikes, &messages.Unliked{Like: like}, floor)
	return nil`},
	}
}

// TestEveryPlantedBugIsRefused runs TestHistoriesOfTheStorms with each planted bug. Without -planted it
// only checks that the bugs still fit the source.
func TestEveryPlantedBugIsRefused(t *testing.T) {
	root := filepath.Dir(planttest.Root(t)) // the root of the product's module
	for name, edit := range bugs() {
		t.Run(name, func(t *testing.T) {
			overlay := planttest.Overlay(t, root, []planttest.Edit{edit})
			if !*planted {
				return
			}
			binary := planttest.Build(t, overlay)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			run := exec.CommandContext(ctx, binary, "-test.run", "^TestHistoriesOfTheStorms$", "-seeds", "300")
			out, err := run.CombinedOutput()
			require.ErrorAs(t, err, new(*exec.ExitError))
			require.Contains(t, string(out), "no order of the calls explains")
			t.Log(strings.Count(string(out), "no order of the calls explains"), "histories are refused")
		})
	}
}
