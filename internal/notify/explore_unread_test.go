package notify_test

import (
	"fmt"
	"slices"
	"testing"

	"fanfare/internal/schema"
)

// unreadWorld is about one mark. Workers whose clocks differ give a place when they read the notification and
// the mark. They put the notification later, if nobody else put it in between. Two devices list pages. A page
// shows each notification as the index has it: in its newest state, or in the state before its last put, and the
// index may go back to that state. The devices mark their pages much later. Meanwhile targets are hidden.
//
// An act is covered once a page that saw the act is marked. The promises hold in every state:
//
//	lit:   a notification above the mark has an act that holds and that is not covered
//	dark:  a notification at or below the mark has no such act, except acts that got their place before
//	       a mark above that place was stored
//	bound: the worker of such an excepted act read before the time of the page plus twice the skew
//	mark:  the mark never falls

const (
	// placeSteps is the number of milliseconds in a tick, which is as long as the skew. placeRandom is
	// the number of values of the random bits.
	placeSteps, placeRandom = 4, 8
	// firstTick is the time at which a world starts.
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
	aboveMark bool // a place is only the clock's time
	random    bool // a place has no random bits
	hidden    bool // the mark of a page does not include hidden notifications
	higher    bool // a mark replaces a higher mark
	awake     bool // a worker puts even if it slept for long
}

type unreadWorld struct {
	acts         []act
	room         int // the number of entries that the acts share
	lists, hides int8
	skew         [2]int8 // skew of each worker's clock
	ticks        int8    // number of ticks
	bothBits     bool    // the random bits may have either order
	left         unreadLeft

	// aboveOwn is a rule of the product that this world does not need.
	aboveOwn bool // a place is above the other places of its notification

	// The fields below are promises that do not hold, and changes that break a promise or make it hold.
	atMostNow  bool // a page marks at most the time of the process that lists
	reader     int8 // the skew of the clock of that process
	sawBefore  bool // only an act that was put between a page and its mark may be dark
	givenAgain bool // an act that was taken back before the page, and given again, may not be dark
	onTop      bool // an act that was read after the page, on the page's topmost notification, may not be dark
	once       bool // a user gets one place on a target
	falls      bool // a place falls only by a take-back
	excused    bool // a full list in which nothing holds need not have an act to be lit
}

type unreadWorker struct {
	on               bool
	of, revision, at int8
	place            int16
}

// token is the result of a page: the highest place that the page saw. The fields after to are for the checks.
type token struct {
	on            bool
	to            int16
	saw, had      uint8 // the acts that the page saw, and the acts that had been put
	top, revision int8  // the topmost notification that the page saw, 1 or 2, and its revision
	at            int8
}

type unreadState struct {
	time     int8
	is, old  [2]notice
	lag      [2]bool
	revision [2]int8
	waiting  uint8 // messages that wait
	workers  [2]unreadWorker
	devices  [2]token
	mark     int16
	hidden   uint8
	lists    int8
	hides    int8

	// The checks use the fields below.
	covered, dark uint8   // the acts that a marked page saw, and the acts that may be dark
	put           uint8   // acts that were put
	readAt        [5]int8 // the time at which the worker of an act read
	readRevision  [5]int8 // the revision that the worker of an act read, for onTop
	placed        uint8   // users with a place, four bits for each notification
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

// These functions return histories of acts on two notifications, 0 and 1.
func actsOnTwo() []act   { return []act{{0, 'a', 1, 1}, {1, 'b', 2, 1}} }
func actsOfThree() []act { return []act{{0, 'a', 1, 1}, {0, 'b', 2, 1}, {1, 'c', 3, 1}} }
func actsOnOne() []act   { return []act{{0, 'a', 1, 1}, {0, 'b', 2, 1}, {0, 'c', 3, 1}} }
func takenBack() []act   { return []act{{0, 'a', 1, 1}, {0, 'b', 2, 1}, {0, 'b', 3, 0}} }
func givenAgain() []act  { return []act{{0, 'a', 1, 1}, {0, 'a', 2, 0}, {0, 'a', 3, 1}} }

// clocksRight and clocksApart return worlds of one page.
func clocksRight() unreadWorld { return unreadWorld{room: schema.NoticeActs, ticks: 2, lists: 1} }

func clocksApart() unreadWorld {
	w := clocksRight()
	w.skew = [2]int8{1, -1}
	return w
}

// with returns the explored world w with the acts and the change.
func (w unreadWorld) with(acts []act, change func(*unreadWorld)) explored[unreadState] {
	w.acts = acts
	change(&w)
	return w.world()
}

// unreadRules returns a run without each rule.
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

// unreadPromises returns runs of promises that go beyond the promises of the mark: runs in which a
// promise fails, and runs in which it holds.
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

// unreadProtocol returns the runs with all rules.
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
	t.Parallel()
	explore(t, slices.Concat(unreadRules(), unreadPromises(), unreadProtocol()))
}
