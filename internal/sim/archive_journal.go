package sim

import (
	"fmt"
	"slices"
	"time"

	"fanfare/internal/table"
)

// journal is the oracle of the restores: the writes and the messages of an archived engine, in the order of
// their answers. A restored table is the table after one of the writes, and the restored queue agrees with that
// write: a message whose effect the table has is there, and so is each message whose effect the table lacks.
// The methods of a nil journal do nothing.
type journal struct {
	writes []tableWrite
	copies map[string][]copies // by topic and identity
}

// tableWrite is a write of the table.
type tableWrite struct {
	after map[table.Key]*table.Item
	// synced means that the write was on the disk when it was answered.
	synced bool
	begun  time.Time
	// known is the time from which on each restore has the write, never if it is zero.
	known time.Time
}

// copies is a change of the number of copies of a message: a publish, or the end of a message.
type copies struct {
	by     int // 1 or -1
	writes int // the number of writes before the change
	begun  time.Time
	known  time.Time // as in tableWrite
}

func newJournal() *journal { return &journal{copies: map[string][]copies{}} }

// wrote records a write.
func (j *journal) wrote(after map[table.Key]*table.Item, lazy bool, begun time.Time) {
	if j == nil {
		return
	}
	w := tableWrite{after: after, synced: !lazy, begun: begun}
	if j.writes = append(j.writes, w); !lazy { // the log has the lazy writes before this write
		for i := len(j.writes) - 1; i >= 0 && j.writes[i].known.IsZero(); i-- {
			j.writes[i].known = time.Now()
		}
	}
}

// took records that a power cut took the newest writes.
func (j *journal) took(writes int) {
	if j == nil {
		return
	}
	j.writes = j.writes[:len(j.writes)-writes]
	for _, all := range j.copies {
		for i := range all {
			all[i].writes = min(all[i].writes, len(j.writes))
		}
	}
}

// message records a change of the number of copies of a message.
func (j *journal) message(topic, identity string, by int, certain bool) {
	if j == nil {
		return
	}
	c := copies{by: by, writes: len(j.writes), begun: time.Now()}
	if certain {
		c.known = c.begun
	}
	j.copies[topic+" "+identity] = append(j.copies[topic+" "+identity], c)
}

// died records that a process died, and that the next process is running. The next process brings the
// missing writes to the archive, and its time is a later one. archived is the time up to which the archive has everything.
func (j *journal) died(archived time.Time) {
	now := time.Now()
	later := func(known time.Time) time.Time {
		if !known.IsZero() && !known.Before(archived) {
			return now
		}
		return known
	}
	for i := range j.writes {
		if j.writes[i].known.IsZero() { // the disk kept the write
			j.writes[i].known = now
		}
		j.writes[i].known = later(j.writes[i].known)
	}
	for _, all := range j.copies {
		for i := range all {
			all[i].known = later(all[i].known)
		}
	}
}

// settled records that the stores are closed, so all writes are on the disk.
func (j *journal) settled() {
	for i := range j.writes {
		if j.writes[i].known.IsZero() {
			j.writes[i].known = time.Now()
		}
	}
}

// span is what a restore may have.
type span struct {
	// known is the time before which everything is there. begun is the time after which nothing is there.
	known, begun time.Time
}

// check compares a restored table and the copies of the restored messages with the journal. It returns the
// first difference, "" if there is none.
func (j *journal) check(s span, there []table.Item, messages map[string]int) string {
	least, most := 0, len(j.writes)
	for i, w := range j.writes {
		if !w.known.IsZero() && w.known.Before(s.known) {
			least = i + 1
		}
	}
	for most > least && millisecond(j.writes[most-1].begun).After(s.begun) {
		most--
	}
	l := &lie{}
	for _, w := range j.writes {
		l.writes = append(l.writes, w.after)
	}
	fits := l.prefixes(there)
	first := slices.IndexFunc(fits, func(n int) bool { return n >= least && n <= most })
	if first < 0 {
		return fmt.Sprintf("the table is as after %v of %d writes, want %d to %d of them", fits, len(j.writes), least, most)
	}
	last := first
	for last+1 < len(fits) && fits[last+1] <= most {
		last++
	}
	return j.checkMessages(s, fits[first], fits[last], messages)
}

// checkMessages compares the messages beside a table that is as after between first and last writes.
func (j *journal) checkMessages(s span, first, last int, there map[string]int) string {
	synced := make([]int, len(j.writes)+1) // the number of the last synced write among the first writes
	for i, w := range j.writes {
		if synced[i+1] = synced[i]; w.synced {
			synced[i+1] = i + 1
		}
	}
	for who, all := range j.copies {
		least, most := 0, 0
		for _, c := range all {
			// A change after a synced write is in no state without that write.
			possible := !millisecond(c.begun).After(s.begun) && synced[c.writes] <= last
			certain := !c.known.IsZero() && (c.known.Before(s.known) || first > c.writes)
			switch {
			case c.by > 0 && possible:
				most++
				if certain {
					least++
				}
			case c.by < 0 && possible:
				least--
			}
		}
		if n := there[who]; n < least || n > most {
			return fmt.Sprintf("%d copies of message %s are there beside a table after %d to %d of %d writes, want %d to %d", n, who, first, last, len(j.writes), least, most)
		}
	}
	for who := range there {
		if j.copies[who] == nil {
			return fmt.Sprintf("message %s is there, and nobody published it", who)
		}
	}
	return ""
}

// millisecond returns the time that a frame has.
func millisecond(t time.Time) time.Time { return t.Truncate(time.Millisecond) }
