package notify_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fanfare/internal/notify"
	"fanfare/internal/schema"
)

// places returns rules that give ascending places and leave no action out.
func places() notify.Rules {
	given := 0
	return notify.Rules{
		LeftOut: func(schema.Act) bool { return false },
		Place: func(above string) string {
			given++
			return max(above, "p00") + fmt.Sprintf("+%02d", given)
		},
	}
}

// drawActs draws the actions of a kind, as messages carry them. A version belongs to one action. A comment or
// a mention may be deleted later.
func drawActs(t *rapid.T, kind schema.NoticeKind) []schema.Act {
	states := []string{"", "like", "love"}
	if kind != schema.NoticeLike {
		states = []string{"", schema.ActHolds}
	}
	versions := rapid.SliceOfNDistinct(rapid.IntRange(1, 30), 1, 12, rapid.ID).Draw(t, "versions")
	var acts []schema.Act
	for _, v := range versions {
		act := schema.Act{Version: fmt.Sprintf("v%02d", v), User: rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g"}).Draw(t, "user")}
		act.State = rapid.SampledFrom(states).Draw(t, "state")
		acts = append(acts, act)
		if kind == schema.NoticeComment || kind == schema.NoticeMention {
			act.State = ""
			acts = append(acts, act)
		}
	}
	return acts
}

// newest is the model: it takes all actions at once, keeps the newest action of each key, and returns the
// five newest of the kept actions.
func newest(kind schema.NoticeKind, acts []schema.Act) []schema.Act {
	last := map[string]schema.Act{}
	for _, act := range acts {
		if old, ok := last[act.Key(kind)]; !ok || old.Version < act.Version || old.Version == act.Version && act.State == "" {
			last[act.Key(kind)] = act
		}
	}
	var all []schema.Act
	for _, act := range last {
		all = append(all, act)
	}
	slices.SortFunc(all, func(a, b schema.Act) int { return cmp.Compare(b.Version, a.Version) })
	return all[:min(len(all), 5)]
}

func withoutPlaces(acts []schema.Act) []schema.Act {
	acts = slices.Clone(acts)
	for i := range acts {
		acts[i].Place = ""
	}
	return acts
}

func TestMergeIsTheNewestActionsInWhateverOrderTheyCome(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(schema.NoticeKinds).Draw(t, "kind")
		acts := drawActs(t, kind)
		n := schema.Notice{User: "u", Kind: kind}
		rules := places()
		order := rapid.Permutation(acts).Draw(t, "order")
		order = append(order, rapid.SliceOf(rapid.SampledFrom(acts)).Draw(t, "again")...)
		for len(order) > 0 {
			size := rapid.IntRange(1, len(order)).Draw(t, "window")
			before := n
			n = notify.Merge(n, order[:size], rules)
			order = order[size:]
			check(t, before, n)
		}
		assert.Empty(t, gocmp.Diff(newest(kind, acts), withoutPlaces(n.Acts)), "merged differs from the model (-model +merged)")
		again := notify.Merge(n, acts, rules)
		assert.Empty(t, gocmp.Diff(n, again), "repeated messages change something")
	})
}

// check compares a notification with its previous state. An action gets a place once, when it begins to
// hold, and keeps the place.
func check(t *rapid.T, before, n schema.Notice) {
	given := map[string]bool{}
	for _, act := range n.Acts {
		if act.Holds() {
			require.NotEmpty(t, act.Place, "an action holds without a place")
		}
		if act.Place == "" {
			continue
		}
		require.False(t, given[act.Place], "two actions have one place")
		given[act.Place] = true
		old, kept := before.Find(act)
		if kept && old.Place != "" {
			require.Equal(t, old.Place, act.Place, "a place changed")
		} else {
			require.Greater(t, act.Place, before.Highest(), "a new place is not above the former ones")
		}
	}
}

func TestANotificationLiesAtItsNewestActionThatHolds(t *testing.T) {
	t.Parallel()
	act := func(user, version, state string) []schema.Act {
		return []schema.Act{{User: user, Version: version, State: state}}
	}
	rules := places()
	n := schema.Notice{User: "u", Kind: schema.NoticeLike, Target: "p"}
	assert.Empty(t, n.Place())
	n = notify.Merge(n, act("a", "v1", "like"), rules)
	first := n.Place()
	n = notify.Merge(n, act("b", "v2", "like"), rules)
	second := n.Place()
	assert.Greater(t, second, first)
	n = notify.Merge(n, act("b", "v3", ""), rules)
	assert.Equal(t, first, n.Place(), "the newest like was taken back")
	n = notify.Merge(n, act("b", "v4", "love"), rules)
	assert.Equal(t, second, n.Place(), "a like that is given again is no news")
	n = notify.Merge(n, act("b", "v5", ""), rules)
	n = notify.Merge(n, act("a", "v6", ""), rules)
	assert.Empty(t, n.Place(), "no action holds")
	for i, user := range []string{"c", "d", "e"} {
		n = notify.Merge(n, act(user, fmt.Sprintf("v7%d", i), ""), rules)
	}
	assert.Equal(t, first, n.Place(), "older actions may hold, so a full list stays at its lowest place")
}

func TestAnActionThatIsLeftOutLeavesNothing(t *testing.T) {
	t.Parallel()
	rules := places()
	rules.LeftOut = func(act schema.Act) bool { return act.User == "muted" }
	n := schema.Notice{User: "u", Kind: schema.NoticeLike, Target: "p"}
	n = notify.Merge(n, []schema.Act{{User: "muted", Version: "v2", State: "like"}}, rules)
	assert.Empty(t, n.Acts)
	n = notify.Merge(n, []schema.Act{{User: "muted", Version: "v3"}}, rules)
	assert.Equal(t, []schema.Act{{User: "muted", Version: "v3"}}, n.Acts, "its take-back is merged as any other")
	n = notify.Merge(n, []schema.Act{{User: "muted", Version: "v4", State: "like"}}, rules)
	assert.Equal(t, "v3", n.Acts[0].Version)

	before := schema.Notice{User: "u", Kind: schema.NoticeLike, Target: "p", Acts: []schema.Act{{User: "muted", Version: "v1", Place: "p01", State: "like"}}}
	n = notify.Merge(before, []schema.Act{{User: "muted", Version: "v2", State: "love"}}, rules)
	assert.Equal(t, "love", n.Acts[0].State, "a change of an action that holds begins nothing")
}
