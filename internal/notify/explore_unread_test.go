package notify_test

import (
	"fmt"
	"slices"
	"testing"

	"fanfare/internal/schema"
)

// The world of one mark. Workers whose clocks differ give a place when they read the notification and the
// mark, and put later, if nobody put the notification in between. Two devices list, each notification as
// the index shows it (as it is, or as it was before its last put, and back again), and mark long after.
// Targets are hidden meanwhile.
//
// An act is covered once a page is marked that saw it. In every state:
//
//	lit:   a notification above the mark has an act that holds and that no marked page saw
//	dark:  a notification at or below the mark has none, but for acts that got their place before the
//	       mark above them was stored
//	bound: such an act was read by its worker before the time of the page and twice the skew
//	mark:  it never falls

const (
	// placeSteps are the steps of a millisecond in a tick, which is as long as the skew, and placeRandom
	// the values of the random bits.
	placeSteps, placeRandom = 4, 8
	// firstTick is the time at the start.
	firstTick = 3
)

func placeText(place int16) string {
	if place == 0 {
		return "none"
	}
	return fmt.Sprintf("%d.%d.%d", place/(placeSteps*placeRandom), place/placeRandom%placeSteps, place%placeRandom)
}

// unreadLeft names the rules that a world leaves out.
type unreadLeft struct {
	withoutInMerge
	aboveMark bool // a place is by the clock alone
	random    bool // a place has no random bits
	hidden    bool // the mark of a page leaves hidden notifications out
	higher    bool // a mark replaces a higher one
	awake     bool // a worker puts, however long it slept
}

type unreadWorld struct {
	acts         []act
	room         int // as in actsWorld
	lists, hides int8
	skew         [2]int8 // of the workers
	ticks        int8    // that pass
	bothBits     bool    // random bits in either order
	left         unreadLeft

	// Rules of the product that this world can do without.
	aboveOwn bool // a place is above the other places of its notification

	// These are promises that do not hold, and the changes that break them or make them hold.
	atMostNow  bool // a page marks at most the time of the process that lists
	reader     int8 // the skew of that process
	sawBefore  bool // only an act that was put between a page and its mark may be dark
	givenAgain bool // an act that was taken back before the page and given again may not be dark
	onTop      bool // nor an act on the topmost notification of the page, read after it
	once       bool // a user gets one place on a target
	falls      bool // a place falls only by a take-back
	excused    bool // a full list in which nothing holds may be lit by nothing
}

type unreadWorker struct {
	on               bool
	of, revision, at int8
	place            int16
}

// token is the result of a page: the highest place that it looked at. The rest is for the checks.
type token struct {
	on            bool
	to            int16
	saw, had      uint8 // the acts that it saw, and the acts that had been put
	top, revision int8  // the topmost notification that it saw, 1 or 2, and its revision
	at            int8
}

type unreadState struct {
	time     int8
	is, old  [2]notice
	lag      [2]bool
	revision [2]int8
	waiting  uint8 // messages
	workers  [2]unreadWorker
	devices  [2]token
	mark     int16
	hidden   uint8
	lists    int8
	hides    int8

	// For the checks.
	covered, dark uint8   // acts: seen by a marked page, and the acts that may be dark
	put           uint8   // acts
	readAt        [5]int8 // when the worker of an act read
	readRevision  [5]int8 // and which revision, for onTop
	placed        uint8   // users with a place, four for each notification
}

func (w unreadWorld) world() explored[unreadState] {
	s := unreadState{time: firstTick, waiting: 1<<len(w.acts) - 1, lists: w.lists, hides: w.hides}
	s.is = [2]notice{filled(w.room), filled(w.room)}
	return explored[unreadState]{s, w.broken, w.steps}
}

func (w unreadWorld) broken(s unreadState) string {
	for i := range s.is {
		n := &s.is[i]
		place := n.listed(withoutInList{})
		var open uint8
		for _, e := range n.entries() {
			if e.state != 0 && e.first >= 0 {
				open |= 1 << e.first &^ s.covered
			}
		}
		if place > s.mark && open == 0 && (!w.excused || n.highest(true) != 0) {
			return fmt.Sprintf("lit by nothing: %d %v at %s, mark %s", i, n, placeText(place), placeText(s.mark))
		}
		if place <= s.mark && open&^s.dark != 0 && s.hidden&(1<<i) == 0 {
			return fmt.Sprintf("dark: %d %v at %s, mark %s, no marked page saw it", i, n, placeText(place), placeText(s.mark))
		}
	}
	return ""
}

// Histories of acts on two notifications, 0 and 1.
func actsOnTwo() []act   { return []act{{0, 'a', 1, 1}, {1, 'b', 2, 1}} }
func actsOfThree() []act { return []act{{0, 'a', 1, 1}, {0, 'b', 2, 1}, {1, 'c', 3, 1}} }
func actsOnOne() []act   { return []act{{0, 'a', 1, 1}, {0, 'b', 2, 1}, {0, 'c', 3, 1}} }
func takenBack() []act   { return []act{{0, 'a', 1, 1}, {0, 'b', 2, 1}, {0, 'b', 3, 0}} }
func givenAgain() []act  { return []act{{0, 'a', 1, 1}, {0, 'a', 2, 0}, {0, 'a', 3, 1}} }

// clocksRight and clocksApart are worlds of one page.
func clocksRight() unreadWorld { return unreadWorld{room: schema.NoticeActs, ticks: 2, lists: 1} }

func clocksApart() unreadWorld {
	w := clocksRight()
	w.skew = [2]int8{1, -1}
	return w
}

// with changes a world.
func (w unreadWorld) with(acts []act, change func(*unreadWorld)) explored[unreadState] {
	w.acts = acts
	change(&w)
	return w.world()
}

// unreadRules leave each rule out.
func unreadRules() []run[unreadState] {
	right, apart := clocksRight(), clocksApart()
	return []run[unreadState]{
		{name: "place by the clock alone", wrong: "dark", world: apart.with(actsOfThree(), func(w *unreadWorld) { w.left.aboveMark = true })},
		{name: "hidden items left out of the mark", wrong: "lit by nothing", world: apart.with(actsOfThree(), func(w *unreadWorld) { w.left.hidden, w.hides = true, 1 })},
		{name: "a like given again gets a new place", wrong: "lit by nothing", world: apart.with(givenAgain(), func(w *unreadWorld) { w.left.place = true })},
		{name: "a mark replaces a higher one", wrong: "the mark falls", world: apart.with(actsOfThree(), func(w *unreadWorld) { w.left.higher, w.lists = true, 2 })},
		{name: "mark at most now, a clock ahead", wrong: "lit by nothing", world: right.with(actsOfThree(), func(w *unreadWorld) { w.atMostNow, w.skew = true, [2]int8{0, 1} })},
		{name: "mark at most now, the reader behind", wrong: "lit by nothing", world: right.with(actsOfThree(), func(w *unreadWorld) { w.atMostNow, w.reader = true, -1 })},
	}
}

// unreadPromises go beyond the promises of the mark, with the worlds in which they fail and the worlds in
// which they hold.
func unreadPromises() []run[unreadState] {
	right, apart := clocksRight(), clocksApart()
	unseen := []act{{0, 'a', 1, 1}, {0, 'a', 2, 0}, {1, 'b', 3, 1}, {0, 'a', 4, 1}}
	return []run[unreadState]{
		{name: "dark only if put after the page", wrong: "dark", large: true, world: apart.with(actsOfThree(), func(w *unreadWorld) { w.sawBefore = true })},
		{name: "dark only if put after the page, clocks right", wrong: "dark", world: right.with(actsOfThree(), func(w *unreadWorld) { w.sawBefore = true })},
		{name: "given again, never dark", wrong: "dark", world: right.with(unseen, func(w *unreadWorld) { w.givenAgain, w.ticks = true, 0 })},
		{name: "one place a user, though five are newer", wrong: "once", world: right.with(slices.Concat(actsOnOne(), []act{{0, 'a', 4, 2}}), func(w *unreadWorld) { w.once, w.room, w.ticks, w.lists = true, 2, 0, 0 })},
		{name: "a place falls only by a take-back", wrong: "falls", world: apart.with(actsOnOne(), func(w *unreadWorld) { w.falls, w.room, w.lists = true, 2, 0 })},
		{name: "an act after the page on its topmost one is lit", wrong: "dark", large: true, world: apart.with(takenBack(), func(w *unreadWorld) { w.onTop = true })},
		{name: "full list, none holds, never lit", wrong: "lit by nothing", large: true, world: right.with(slices.Concat(takenBack(), []act{{0, 'c', 4, 0}}), func(w *unreadWorld) { w.room = 2 })},
		{name: "a place falls only by a take-back, above its own", world: apart.with(actsOnOne(), func(w *unreadWorld) { w.falls, w.room, w.lists, w.aboveOwn = true, 2, 0, true })},
		{name: "an act after the page on its topmost one is lit, above its own", large: true, world: apart.with(takenBack(), func(w *unreadWorld) { w.onTop, w.aboveOwn = true, true })},
		{name: "the same of two", large: true, world: apart.with(actsOfThree(), func(w *unreadWorld) { w.onTop, w.aboveOwn = true, true })},
		{name: "one place a user, none behind", large: true, world: apart.with(givenAgain(), func(w *unreadWorld) { w.once = true })},
		{name: "given again, may be dark", world: right.with(unseen, func(w *unreadWorld) { w.ticks = 0 })},
	}
}

// unreadProtocol has all rules.
func unreadProtocol() []run[unreadState] {
	right, apart := clocksRight(), clocksApart()
	all := []run[unreadState]{
		{name: "two, clocks right", world: right.with(actsOnTwo(), func(*unreadWorld) {})},
		{name: "two, clocks apart", world: apart.with(actsOnTwo(), func(w *unreadWorld) { w.ticks = 1 })},
		{name: "hidden targets, two pages", large: true, world: apart.with(actsOnTwo(), func(w *unreadWorld) { w.lists, w.hides = 2, 1 })},
		{name: "two entries at most", large: true, world: apart.with(actsOnOne(), func(w *unreadWorld) { w.room = 2 })},
		{name: "above its own places", large: true, world: apart.with(actsOfThree(), func(w *unreadWorld) { w.aboveOwn = true })},
		{name: "no random bits", large: true, world: apart.with(actsOfThree(), func(w *unreadWorld) { w.left.random = true })},
		{name: "no awake", large: true, world: apart.with(actsOfThree(), func(w *unreadWorld) { w.left.awake = true })},
		{name: "full list, none holds", large: true, world: apart.with(slices.Concat(takenBack(), []act{{0, 'c', 4, 0}}), func(w *unreadWorld) { w.room, w.excused, w.ticks = 2, true, 1 })},
		{name: "a take-back elsewhere, two pages", large: true, world: apart.with(slices.Concat(actsOnTwo(), []act{{1, 'b', 3, 0}}), func(w *unreadWorld) { w.lists, w.ticks = 2, 1 })},
		{name: "three, two pages", large: true, world: apart.with(actsOfThree(), func(w *unreadWorld) { w.lists, w.ticks = 2, 1 })},
	}
	for _, clocks := range []struct {
		name string
		skew [2]int8
	}{{"clocks right", [2]int8{}}, {"one behind", [2]int8{0, -1}}, {"one ahead", [2]int8{0, 1}}, {"clocks apart", apart.skew}} {
		skewed := right
		skewed.skew = clocks.skew
		for i, acts := range [][]act{slices.Concat(actsOnTwo(), []act{{1, 'b', 3, 0}}), takenBack(), givenAgain(), actsOfThree()} {
			all = append(all, run[unreadState]{name: fmt.Sprintf("history %d, %s", i+1, clocks.name), large: true, world: skewed.with(acts, func(*unreadWorld) {})})
		}
		all = append(all,
			run[unreadState]{name: "two pages of two, " + clocks.name, large: true, world: skewed.with(actsOnTwo(), func(w *unreadWorld) { w.lists, w.bothBits = 2, true })},
			run[unreadState]{name: "given again, two pages, " + clocks.name, large: true, world: skewed.with(givenAgain(), func(w *unreadWorld) { w.lists = 2 })})
	}
	return all
}

func TestExploreUnread(t *testing.T) {
	explore(t, slices.Concat(unreadRules(), unreadPromises(), unreadProtocol()))
}
