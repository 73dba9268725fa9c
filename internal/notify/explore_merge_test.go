package notify_test

import (
	"slices"
	"strconv"

	"fanfare/internal/notify"
	"fanfare/internal/schema"
)

// The worlds use the product's own merge. To leave out a rule, a world changes the notification before or
// after the merge.

// withoutInMerge names the rules of the merge that a world leaves out. withoutInList names the rules of the
// place that a world leaves out.
type withoutInMerge struct {
	newest    bool // the last message wins, whatever version it has
	takeBacks bool // a take-back removes the entry
	byVersion bool // an entry that does not hold is dropped first
	place     bool // an action that holds again gets a new place
}

type withoutInList struct {
	full      bool // a full list in which nothing holds is not listed
	placeless bool // a full list in which no entry has a place is not listed
}

// merge returns the notification after the act a, whose number is of. If an entry begins to hold, a gets the
// place.
func (n notice) merge(of int8, a act, place int16, left withoutInMerge) notice {
	before := n
	i, begins := n.begins(a)
	switch {
	case left.newest && i >= 0 && n.e[i].version != a.version:
		before.e[i].version = 0
	case left.place && begins && i >= 0:
		before.e[i].place = 0
	case left.byVersion && i < 0 && n.n == schema.NoticeActs:
		kept := slices.Clone(n.entries())
		for j := len(kept) - 1; j >= 0; j-- {
			if kept[j].state == 0 && !isFiller(kept[j]) {
				before.n = int8(copy(before.e[:], slices.Delete(kept, j, j+1)))
				break
			}
		}
	}
	next := before.merged(a, place)
	for i, e := range next.entries() {
		if e.first < 0 && e.place != 0 && e.user == a.user {
			next.e[i].first = of
		}
	}
	if left.takeBacks {
		kept := slices.DeleteFunc(slices.Clone(next.entries()), func(e entry) bool { return e.state == 0 && !isFiller(e) })
		next = notice{n: int8(len(kept))}
		copy(next.e[:], kept)
	}
	return next
}

// merged calls the product's merge. If place is 0, the merge gives no place.
func (n notice) merged(a act, place int16) notice {
	rules := notify.Rules{
		LeftOut: func(schema.Act) bool { return false },
		Place:   func(string) string { return placeOf(place) },
	}
	of := actOf(entry{user: a.user, version: a.version, state: a.state})
	result := notify.Merge(n.stored(), []schema.Act{of}, rules)
	next := notice{n: int8(len(result.Acts))}
	for i, stored := range result.Acts {
		e := entryOf(stored)
		if j := slices.IndexFunc(n.entries(), func(old entry) bool { return old.user == e.user }); j >= 0 {
			e.first = n.e[j].first
		}
		next.e[i] = e
	}
	return next
}

// listed returns the product's place in the index, 0 for none.
func (n *notice) listed(left withoutInList) int16 {
	if n.highest(true) == 0 && (left.full || left.placeless && n.highest(false) == 0) {
		return 0
	}
	return placeFrom(n.stored().Place())
}

func (n *notice) stored() schema.Notice {
	acts := make([]schema.Act, n.n)
	for i, e := range n.entries() {
		acts[i] = actOf(e)
	}
	return schema.Notice{User: "ann", Kind: schema.NoticeLike, Target: "post", Acts: acts}
}

var states = []string{"", "like", "love"}

func actOf(e entry) schema.Act {
	return schema.Act{User: string(rune(e.user)), Version: placeOf(int16(e.version)), State: states[e.state], Place: placeOf(e.place)}
}

func entryOf(stored schema.Act) entry {
	return entry{
		user: int8(stored.User[0]), version: int8(placeFrom(stored.Version)), state: int8(slices.Index(states, stored.State)), place: placeFrom(stored.Place), first: -1,
	}
}

// placeOf returns a place or a version as text, "" for 0. The texts sort like the numbers.
func placeOf(n int16) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(int(n) + 10_000)
}

func placeFrom(text string) int16 {
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err) // the merge does not change texts
	}
	return int16(n - 10_000)
}
