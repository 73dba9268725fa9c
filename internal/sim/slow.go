package sim

import "strconv"

// Some races need one slow call while other calls begin and end. In most seeds the calls of one
// kind are slow: about half of these calls wait, for up to mostHeld steps.

const mostHeld = 2000

// slowCalls returns the kinds of call that a seed may slow down, with the names of crashPoints.
// Each kind is a call between a decision and its effect. The value is the number of seeds in 20
// that slow this kind down.
func slowCalls() map[string]int {
	return map[string]int{
		"fanout update home": 2, "fanout transact timeline": 3, "fanout put delivery": 3, "fanout transact post": 1, "likeagg update likecount": 3,
		"fanout publish chunks": 1, "likeagg put likelist": 1, "api transact comment": 1, "api update post": 4, "api transact post": 1,
	}
}

// slowAway returns the kinds of call that a world with away readers slows down: the calls of
// refreshes and returns, and the home reads at the same time.
func slowAway() []string {
	return []string{
		"fanout update follower", "fanout update follower", "fanout update follower", "fanout update home", "fanout query following", "fanout query post",
		"fanout batch_write timeline", "api query home", "api query home", "",
	}
}

// slowInMix returns, by mix, the kinds of call that two thirds of the worlds slow down. These calls
// meet the most frequent operations of the mix.
func slowInMix() map[string][]string {
	return map[string][]string{
		"follows": {"fanout transact timeline"}, "likes": {"likeagg update likecount"}, "posts": {"api update post", "api update post", "api transact comment"},
		noticedMix: {"notify put notif", "notify batch_get home"},
	}
}

// slow returns the kind of call that this world slows down, "" for none. In a crowd slow planners
// work at the same time. During a slow audit the data change between its reads.
func (w *World) slow() string {
	if w.seed%11 == 3 && w.shape.Mix != crowd {
		return "audit"
	}
	if w.shape.Notices && w.shape.Mix != crowd && w.seed%3 == 1 {
		return "notify put notif"
	}
	if w.shape.Mix == crowd {
		return []string{"fanout publish chunks", "fanout put delivery", "fanout put delivery", "fanout put delivery"}[w.seed%4]
	}
	if w.shape.Days > 0 {
		return slowAway()[int(w.seed/2)%len(slowAway())]
	}
	if kinds := slowInMix()[w.shape.Mix]; len(kinds) > 0 && w.seed/2%3 > 0 {
		return kinds[int(w.seed/6)%len(kinds)]
	}
	i := int(w.seed/2) % 20
	for _, kind := range sorted(slowCalls()) {
		if i -= slowCalls()[kind]; i < 0 {
			return kind
		}
	}
	return ""
}

// slow returns the kind of call that a world with lives slows down. In some worlds this is the last
// call of a removal for a bookmark, so that a new life may make the bookmark again meanwhile. With a memory of authors
// it is the second read of a new post, so that a removal may begin and end after the post has read the profile.
func (l *lives) slow(w *World, kind string) string {
	switch {
	case l.on && w.authors != nil:
		return "api query post"
	case l.on && w.seed%26 == 6:
		return "fanout transact bookmark"
	}
	return kind
}

// holds reports whether a call is slow, and must wait.
func (w *World) holds(c *call) bool {
	if !w.faults.Hold || w.off[FaultHold] || c.point() != w.slowed && c.proc.role != w.slowed {
		return false
	}
	if c.parked == 0 {
		c.parked = w.steps
		w.Fired[FaultHold]++
	}
	lot := mix(w.seed, c.name+" held "+strconv.Itoa(w.released[c.name]))
	return lot%2 == 0 && w.steps < c.parked+int(lot>>1%mostHeld)
}

// plannersMeet reports whether chunks are stored so slowly that several planners of one post may
// work at the same time.
func (w *World) plannersMeet() bool { return w.slowed == "fanout put delivery" }
