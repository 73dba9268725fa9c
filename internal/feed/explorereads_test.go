package feed_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// This file explores the reads of refers.go: a reader pages through every list of four references, newest first, while
// posts are deleted. A reference is a plain post, or a repost of an older post or of a stranger's post.

// readRules are the rules of a paging.
type readRules struct {
	// Carries means that a cursor has the originals of the shown reposts. ShownOnly means that only a shown repost hides
	// another reference. ByOriginal remembers the originals, not the reposts.
	Carries, ShownOnly, ByOriginal bool
	// RoundsShare means that the rounds of a page share the memory. PastHidden means that a cursor passes all examined
	// references.
	RoundsShare, PastHidden bool
}

const references = 4

// pagingState has, by reference, the original (itself for a plain post, a negative number for a stranger's post).
type pagingState struct {
	of     [references + 1]int8
	gone   [references + 1]bool
	ofGone [2*references + 1]bool // by post
	before int8
	memory [2*references + 1]bool // by post
	shown  [2*references + 1]int8 // by post
	always [references + 1]bool   // visible since the paging began
	moves  int8
	ended  bool
	stuck  bool
}

// post returns the place of a reference's original in the arrays by post.
func (s *pagingState) post(r int8) int { return int(s.of[r]) + references }

func (s *pagingState) visible(r int8) bool { return !s.gone[r] && !s.ofGone[s.post(r)] }

func (s pagingState) wrong() string {
	for _, n := range s.shown {
		if n > 1 {
			return "Twice"
		}
	}
	for r := int8(1); r <= references && s.ended; r++ {
		if s.always[r] && s.shown[s.post(r)] == 0 {
			return "Missing"
		}
	}
	if s.stuck {
		return "Stuck"
	}
	return ""
}

// page reads one page. A round of a page examines as many references as the page has places.
func (ru readRules) page(s pagingState, size int) (t pagingState, got []string) {
	t = s
	memory := s.memory
	if !ru.Carries {
		memory = [2*references + 1]bool{}
	}
	at, last := s.before, s.before
	for round := 0; len(got) < size && at > 1; round++ {
		if round > 0 && !ru.RoundsShare {
			memory = [2*references + 1]bool{}
		}
		for looked := 0; looked < size && at > 1 && len(got) < size; looked++ {
			at--
			key := s.post(at)
			if !ru.ByOriginal {
				key = int(at) + references
			}
			visible, known, repost := s.visible(at), memory[key], s.of[at] != at
			if known || !visible && ru.ShownOnly {
				continue
			}
			memory[key] = memory[key] || repost
			if visible {
				t.shown[s.post(at)]++
				last, got = at, append(got, fmt.Sprintf("%d>%d", at, s.of[at]))
			}
		}
	}
	t.before, t.memory, t.ended = at, memory, at <= 1
	if !ru.PastHidden {
		t.before, t.stuck = last, len(got) == 0
	}
	return t, got
}

func (ru readRules) moves(s pagingState) (all []move[pagingState]) {
	if s.ended || s.stuck {
		return nil
	}
	for _, size := range []int{1, 2} {
		t, got := ru.page(s, size)
		all = append(all, move[pagingState]{"page " + strings.Join(got, " "), t})
	}
	for r := int8(1); r <= references && s.moves < 2; r++ {
		if !s.gone[r] {
			t := s.deletes(r)
			t.moves++
			all = append(all, move[pagingState]{fmt.Sprintf("%d is deleted", r), t})
		}
	}
	return all
}

func (s pagingState) deletes(r int8) pagingState {
	s.gone[r] = true
	s.ofGone[s.post(r)] = s.ofGone[s.post(r)] || s.of[r] == r
	for q := int8(1); q <= references; q++ {
		s.always[q] = s.always[q] && s.visible(q)
	}
	return s
}

// pagingWorlds returns each list of references, with each set of posts that were deleted before the paging.
func pagingWorlds() []pagingState {
	lists := []pagingState{{before: references + 1}}
	for r := int8(1); r <= references; r++ {
		var longer []pagingState
		for _, s := range lists {
			s.always[r] = true
			for of := int8(-2); of <= r; of++ {
				if of == 0 || of > 0 && of < r && s.of[of] != of {
					continue // a repost of a repost is one of the original
				}
				s.of[r] = of
				longer = append(longer, s)
			}
		}
		lists = longer
	}
	var all []pagingState
	for _, s := range lists {
		for dead := range 1 << references {
			of := s
			for r := int8(1); r <= references; r++ {
				if dead>>(r-1)&1 == 1 {
					of = of.deletes(r)
				}
			}
			all = append(all, of)
		}
	}
	return all
}

// Each rule of the reads is needed: without the rule a paging repeats or lacks a post, or never ends.
func TestTheRulesOfPagingShowAPostOnce(t *testing.T) {
	t.Parallel()
	worlds, every := pagingWorlds(), readRules{true, true, true, true, true}
	all := explore(worlds, every.moves, pagingState.wrong)
	assert.Empty(t, all.fault, all.path)
	assert.Greater(t, all.states, 10_000)
	faults := map[string]string{"Carries": "Twice", "ShownOnly": "Missing", "ByOriginal": "Twice", "RoundsShare": "Twice", "PastHidden": "Stuck"}
	for field := range reflect.TypeFor[readRules]().Fields() {
		ru := every
		reflect.ValueOf(&ru).Elem().FieldByIndex(field.Index).SetBool(false)
		got := explore(worlds, ru.moves, pagingState.wrong)
		assert.Equalf(t, faults[field.Name], got.fault, "without %s: %v", field.Name, got.path)
	}
}
