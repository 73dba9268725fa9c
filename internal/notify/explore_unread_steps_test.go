package notify_test

import "fmt"

// This file has the steps of the world of explore_unread_test.go.

func (w unreadWorld) steps(s unreadState, add func(unreadState, string, func() string)) {
	if s.time < firstTick+w.ticks {
		n := s
		n.time++
		add(n, "", func() string { return fmt.Sprintf("time %d", n.time) })
	}
	for i := range s.is {
		if s.lag[i] {
			n := s
			n.lag[i], n.old[i] = false, notice{}
			add(n, "", func() string { return fmt.Sprintf("the index has caught up with %d", i) })
		}
		if s.hides > 0 && s.hidden&(1<<i) == 0 {
			n := s
			n.hides--
			n.hidden |= 1 << i
			add(n, "", func() string { return fmt.Sprintf("the target of %d is hidden", i) })
		}
	}
	for i := range s.workers {
		if s.workers[i].on {
			w.puts(s, i, add)
			continue
		}
		for of := range int8(len(w.acts)) {
			if other := s.workers[1-i]; s.waiting&(1<<of) != 0 && (!other.on || other.of != of) {
				w.reads(s, i, of, add)
			}
		}
	}
	for i := range s.devices {
		switch {
		case s.devices[i].on:
			w.marks(s, i, add)
		case s.lists > 0:
			w.list(s, i, add)
		}
	}
}

// reads lets a worker read a notification and the mark, and give the act a place if it begins to hold.
func (w unreadWorld) reads(s unreadState, i int, of int8, add func(unreadState, string, func() string)) {
	a := w.acts[of]
	is := &s.is[a.item]
	n := s
	n.workers[i] = unreadWorker{on: true, of: of, revision: s.revision[a.item], at: s.time}
	kept, begins := is.begins(a)
	if !begins || !w.left.place && kept >= 0 && is.e[kept].place != 0 {
		add(n, "", func() string { return fmt.Sprintf("worker %d reads for %v", i, a) })
		return
	}
	for _, bits := range w.bitsOf(of) {
		n.workers[i].place = w.placeFor(s, i, is)*placeRandom + bits
		n.readAt[of] = s.time
		if w.onTop {
			n.readRevision[of] = s.revision[a.item]
		}
		place := n.workers[i].place
		add(n, "", func() string {
			return fmt.Sprintf("worker %d reads for %v on %d at %d, mark %s: place %s", i, a, a.item, s.time+w.skew[i], placeText(s.mark), placeText(place))
		})
	}
}

// placeFor returns the time of a new place: the clock's time or later, above the mark, and, if the
// world has that rule, above the notification's own places.
func (w unreadWorld) placeFor(s unreadState, worker int, is *notice) int16 {
	at := int16(s.time+w.skew[worker]) * placeSteps
	if highest := is.highest(false); w.aboveOwn && highest != 0 {
		at = max(at, highest/placeRandom+1)
	}
	if !w.left.aboveMark {
		at = max(at, s.mark/placeRandom+1)
	}
	return at
}

func (w unreadWorld) bitsOf(of int8) []int16 {
	switch {
	case w.left.random:
		return []int16{0}
	case w.bothBits:
		return []int16{int16(of) + 1, placeRandom - 1 - int16(of)}
	}
	return []int16{int16(of) + 1}
}

// puts lets a worker put its notification, unless the notification has changed or the worker slept.
func (w unreadWorld) puts(s unreadState, i int, add func(unreadState, string, func() string)) {
	worker := s.workers[i]
	a := w.acts[worker.of]
	n := s
	n.workers[i] = unreadWorker{}
	if s.revision[a.item] != worker.revision || !w.left.awake && s.time-worker.at > 1 {
		add(n, "", func() string { return fmt.Sprintf("worker %d begins again", i) })
		return
	}
	n.waiting &^= 1 << worker.of
	n.put |= 1 << worker.of
	is := s.is[a.item]
	next := is.merge(worker.of, a, worker.place, w.left.withoutInMerge)
	wrong := ""
	if _, begins := is.begins(a); begins && worker.place != 0 {
		bit := uint8(1) << (a.item*4 + a.user - 'a')
		if w.once && s.placed&bit != 0 {
			wrong = fmt.Sprintf("once: %c gets a second place", a.user)
		}
		n.placed |= bit
	}
	if w.falls && a.state != 0 && next.listed(withoutInList{}) < is.listed(withoutInList{}) {
		wrong = "falls: a place falls without a take-back"
	}
	if next != is {
		n.old[a.item], n.lag[a.item] = is, true
		n.is[a.item] = next
		n.revision[a.item]++
	}
	add(n, wrong, func() string { return fmt.Sprintf("worker %d puts %d: %v", i, a.item, next) })
}

// list lets a device list a page, with each view that the index may give.
func (w unreadWorld) list(s unreadState, device int, add func(unreadState, string, func() string)) {
	for view := range 4 {
		if view&1 != 0 && !s.lag[0] || view&2 != 0 && !s.lag[1] {
			continue
		}
		n := s
		n.lists--
		page := token{on: true, at: s.time, had: s.put, to: s.mark}
		for i := range s.is {
			is, old := &s.is[i], view&(1<<i) != 0
			if old {
				is = &s.old[i]
			}
			place := is.listed(withoutInList{})
			if place == 0 {
				continue
			}
			if !w.left.hidden || s.hidden&(1<<i) == 0 {
				if w.onTop && place > page.to {
					page.top, page.revision = int8(i)+1, s.revision[i]-int8(view>>i&1)
				}
				page.to = max(page.to, place)
			}
			for _, e := range is.entries() {
				if e.first >= 0 && (e.state != 0 || is.highest(true) == 0) {
					page.saw |= 1 << e.first
				}
			}
		}
		if w.atMostNow {
			page.to = min(page.to, max(s.mark, int16(s.time+w.reader)*placeSteps*placeRandom+placeRandom-1))
		}
		n.devices[device] = page
		add(n, "", func() string {
			return fmt.Sprintf("device %d lists, the index is old by %02b: up to %s", device, view, placeText(page.to))
		})
	}
}

// marks lets a device mark its page.
func (w unreadWorld) marks(s unreadState, device int, add func(unreadState, string, func() string)) {
	n, page, wrong := s, s.devices[device], ""
	n.devices[device] = token{}
	n.mark = max(s.mark, page.to)
	if w.left.higher {
		n.mark = page.to
	}
	if n.mark < s.mark {
		wrong = "the mark falls"
	}
	n.covered |= page.saw
	mayBeDark := func(act int8, place int16, put bool) {
		if place <= n.mark && place > s.mark && w.limits(s, page, act, put) {
			n.dark |= 1 << act
			if late := w.spread(); s.readAt[act] > page.at+late {
				wrong = fmt.Sprintf("bound: read at %d, dark by a page of %d", s.readAt[act], page.at)
			}
		}
	}
	for i := range s.is {
		for _, e := range s.is[i].entries() {
			if e.first >= 0 && (e.state != 0 || !w.givenAgain) {
				mayBeDark(e.first, e.place, true)
			}
		}
	}
	for _, worker := range s.workers {
		if worker.on && worker.place != 0 {
			mayBeDark(worker.of, worker.place, false)
		}
	}
	add(n, wrong, func() string { return fmt.Sprintf("device %d marks %s", device, placeText(n.mark)) })
}

// limits reports whether an act that got its place before a mark may be dark.
func (w unreadWorld) limits(s unreadState, page token, act int8, put bool) bool {
	bit := uint8(1) << act
	switch {
	case page.saw&bit != 0:
		return false
	case w.sawBefore && (!put || page.had&bit != 0):
		return false
	case w.onTop && page.top == w.acts[act].item+1 && s.readRevision[act] >= page.revision:
		return false
	}
	return true
}

// spread returns the largest difference between two of the clocks.
func (w unreadWorld) spread() int8 {
	return max(w.skew[0], w.skew[1], 0) - min(w.skew[0], w.skew[1], 0)
}
