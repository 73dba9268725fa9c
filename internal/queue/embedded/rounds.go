package embedded

// rounds gives each message of a topic its round: all groups that have messages
// get one into each round, and rounds are delivered one after the other. That is
// start-time fair queueing with messages of equal cost, so the order of the keys on
// disk is the fair order and the backlog needs no memory (I8, I9).
//
// The last round of each group is kept in a count-min sketch: bounded memory for
// any number of groups. Where two groups meet in both rows, the lesser waits
// longer than its share; with 16,384 cells a row that happens to one pair in
// 268 million.
//
// The sketch is not stored. After a restart a group with a backlog may get a second
// message into a round; one without a backlog loses nothing by that.
type rounds struct {
	rows [2][sketchCells]uint64
}

const sketchCells = 1 << 14

// returning tells a message that comes again from its group's new ones: it must not
// wait behind their backlog, nor may many of them take all of a round.
const returning = 0x9E3779B97F4A7C15

// next returns the round of a new message of flow, current being the round that
// is delivered now.
func (r *rounds) next(flow, current uint64) uint64 {
	a := &r.rows[0][flow%sketchCells]
	b := &r.rows[1][(flow>>32)%sketchCells]
	round := max(current, min(*a, *b)+1)
	*a = max(*a, round)
	*b = max(*b, round)
	return round
}
