package embedded

// rounds are the fair order of a topic's messages. Every group that has messages gets
// one into each round, and rounds are delivered one after the other. This is start-time
// fair queueing with messages of equal cost. So the order of the keys on disk is the
// fair order, and the backlog needs no memory (I8, I9).
//
// A count-min sketch keeps the last round of each group in bounded memory, for any
// number of groups. If two groups share a cell in both rows, the smaller one waits
// longer than its share. With 16,384 cells a row that happens to one pair in 268
// million.
//
// The sketch is not stored. After a restart a group with a backlog may get a second
// message into a round, which costs a group without a backlog nothing.
type rounds struct {
	rows [2][sketchCells]uint64
}

const sketchCells = 1 << 14

// returning marks the flow of a message that comes again. It then has rounds of its own:
// it does not wait for the backlog of its group's new messages, and many such messages
// cannot fill a round.
const returning = 0x9E3779B97F4A7C15

// next returns the round of a new message of flow. Current is the round that is
// delivered now.
func (r *rounds) next(flow, current uint64) uint64 {
	a := &r.rows[0][flow%sketchCells]
	b := &r.rows[1][(flow>>32)%sketchCells]
	round := max(current, min(*a, *b)+1)
	*a = max(*a, round)
	*b = max(*b, round)
	return round
}
