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

// The explorers try every order of steps in a small world: TestExploreActs is about the entries of one
// notification, TestExploreUnread about the mark, and TestExplorePaging about the pages of a list whose
// items move. With all rules no world breaks a promise. Without one rule a world must break a promise,
// and -v prints the shortest way to the broken state. `make explore` adds the worlds of millions of
// states.

var everyWorld = flag.Bool("every-world", false, "explore the large worlds, too")

// explored is a small world of states.
type explored[S comparable] struct {
	start S
	// broken names the rule that a state breaks, "" for none.
	broken func(s S) string
	// steps calls add with each state that follows from s by one step. wrong names the rule that the
	// step itself breaks.
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

// wayTo repeats the steps that lead to a state, and returns their texts.
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
	// wrong is the beginning of the violation that the walk has to find, "" for none.
	wrong string
	world explored[S]
	// large means that only make explore runs the walk.
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

// act is an action of a user on the target of a notification, as a message carries the action. state is 0 for
// a take-back. user 'm' is muted.
type act struct{ item, user, version, state int8 }

func (a act) String() string {
	return fmt.Sprintf("%c:v%d:%s", a.user, a.version, []string{"-", "like", "love"}[a.state])
}

// entry is the newest known action of a user.
type entry struct {
	user, version, state int8
	first                int8 // the number of the act that first held, for the checks; -1 for none
	place                int16
}

// notice is a notification in a state of a world: schema.Notice in a comparable form.
type notice struct {
	n int8
	e [schema.NoticeActs]entry
}

func (n *notice) entries() []entry { return n.e[:n.n] }

// filled returns a notification with newer take-backs of strangers. These leave room for as many entries of
// the world as room.
func filled(room int) notice {
	n := notice{n: int8(schema.NoticeActs - room)}
	for i := range n.entries() {
		n.e[i] = entry{user: int8('z' - i), version: int8(99 - i), first: -1}
	}
	return n
}

func isFiller(e entry) bool { return e.version > 50 }

// begins reports whether an act makes an entry hold that did not hold before.
func (n *notice) begins(a act) (i int, begins bool) {
	i = slices.IndexFunc(n.entries(), func(e entry) bool { return e.user == a.user })
	if i < 0 {
		return i, a.state != 0
	}
	return i, n.e[i].version < a.version && n.e[i].state == 0 && a.state != 0
}

// highest returns the highest place of all entries, or of the entries that hold.
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
