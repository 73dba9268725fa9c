package notify_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/schema"
)

// The explorers walk through every order of steps of a small world: TestExploreActs is about the entries
// of one notification, TestExploreUnread about the mark, TestExplorePaging about the pages of a list
// whose items move. With all rules each world holds. Without one rule it must not, and the shortest way
// to the fault is printed by -v. `make explore` adds the worlds of millions of states.

var everyWorld = flag.Bool("every-world", false, "explore the large worlds, too")

// explored is a small world of states.
type explored[S comparable] struct {
	start S
	// broken names the rule that a state breaks, "" for none.
	broken func(s S) string
	// steps calls add with each state that one step leads to. wrong names the rule that the step itself
	// breaks.
	steps func(s S, add func(next S, wrong string, step func() string))
}

// found is the result of a walk. wrong is "" if no state is broken, and way leads to the first broken state.
type found struct {
	states int
	wrong  string
	way    []string
}

// walk visits all states breadth first, so the path to the first broken state is a shortest path.
func walk[S comparable](w explored[S]) found {
	states := []S{w.start}
	parents := []int{-1}
	known := map[S]struct{}{states[0]: {}}
	for at := 0; at < len(states); at++ {
		s := states[at]
		if wrong := w.broken(s); wrong != "" {
			return found{len(states), wrong, wayTo(w, states, parents, at)}
		}
		var failed found
		w.steps(s, func(next S, wrong string, step func() string) {
			if wrong != "" && failed.wrong == "" {
				failed = found{len(states), wrong, append(wayTo(w, states, parents, at), step())}
			}
			if _, met := known[next]; !met {
				known[next] = struct{}{}
				states, parents = append(states, next), append(parents, at)
			}
		})
		if failed.wrong != "" {
			return failed
		}
	}
	return found{states: len(states)}
}

// wayTo repeats the steps that lead to a state, for their texts.
func wayTo[S comparable](w explored[S], states []S, parents []int, at int) []string {
	var way []string
	for ; parents[at] >= 0; at = parents[at] {
		text := ""
		w.steps(states[parents[at]], func(next S, _ string, step func() string) {
			if text == "" && next == states[at] {
				text = step()
			}
		})
		way = append(way, text)
	}
	slices.Reverse(way)
	return way
}

// run is one walk and its expected result.
type run[S comparable] struct {
	name string
	// wrong begins the text of the violation that the walk has to find, "" for none.
	wrong string
	world explored[S]
	// large means that only make explore makes the run.
	large bool
}

func explore[S comparable](t *testing.T, runs []run[S]) {
	t.Helper()
	for _, r := range runs {
		if r.large && !*everyWorld {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			f := walk(r.world)
			t.Logf("%d states %s\n\t%s", f.states, f.wrong, strings.Join(f.way, "\n\t"))
			if r.wrong == "" {
				require.Empty(t, f.wrong)
				return
			}
			assert.Contains(t, f.wrong, r.wrong)
		})
	}
}

// act is an action of a user on the target of a notification, as a message brings it. state is 0 for an action
// that takes back. user 'm' is muted.
type act struct{ item, user, version, state int8 }

func (a act) String() string {
	return fmt.Sprintf("%c:v%d:%s", a.user, a.version, []string{"-", "like", "love"}[a.state])
}

// entry is the newest known action of a user.
type entry struct {
	user, version, state int8
	first                int8 // number of the act that first held, for the checks; -1 for none
	place                int16
}

// notice is a notification as a state of a world has it: schema.Notice in a form that compares.
type notice struct {
	n int8
	e [schema.NoticeActs]entry
}

func (n *notice) entries() []entry { return n.e[:n.n] }

// filled is a notification in which newer take-backs of strangers leave room for some entries of the world.
func filled(room int) notice {
	n := notice{n: int8(schema.NoticeActs - room)}
	for i := range n.entries() {
		n.e[i] = entry{user: int8('z' - i), version: int8(99 - i), first: -1}
	}
	return n
}

func isFiller(e entry) bool { return e.version > 50 }

// begins reports whether an act makes an entry hold that did not.
func (n *notice) begins(a act) (i int, begins bool) {
	i = slices.IndexFunc(n.entries(), func(e entry) bool { return e.user == a.user })
	if i < 0 {
		return i, a.state != 0
	}
	return i, n.e[i].version < a.version && n.e[i].state == 0 && a.state != 0
}

// highest is the highest place of the entries, or of the entries that hold.
func (n *notice) highest(holding bool) (place int16) {
	for _, e := range n.entries() {
		if e.state != 0 || !holding {
			place = max(place, e.place)
		}
	}
	return place
}

func (n notice) String() string {
	var b strings.Builder
	for _, e := range n.entries() {
		if !isFiller(e) {
			fmt.Fprintf(&b, " %v@%s", act{user: e.user, version: e.version, state: e.state}, placeText(e.place))
		}
	}
	return "[" + strings.TrimSpace(b.String()) + "]"
}
