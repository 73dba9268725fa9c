package notify_test

import (
	"fmt"
	"slices"
	"testing"
)

// actsWorld is about the entries of one notification. Workers handle messages in any order, more than once,
// and two messages at once. Workers die between the put and the ack. A put whose answer was lost is repeated,
// and a put that was sent may take effect late. The target may be deleted: the purge removes the notification
// two ticks later (for the six minutes), and a worker that slept for a tick (for the 60 s) begins again.

// actsLeft names the rules that a world leaves out.
type actsLeft struct {
	withoutInMerge
	withoutInList
	revision bool // a put has no condition on the revision
	ackFirst bool // the ack comes before the put
	muted    bool // the act of a muted user is merged without a place
	awake    bool // a worker puts even if it slept for long
}

type actsWorld struct {
	acts []act
	// room is the number of entries that the acts share. Newer entries of strangers fill the rest of the list.
	room                       int
	again, crashes, lost, late int8 // the numbers of redeliveries, crashes and so on that may happen
	deletes                    bool
	left                       actsLeft
}

// actsWorker handles a message, beginning with the read.
type actsWorker struct {
	on, done bool // done means that the ack is next
	of       int8 // the number of the act
	read     notice
	revision int8
	gone     int8 // ticks from the deletion to the read
}

type actsPut struct {
	on       bool
	puts     notice
	revision int8
}

type actsState struct {
	is                         notice
	revision                   int8
	acked                      uint8
	workers                    [2]actsWorker
	late                       actsPut
	again, crashes, lost, lags int8
	gone                       int8 // ticks since the deletion: 0 before the deletion, 3 after the purge
}

func (w actsWorld) world() explored[actsState] {
	start := actsState{is: filled(w.room), again: w.again, crashes: w.crashes, lost: w.lost, lags: w.late}
	return explored[actsState]{start, w.broken, w.steps}
}

// begin returns a worker after its read. If the target is deleted, the worker removes the notification, and
// its next step is the ack.
func (s *actsState) begin(of int8) actsWorker {
	if s.gone > 0 {
		s.is, s.revision = notice{}, 0
		return actsWorker{on: true, of: of, done: true}
	}
	return actsWorker{on: true, of: of, read: s.is, revision: s.revision}
}

func (w actsWorld) merged(worker actsWorker) notice {
	a := w.acts[worker.of]
	place := (int16(worker.of) + 1) * placeRandom
	if a.user == 'm' && a.state != 0 {
		if !w.left.muted {
			return worker.read
		}
		place = 0
	}
	return worker.read.merge(worker.of, a, place, w.left.withoutInMerge)
}

func (w actsWorld) steps(s actsState, add func(actsState, string, func() string)) {
	if w.deletes && s.gone < 3 {
		n := s
		if n.gone++; n.gone == 3 {
			n.is, n.revision, n.late = notice{}, 0, actsPut{} // no write has been in progress for five minutes
		}
		add(n, "", func() string {
			return []string{"the target is deleted", "a minute passes", "the purge removes the notification"}[s.gone]
		})
	}
	for i := range s.workers {
		if !s.workers[i].on {
			w.takes(s, i, add)
			continue
		}
		if s.crashes > 0 {
			n := s
			n.crashes--
			n.workers[i] = actsWorker{}
			add(n, "", func() string { return fmt.Sprintf("worker %d dies", i) })
		}
		w.works(s, i, add)
	}
	if s.late.on {
		n := s
		n.late = actsPut{}
		add(n, "", func() string { return "a late put is lost" })
		if s.revision == s.late.revision || w.left.revision {
			n.is, n.revision = s.late.puts, s.revision+1
			add(n, "", func() string { return fmt.Sprintf("a late put lands: %v", s.late.puts) })
		}
	}
}

// takes lets a free worker receive each possible message.
func (w actsWorld) takes(s actsState, i int, add func(actsState, string, func() string)) {
	for of := range int8(len(w.acts)) {
		other := s.workers[1-i]
		again := s.acked&(1<<of) != 0 || other.on && other.of == of
		if again && s.again == 0 {
			continue
		}
		n := s
		if again {
			n.again--
		}
		n.workers[i] = n.begin(of)
		n.workers[i].gone = s.gone
		if w.left.ackFirst {
			n.acked |= 1 << of
		}
		add(n, "", func() string {
			return fmt.Sprintf("worker %d takes %v and reads revision %d", i, w.acts[of], s.revision)
		})
	}
}

// works adds the next steps of a worker that has read the notification.
func (w actsWorld) works(s actsState, i int, add func(actsState, string, func() string)) {
	worker := s.workers[i]
	n := s
	if worker.done {
		n.acked |= 1 << worker.of
		n.workers[i] = actsWorker{}
		add(n, "", func() string { return fmt.Sprintf("worker %d acks", i) })
		return
	}
	again := func(n actsState, how string) {
		n.workers[i] = n.begin(worker.of)
		n.workers[i].gone = s.gone
		add(n, "", func() string { return fmt.Sprintf("worker %d %s, and reads revision %d", i, how, n.revision) })
	}
	if !w.left.awake && s.gone-worker.gone > 1 {
		again(n, "slept")
		return
	}
	puts := w.merged(worker)
	if puts == worker.read {
		n.workers[i] = actsWorker{on: true, of: worker.of, done: true}
		add(n, "", func() string { return fmt.Sprintf("worker %d has nothing to put", i) })
		return
	}
	if s.late == (actsPut{}) && s.lags > 0 {
		l := s
		l.lags--
		l.late = actsPut{true, puts, worker.revision}
		again(l, fmt.Sprintf("sends %v, which is late", puts))
	}
	if s.revision != worker.revision && !w.left.revision {
		again(n, "is refused")
		return
	}
	n.is, n.revision = puts, s.revision+1
	if s.lost > 0 {
		l := n
		l.lost--
		again(l, fmt.Sprintf("puts %v, the answer is lost", puts))
	}
	n.workers[i] = actsWorker{on: true, of: worker.of, done: true}
	add(n, "", func() string { return fmt.Sprintf("worker %d puts %v", i, puts) })
}

// broken checks a state without running work: the notification is listed exactly if an act holds,
// and shows the newest acts.
func (w actsWorld) broken(s actsState) string {
	if int(s.acked) != 1<<len(w.acts)-1 || s.workers[0].on || s.workers[1].on || s.late.on {
		return ""
	}
	if s.gone > 0 {
		if s.gone == 3 && s.is.n > 0 {
			return fmt.Sprintf("the purge left %v", s.is)
		}
		return ""
	}
	latest := map[int8]act{}
	for _, a := range w.acts {
		if a.user != 'm' && a.version > latest[a.user].version {
			latest[a.user] = a
		}
	}
	shown := slices.DeleteFunc(slices.Clone(s.is.entries()), func(e entry) bool { return isFiller(e) || e.user == 'm' })
	for _, e := range shown {
		if is := latest[e.user]; e.state != 0 && (is.version != e.version || is.state != e.state) {
			return fmt.Sprintf("%v shows a former act of %c", s.is, e.user)
		}
	}
	holds, newest := false, act{}
	for _, a := range latest {
		holds = holds || a.state != 0
		if a.version > newest.version {
			newest = a
		}
	}
	listed := s.is.listed(w.left.withoutInList) != 0
	switch {
	case holds && !listed:
		return fmt.Sprintf("an act holds, and %v is not listed", s.is)
	case !holds && listed && len(latest) < w.room:
		return fmt.Sprintf("nothing holds, and %v is listed", s.is)
	case newest.state != 0 && (len(shown) == 0 || shown[0].user != newest.user || shown[0].version != newest.version):
		return fmt.Sprintf("the newest act %v is not first in %v", newest, s.is)
	}
	return ""
}

func TestExploreActs(t *testing.T) {
	t.Parallel()
	histories := [][]act{
		{{0, 'a', 1, 1}, {0, 'b', 2, 1}, {0, 'a', 3, 0}},
		{{0, 'a', 1, 1}, {0, 'a', 2, 2}, {0, 'b', 3, 1}, {0, 'c', 4, 0}},
		{{0, 'a', 1, 1}, {0, 'b', 2, 1}, {0, 'b', 4, 0}, {0, 'c', 5, 0}},
		{{0, 'a', 1, 1}, {0, 'a', 2, 0}, {0, 'b', 3, 1}, {0, 'c', 4, 1}},
		{{0, 'a', 3, 1}, {0, 'a', 4, 0}, {0, 'b', 1, 1}, {0, 'c', 2, 1}},
	}
	three, unlikes, back, six := histories[0], histories[2], histories[4], []act{{0, 'a', 1, 1}, {0, 'b', 2, 1}, {0, 'c', 3, 1}, {0, 'd', 4, 1}, {0, 'e', 5, 1}, {0, 'f', 6, 1}}
	muted, alone := []act{{0, 'a', 1, 1}, {0, 'm', 2, 1}, {0, 'a', 3, 2}}, []act{{0, 'a', 1, 1}, {0, 'm', 2, 1}}
	only := func(acts []act, room int, left actsLeft) actsWorld {
		return actsWorld{acts: acts, room: room, left: left}
	}
	all := func(acts []act, room int) actsWorld {
		return actsWorld{acts: acts, room: room, again: 1, crashes: 1, lost: 1, late: 1}
	}
	deleted, slept, ackFirst := all(three, 2), only(three, 2, actsLeft{awake: true}), only(three, 3, actsLeft{ackFirst: true})
	deleted.deletes, slept.deletes, ackFirst.crashes = true, true, 1
	again := all(muted, 2)
	again.lost, again.late = 0, 0
	runs := []run[actsState]{
		{name: "six users", world: only(six, 5, actsLeft{}).world()},
		{name: "a muted user", world: again.world()},
		{name: "a muted user in a list of one", world: only(alone, 1, actsLeft{}).world()},
		{name: "take-backs fill the list", world: only(unlikes, 2, actsLeft{}).world()},
		{name: "the target is deleted", world: deleted.world(), large: true},
		{name: "no awake", wrong: "the purge left", world: slept.world()},
		{name: "a muted user has an entry without a place", wrong: "is not first", world: only(alone, 1, actsLeft{muted: true}).world()},
		{name: "put without the revision", wrong: "an act holds", world: only(three, 2, actsLeft{revision: true}).world()},
		{name: "a take-back removes the entry", wrong: "a former act", world: only(three, 3, actsLeft{withoutInMerge: withoutInMerge{takeBacks: true}}).world()},
		{name: "take-backs are dropped first", wrong: "a former act", world: only(back, 2, actsLeft{withoutInMerge: withoutInMerge{byVersion: true}}).world()},
		{name: "ack before the put", wrong: "an act holds", world: ackFirst.world()},
		{name: "listed only if one holds", wrong: "an act holds", world: only(unlikes, 2, actsLeft{withoutInList: withoutInList{full: true}}).world()},
		{name: "listed only if one has a place", wrong: "an act holds", world: only(unlikes, 2, actsLeft{withoutInList: withoutInList{placeless: true}}).world()},
		{name: "the last message wins", wrong: "a former act", world: only(three, 3, actsLeft{withoutInMerge: withoutInMerge{newest: true}}).world()},
	}
	for i, acts := range histories {
		runs = append(runs, run[actsState]{name: fmt.Sprintf("history %d", i+1), world: all(acts, 2).world(), large: i > 0})
	}
	explore(t, append(runs, run[actsState]{name: "history 4 in a list of three", world: all(histories[3], 3).world(), large: true}))
}
