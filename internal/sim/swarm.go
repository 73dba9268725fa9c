package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Each seed draws its own sizes, its own mix of operations and its own subset of the faults. A
// world with all operations and faults hides many states: one fault ends the condition that another
// fault needs, and equal sizes reach the same bounds again and again. A world with few kinds tests
// each kind more deeply (swarm testing, Groce et al., 2012).

// Shape is the drawn part of a world.
type Shape struct {
	// Users is the number of users. Prefixes means that some ids of users are prefixes of other ids.
	Users    int
	Prefixes bool
	// Mix names the mix, which has the percentages of the operations.
	Mix        string
	Operations int
	// Page, Chunk and Plan are the sizes of a fan-out: followers in a page, followers in a chunk, and
	// chunks in a message.
	Page, Chunk, Plan int
	// Recent is the number of posts that a follow shows. PerShard is the number of followers
	// for each like shard.
	Recent, PerShard int
	// Held is the maximum number of messages that a process holds.
	Held int
	// Pace scales the time of a step in which nothing happens.
	Pace int
	// Storm scales the rates of the faults. Off has the kinds of fault that never happen.
	Storm float64
	Off   []string
	// Hours means that clocks are hours apart. Midnight means that a storm begins shortly before midnight.
	Hours, Midnight bool
	// Early is the time by which the sweep's clock is ahead, so that items are deleted before they expire.
	Early time.Duration
	// Limit is the push limit of most workers, 0 for none. Heads means that the APIs share the newest posts of
	// pulled authors.
	Limit int
	Heads bool
	// Events means that workers send the events of applied work to other programs.
	Events bool
	// Days are the active days of most processes. 0 means that no process has active days. Night is the number of
	// operations after which time passes, so that readers are away.
	Days, Night int
	// Long turns the days between two storms into weeks. Ages means that likes stay open before these weeks.
	Long, Ages bool
	// Units is the number of units that a user's calls may cause in an hour, 0 for no limit.
	Units int64
	// TTLs means that processes start with different TTLs of homes.
	TTLs bool
	// Hot means that partitions fill for seconds.
	Hot bool
	// Kinds means that an aggregator has no kinds of reaction in some of its lives.
	Kinds bool
	// Notices means that users have notifications.
	Notices bool
	// Doubts means that the clocks of some workers are in doubt in some of their lives.
	Doubts bool
	// Switched means that notifications are off in some lives of some processes.
	Switched bool
	// Lag is the maximum age of an eventually consistent read, and IndexLag is the maximum age of a read of the index.
	Lag, IndexLag time.Duration
}

// share is the percentage of a kind of operation.
type share struct {
	kind    string
	percent int
}

// mixes returns the percentages of the operations by the name of the mix.
func mixes() map[string][]share {
	return map[string][]share{
		"even": {
			{"post", 19}, {"delete", 6}, {"follow", 12}, {"unfollow", 9}, {"like", 10}, {"react", 6}, {"unlike", 5},
			{"poison", 2}, {"stray", 1}, {"profile", 2}, {"home", 5}, {"stream", 2}, {"bookmark", 2}, {"unbookmark", 1}, {"marker", 2},
			{"mute", 2}, {"unmute", 1}, {"block", 1}, {"unblock", 1},
			{"comment", 5}, {"uncomment", 3}, {"comments", 1}, {"edit", 2},
		},
		"likes": {
			{"post", 4}, {"delete", 1}, {"follow", 3}, {"unfollow", 1}, {"like", 24}, {"react", 20}, {"unlike", 24},
			{"burst", 20}, {"poison", 1}, {"stray", 1}, {"home", 1},
		},
		"follows": {
			{"post", 14}, {"delete", 4}, {"follow", 35}, {"unfollow", 24}, {"like", 3}, {"poison", 1}, {"home", 11}, {"stream", 3},
			{"mute", 2}, {"unmute", 1}, {"block", 1}, {"unblock", 1},
		},
		"posts": {
			{"post", 30}, {"delete", 20}, {"follow", 7}, {"unfollow", 4}, {"like", 3}, {"react", 2}, {"unlike", 2}, {"burst", 2},
			{"home", 5}, {"stream", 3}, {"comment", 5}, {"uncomment", 3}, {"comments", 1}, {"edit", 8}, {"bookmark", 2}, {"unbookmark", 1}, {"marker", 2},
		},
		away: {
			{"post", 24}, {"delete", 3}, {"follow", 16}, {"unfollow", 12}, {"home", 34}, {"stream", 6}, {"mute", 1}, {"unmute", 1}, {"edit", 1}, {"poison", 1}, {"profile", 1},
		},
		noticedMix: {
			{"post", 6}, {"delete", 4}, {"follow", 9}, {"unfollow", 7}, {"like", 32}, {"unlike", 22}, {"burst", 5}, {"mute", 2}, {"unmute", 1}, {"block", 1}, {"unblock", 1},
			{"comment", 6}, {"uncomment", 3}, {"home", 1},
		},
		crowd: {
			{"post", 20}, {"delete", 5}, {"follow", 16}, {"unfollow", 14}, {"like", 10}, {"react", 4}, {"unlike", 8}, {"burst", 8},
			{"home", 8}, {"stream", 2}, {"comment", 3}, {"edit", 2},
		},
	}
}

// noticedMix is the mix of a world whose users act on few posts, for notifications.
const noticedMix = "noticed"

// crowd is the mix of a world with many users, most of whom follow the first user.
const crowd = "crowd"

// away is the mix of a world in which readers are away for days.
const away = "away"

// plain returns the shape of a world that draws no shape: the worlds of tests of the simulation itself, and
// calm worlds.
func plain() Shape {
	return Shape{
		Users: 6, Mix: "even", Operations: defaultOperations, Page: 2, Chunk: 2, Plan: 2, Recent: 3, PerShard: 2, Held: 10, Pace: 1, Storm: 1,
		Lag: time.Second, IndexLag: time.Second,
	}
}

// shapeOf returns the shape of a seed. The shape draws from a stream of its own, so shrinking does not change
// it.
func shapeOf(seed uint64, o Options) Shape {
	s := plain()
	if !o.Calm && !o.Plain {
		s.draw(rand.New(rand.NewPCG(seed, 1<<40)))
		s.unkind(rand.New(rand.NewPCG(seed, 1<<41)))
		if seed%probeEvery == 0 { // the calm part counts calls
			s.TTLs, s.Units, s.Notices, s.Switched, s.Doubts = false, 0, false, false, false
		}
	}
	if o.Operations > 0 {
		s.Operations = o.Operations
	}
	return s
}

func (s *Shape) draw(r *rand.Rand) {
	one := func(of ...int) int { return of[r.IntN(len(of))] }
	s.Users = one(2, 3, 4, 4, 5, 6, 6, 6, 8, 12)
	s.Prefixes = r.IntN(2) == 0
	s.Mix = []string{"even", "even", "even", "likes", "follows", "posts"}[r.IntN(6)]
	s.Pace = one(1, 1, 5, 25)
	s.Long = r.IntN(3) == 0
	if s.Ages = r.IntN(4) == 0; s.Ages {
		s.Users, s.Mix, s.Pace, s.Long = one(3, 5, 8, 12), "likes", one(5, 25), true
	}
	s.Operations = one(80, 120, 160)
	if s.Mix == "likes" && !s.Ages {
		s.Operations *= 2
	}
	s.Page, s.Chunk, s.Plan = one(1, 2, 2, 3), one(1, 2, 2, 3, 5), one(1, 2, 3)
	switch x := r.IntN(60); {
	case s.Ages:
	case x == 0: // a crowd: followers over many pages and chunks
		s.Users, s.Mix = one(30, 50, 80, 200), crowd
		s.Page, s.Chunk, s.Plan = one(5, 9), one(5, 10, 20), one(1, 2, 3)
	case x < 13: // a small limit that changes while planners cut the followers
		s.Users, s.Mix, s.Page, s.Chunk, s.Plan = one(9, 12, 16), crowd, 2, 2, one(2, 2, 3)
	}
	s.Recent, s.PerShard = one(1, 3, 3, 5), one(1, 2, 2, 3, 1000)
	s.Held = one(2, 5, 10, 10, 20)
	s.Storm = []float64{.3, 1, 1, 1.7}[r.IntN(4)]
	if r.IntN(4) > 0 {
		for _, kind := range Faults() {
			if kind != FaultHot && !slices.Contains(append(unkindnesses(), lifeFaults()...), kind) && r.IntN(4) == 0 { // Hot decides FaultHot
				s.Off = append(s.Off, kind)
			}
		}
	}
	s.Hours = r.IntN(6) == 0
	s.Midnight = r.IntN(3) == 0
	if r.IntN(3) == 0 {
		s.Early = time.Duration(r.IntN(50)) * time.Minute
	}
	s.Limit = one(0, 0, 1, 2, 3)
	if s.Mix == crowd && r.IntN(4) > 0 { // a pulled author's posts have no chunks
		s.Limit = 0
	}
	if !s.Ages && r.IntN(3) == 0 {
		s.Days, s.Night, s.Recent = one(2, 2, 3), one(6, 10, 15), one(3, 5)
		if s.Mix != crowd && r.IntN(4) > 0 {
			s.Mix, s.Users = away, one(2, 3, 3, 4, 6)
		}
	}
	s.Heads = r.IntN(5) > 0
	s.Events = r.IntN(2) == 0
	s.TTLs = r.IntN(3) == 0
	s.Hot = r.IntN(3) == 0
	s.Units = int64(one(0, 0, 100, 300, 2000))
	if s.Kinds = r.IntN(4) == 0 && !s.Long; s.Kinds { // a reaction waits a day for an aggregator that knows its kind
		s.Off = append(s.Off, FaultDays, FaultNights, FaultSleep)
	}
	s.Notices = r.IntN(2) == 0
	if s.Notices && s.Mix == "even" && r.IntN(2) == 0 {
		s.Mix = noticedMix
	}
	s.Switched = s.Notices && r.IntN(4) == 0
	s.Doubts = !s.Hours && r.IntN(6) == 0
}

// drawn returns the user of an operation, as an index, and the kind of the operation, by the percentage of
// each kind.
func (s Shape) drawn(seed uint64, number int) (user int, kind string) {
	r := draws(seed, number, 0)
	user = r.IntN(s.Users)
	x := r.IntN(100)
	for _, of := range mixes()[s.Mix] {
		kind = of.kind
		if x -= of.percent; x < 0 {
			break
		}
	}
	if s.Mix == crowd && r.IntN(3) > 0 && slices.Contains([]string{"post", "delete", "edit"}, kind) {
		user = 0
	}
	return user, kind
}

// names returns the ids of the users.
func (s Shape) names() []string {
	if !s.Prefixes {
		names := make([]string, s.Users)
		for i := range names {
			names[i] = fmt.Sprintf("u%d", i)
		}
		return names
	}
	// Each name sorts after its own beginning, and the letters sort below, between and above the digits and
	// the cases.
	names := []string{"a"}
	for i := 0; len(names) < s.Users; i++ {
		for _, letter := range "-0Az_" {
			names = append(names, names[i]+string(letter))
		}
	}
	return names[:s.Users]
}

// rates returns the odds of the faults in a storm.
func (s Shape) rates() Rates {
	r := Stormy()
	for _, rate := range []*float64{
		&r.Fail, &r.Unsent, &r.Lost, &r.Late, &r.Partial, &r.Stale, &r.Torn, &r.Split, &r.Halve, &r.Crash, &r.Pause, &r.Dup, &r.Expire, &r.AckLost, &r.Backstop, &r.Throttle, &r.Heat, &r.Conflict,
		&r.Slow, &r.Stop, &r.Sleep, &r.Step, &r.Leap, &r.Bury, &r.Sweep, &r.History,
	} {
		*rate *= s.Storm
	}
	if !s.Hot {
		r.Heat = 0
	}
	switch s.Mix {
	case crowd: // a crowd is for several planners of one post
		r.Dup, r.Expire = 2*r.Dup, 4*r.Expire
	case "likes": // sleepers between a put and its flush
		r.Pause *= 2
	}
	if s.Ages {
		r.Sleep, r.Bury, r.History = 3*r.Sleep, 5*r.Bury, 3*r.History
	}
	return r
}

func (s Shape) String() string {
	var more []string
	for what, is := range map[string]bool{"ids are prefixes": s.Prefixes, "clocks hours apart": s.Hours, "midnight": s.Midnight, "weeks": s.Long, "likes left open": s.Ages, "shared heads": s.Heads, "events": s.Events, "TTLs change": s.TTLs, "full partitions": s.Hot, "notifications": s.Notices, "notifications on and off": s.Switched, "clocks in doubt": s.Doubts} {
		if is {
			more = append(more, what)
		}
	}
	slices.Sort(more)
	return fmt.Sprintf("%d users, %d operations of mix %s, pages of %d, chunks of %d, plans of %d, follows show %d, %d followers a like shard, %d held, push limit %d, %d active days, %d units an hour, pace %d, storm %.1f, early %s, reads %s and index %s late, %s; left out: %s",
		s.Users, s.Operations, s.Mix, s.Page, s.Chunk, s.Plan, s.Recent, s.PerShard, s.Held, s.Limit, s.Days, s.Units, s.Pace, s.Storm, s.Early, s.Lag, s.IndexLag,
		cmp.Or(strings.Join(more, ", "), "nothing more"), cmp.Or(strings.Join(s.Off, ", "), "nothing"))
}
