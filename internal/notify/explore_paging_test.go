package notify_test

import (
	"fmt"
	"slices"
	"testing"
)

// pagingWorld is about a walk over the pages of a list whose notifications move. The list comes from an index
// that lags. A notification has the places of its acts: it moves up with a new act, by a clock that may be behind,
// and down when its newest act is taken back. A page sees each notification at its place, at the place before
// its last move, or not at all while the index moves the notification. The next page may see the older place
// again. The promises are about finished walks, and about the views of their pages:
//
//	once:  a notification that every page saw at one place is shown exactly once
//	falls: a notification is shown at most once, and once more for each page that saw the notification
//	       lower than the previous page did
//	above: a notification that is not shown, and that no page saw fall, is above the last cursor

type pagingState struct {
	places [3]string // places of the acts, ascending, one byte each
	old    [3]string
	lag    [3]bool
	next   byte
	cursor int // the place of the last notification that was shown; see the constants
	from   int // the cursor of the last page
	offset int
	pages  int
	saw    [3]int // the places that the previous page saw, 0 for none
	first  [3]int
	moved  [3]bool // a page saw another place than the previous page
	falls  [3]int
	shown  [3]int
	acted  [3]bool // a user acted since the walk began
	moves  int
}

const cursorFirst, cursorEnd = -1, -2

type pagingWorld struct {
	size, moves int
	lags        bool
	byNumber    bool // the cursor is the number of shown items
	onePlace    bool // two notifications have the same place
	byTruth     bool // the promise is about the acts instead of the views
}

func (w pagingWorld) world() explored[pagingState] {
	s := pagingState{places: [3]string{"\x08\x18", "\x10\x28", "\x20"}, next: 6, cursor: cursorFirst, moves: w.moves}
	if w.onePlace {
		s.places[2] = "\x28"
	}
	return explored[pagingState]{s, w.broken, w.steps}
}

func lastPlace(places string) int {
	if places == "" {
		return 0
	}
	return int(places[len(places)-1])
}

func (w pagingWorld) broken(s pagingState) string {
	if s.cursor != cursorEnd {
		return ""
	}
	for i := range s.places {
		above := s.from >= 0 && s.saw[i] >= s.from
		switch {
		case w.byTruth && !s.acted[i] && s.places[i] != "" && s.shown[i] != 1:
			return fmt.Sprintf("nobody acted on %d during the walk, and it was shown %d times", i, s.shown[i])
		case w.byTruth:
		case !s.moved[i] && s.first[i] != 0 && s.shown[i] != 1:
			return fmt.Sprintf("every page saw %d at one place, and it was shown %d times", i, s.shown[i])
		case s.shown[i] > 1+s.falls[i]:
			return fmt.Sprintf("%d was shown %d times, and fell %d times", i, s.shown[i], s.falls[i])
		case s.shown[i] == 0 && s.falls[i] == 0 && s.saw[i] != 0 && !above:
			return fmt.Sprintf("%d was not shown, did not fall, and is not above the cursor", i)
		}
	}
	return ""
}

func (w pagingWorld) steps(s pagingState, add func(pagingState, string, func() string)) {
	if s.cursor == cursorEnd {
		return
	}
	for i := range s.places {
		if s.lag[i] {
			n := s
			n.lag[i], n.old[i] = false, ""
			add(n, "", func() string { return fmt.Sprintf("the index has caught up with %d", i) })
		}
		if s.moves > 0 {
			w.acts(s, i, add)
		}
	}
	for _, first := range s.views(0) {
		for _, second := range s.views(1) {
			for _, third := range s.views(2) {
				w.page(s, [3]int{first, second, third}, add)
			}
		}
	}
}

// acts lets a user act on a notification, by a right clock or by a slow clock, or take the newest act back.
func (w pagingWorld) acts(s pagingState, i int, add func(pagingState, string, func() string)) {
	move := func(to string, step func() string) {
		n := s
		n.moves--
		n.places[i], n.old[i], n.lag[i] = to, s.places[i], w.lags
		n.acted[i] = s.cursor != cursorFirst
		if len(to) > len(s.places[i]) {
			n.next++
		}
		add(n, "", step)
	}
	for _, behind := range []byte{0, 3} {
		place := (s.next-behind)*8 + byte(i) + 1
		to := []byte(s.places[i] + string([]byte{place}))
		slices.Sort(to)
		move(string(to), func() string {
			return fmt.Sprintf("an act on %d gets the place %x, by a clock behind by %d", i, place, behind)
		})
	}
	if s.places[i] != "" {
		move(s.places[i][:len(s.places[i])-1], func() string { return fmt.Sprintf("the newest act on %d is taken back", i) })
	}
}

// views returns the places at which a page may see a notification.
func (s *pagingState) views(i int) []int {
	all := []int{lastPlace(s.places[i])}
	if old := lastPlace(s.old[i]); s.lag[i] && old != all[0] {
		all = append(all, old)
		if old != 0 && all[0] != 0 {
			all = append(all, 0)
		}
	}
	return all
}

// page lists the next page with one view of the index.
func (w pagingWorld) page(s pagingState, view [3]int, add func(pagingState, string, func() string)) {
	n := s
	for i, place := range view {
		switch {
		case s.pages == 0:
			n.first[i] = place
		case place != s.saw[i]:
			n.moved[i] = true
			if place < s.saw[i] {
				n.falls[i]++
			}
		}
	}
	n.saw, n.pages, n.from = view, s.pages+1, s.cursor
	order := slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return view[i] == 0 })
	slices.SortStableFunc(order, func(a, b int) int { return view[b] - view[a] })
	if w.byNumber {
		order = order[min(s.offset, len(order)):]
	} else {
		order = slices.DeleteFunc(order, func(i int) bool { return s.cursor >= 0 && view[i] >= s.cursor })
	}
	page := order[:min(w.size, len(order))]
	for _, i := range page {
		n.shown[i]++
		n.cursor = view[i]
		n.offset++
	}
	if len(order) <= w.size {
		n.cursor = cursorEnd
	}
	add(n, "", func() string { return fmt.Sprintf("a page sees the places %x and shows %v", view, page) })
}

func TestExplorePaging(t *testing.T) {
	t.Parallel()
	explore(t, []run[pagingState]{
		{name: "pages of one", world: pagingWorld{size: 1, moves: 2}.world()},
		{name: "pages of two", world: pagingWorld{size: 2, moves: 3}.world()},
		{name: "pages of one, the index lags", world: pagingWorld{size: 1, moves: 2, lags: true}.world()},
		{name: "pages of one, four moves", world: pagingWorld{size: 1, moves: 4}.world(), large: true},
		{name: "pages of two, four moves", world: pagingWorld{size: 2, moves: 4}.world(), large: true},
		{name: "pages of one, the index lags, three moves", world: pagingWorld{size: 1, moves: 3, lags: true}.world(), large: true},
		{name: "pages of two, the index lags, three moves", world: pagingWorld{size: 2, moves: 3, lags: true}.world(), large: true},
		{name: "a promise about acts, four moves", world: pagingWorld{size: 1, moves: 4, byTruth: true}.world(), large: true},
		{name: "a promise about acts, the index lags", wrong: "nobody acted", world: pagingWorld{size: 1, moves: 1, lags: true, byTruth: true}.world()},
		{name: "cursor by number", wrong: "every page saw", world: pagingWorld{size: 1, moves: 1, byNumber: true}.world()},
		{name: "places without random bits", wrong: "every page saw", world: pagingWorld{size: 1, onePlace: true}.world()},
	})
}
