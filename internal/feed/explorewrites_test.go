package feed_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
)

// This file explores the writes of reposts.go: one user, one post, and the user's reposts R1 to R3 of the post. Each step
// is one request to the table or the queue. A published message may be handled at any time and any number of times. A
// call may die before any step. A put of the binding may be answered as lost, and take effect at any later time.

// writeRules are the rules of Service.Repost and Service.EndRepost.
type writeRules struct {
	// BindFirst binds before the publish. BindCond binds on the condition of the binding as read. RebindOnlyDead replaces
	// only a binding of a dead repost.
	BindFirst, BindCond, RebindOnlyDead bool
	// BuryAbsent makes the tombstone of an absent repost. BuryFirst removes the binding last, and UnbindCond on the condition
	// of the binding as read. TombstoneStops means that no worker writes a repost over its tombstone.
	BuryAbsent, BuryFirst, UnbindCond, TombstoneStops bool
}

const mostReposts = 3

// repostCall is a call of the user: a repost 'r' or its end 'u'.
type repostCall struct {
	kind   byte
	pc     int8
	r, saw int8 // the repost of the call, and the binding that the call read
	alone  bool // no call of the other kind has been under way
}

// repostState is a state: of each repost 0 for absent, 'l' for living, 'd' for a tombstone.
type repostState struct {
	bind              int8
	ref               [mostReposts + 1]byte
	published         [mostReposts + 1]bool
	late, lateSaw     int8 // a put of the binding that is still under way
	calls             [2]repostCall
	next, begun       int8
	mustDie, mustLive bool
}

func (s repostState) wrong() string {
	living, comes := 0, false
	for r, ref := range s.ref {
		if ref == 'l' {
			living++
		}
		comes = comes || s.published[r] && ref == 0
	}
	switch {
	case living > 1:
		return "Twice"
	case s.mustDie && living > 0:
		return "Undead"
	case s.mustLive && s.calls == [2]repostCall{} && !comes && living != 1:
		return "Lost"
	}
	return ""
}

func (ru writeRules) moves(s repostState) (all []move[repostState]) {
	add := func(name string, t repostState) { all = append(all, move[repostState]{name, t}) }
	for i, c := range s.calls {
		switch {
		case c.kind == 0 && s.begun < 4:
			add(fmt.Sprintf("r%d begins", i), s.begin(i, 'r'))
			add(fmt.Sprintf("u%d begins", i), s.begin(i, 'u'))
		case c.kind != 0:
			t := s
			t.calls[i] = repostCall{}
			add(fmt.Sprintf("%c%d dies", c.kind, i), t)
			step := ru.repost
			if c.kind == 'u' {
				step = ru.end
			}
			for _, m := range step(s, i) {
				add(fmt.Sprintf("%c%d %s", c.kind, i, m.name), m.to)
			}
		}
	}
	if s.late != 0 {
		t := s
		if s.bind == s.lateSaw || !ru.BindCond {
			t.bind = s.late
		}
		t.late = 0
		add(fmt.Sprintf("the late put of R%d arrives", s.late), t)
	}
	for r := int8(1); r <= mostReposts; r++ {
		if s.published[r] && (s.ref[r] == 0 || s.ref[r] == 'd' && !ru.TombstoneStops) {
			t := s
			t.ref[r] = 'l'
			add(fmt.Sprintf("a worker handles R%d", r), t)
		}
	}
	return all
}

func (s repostState) begin(i int, kind byte) repostState {
	alone := true
	for j := range s.calls {
		if s.calls[j].kind != 0 && s.calls[j].kind != kind {
			alone, s.calls[j].alone = false, false
		}
	}
	s.begun++
	s.calls[i] = repostCall{kind: kind, alone: alone}
	s.mustDie, s.mustLive = s.mustDie && kind == 'u', s.mustLive && kind == 'r'
	return s
}

func (s repostState) answer(i int) []move[repostState] {
	c := s.calls[i]
	s.mustLive, s.mustDie = s.mustLive || c.alone && c.kind == 'r', s.mustDie || c.alone && c.kind == 'u'
	s.calls[i] = repostCall{}
	return []move[repostState]{{"is answered", s}}
}

// repost is a step of Repost: 0 reads, 1 binds, 2 publishes, 3 writes, 4 answers.
func (ru writeRules) repost(s repostState, i int) []move[repostState] {
	c, t := s.calls[i], s
	now := &t.calls[i]
	switch c.pc {
	case 0:
		now.saw = s.bind
		switch {
		case s.bind != 0 && s.ref[s.bind] != 'd' && ru.RebindOnlyDead:
			now.r, now.pc = s.bind, 2
			if s.ref[s.bind] == 'l' {
				now.pc = 4
			}
		case s.next == mostReposts:
			return nil
		default:
			t.next++
			now.r, now.pc = t.next, 1
			if !ru.BindFirst {
				now.pc = 2
			}
		}
		return []move[repostState]{{fmt.Sprintf("reads binding %d", s.bind), t}}
	case 1:
		all := []move[repostState]{}
		if s.bind == c.saw || !ru.BindCond {
			t.bind, now.pc = c.r, 2
			if !ru.BindFirst {
				now.pc = 3
			}
			all = append(all, move[repostState]{fmt.Sprintf("binds R%d", c.r), t})
		} else {
			now.pc = 0
			all = append(all, move[repostState]{"finds another binding", t})
		}
		if lost := s; s.late == 0 {
			lost.late, lost.lateSaw, lost.calls[i] = c.r, c.saw, repostCall{}
			all = append(all, move[repostState]{fmt.Sprintf("gets no answer to its put of R%d", c.r), lost})
		}
		return all
	case 2:
		t.published[c.r], now.pc = true, 3
		if !ru.BindFirst && s.bind == 0 {
			now.pc = 1
		}
		return []move[repostState]{{fmt.Sprintf("publishes R%d", c.r), t}}
	case 3:
		now.pc = 4
		fails := t // the table fails after the publish: a worker writes the repost
		if s.ref[c.r] == 0 {
			t.ref[c.r] = 'l'
		}
		return []move[repostState]{{fmt.Sprintf("writes R%d", c.r), t}, {"fails to write", fails}}
	}
	return s.answer(i)
}

// end is a step of EndRepost: 0 reads, 1 buries, 2 unbinds, 3 answers.
func (ru writeRules) end(s repostState, i int) []move[repostState] {
	c, t := s.calls[i], s
	now := &t.calls[i]
	after := map[int8]int8{1: 2, 2: 3}
	first := int8(1)
	if !ru.BuryFirst {
		after, first = map[int8]int8{2: 1, 1: 3}, 2
	}
	now.pc = after[c.pc]
	switch c.pc {
	case 0:
		now.r, now.pc = s.bind, first
		if s.bind == 0 {
			now.pc = 3
		}
		return []move[repostState]{{fmt.Sprintf("reads binding %d", s.bind), t}}
	case 1:
		if s.ref[c.r] == 'l' || s.ref[c.r] == 0 && ru.BuryAbsent {
			t.ref[c.r] = 'd'
		}
		return []move[repostState]{{fmt.Sprintf("buries R%d", c.r), t}}
	case 2:
		if s.bind == c.r || !ru.UnbindCond {
			t.bind = 0
		}
		return []move[repostState]{{"unbinds", t}}
	}
	return s.answer(i)
}

// Each rule of the writes is needed: without the rule there is a path to a fault.
func TestTheRulesOfRepostsLeaveNoFault(t *testing.T) {
	t.Parallel()
	every := writeRules{true, true, true, true, true, true, true}
	explored := func(ru writeRules) explored { return explore([]repostState{{}}, ru.moves, repostState.wrong) }
	all := explored(every)
	assert.Empty(t, all.fault, all.path)
	assert.Greater(t, all.states, 10_000)
	faults := map[string]string{
		"BindFirst": "Undead", "BindCond": "Twice", "RebindOnlyDead": "Twice", "BuryAbsent": "Undead", "BuryFirst": "Undead", "UnbindCond": "Undead", "TombstoneStops": "Undead",
	}
	for field := range reflect.TypeFor[writeRules]().Fields() {
		ru := every
		reflect.ValueOf(&ru).Elem().FieldByIndex(field.Index).SetBool(false)
		got := explored(ru)
		assert.Equalf(t, faults[field.Name], got.fault, "without %s: %v", field.Name, got.path)
	}
}
