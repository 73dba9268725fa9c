package embedded

// rounds computes the fair order of a topic's messages. Every group with messages gets one
// message into each round, and rounds are delivered one after another. This is start-time fair
// queueing with messages of equal cost. The order of the keys on disk is the fair order, so the
// backlog needs no memory (I8, I9).
//
// A count-min sketch keeps the last round of each group in bounded memory, for any number of
// groups. If two groups share a cell in both rows, the smaller group waits longer than its
// share. With 16,384 cells in a row, one pair of groups in 268 million shares both cells.
//
// The sketch is not stored. After a restart a group with a backlog may get a second message
// into a round. This costs nothing for a group without a backlog.
type rounds struct {
	rows [2][sketchCells]uint64
}

const sketchCells = 1 << 14

// returning marks the flow of a redelivered message. Such a message has rounds of its own. So
// it does not wait for the backlog of its group's new messages, and many redelivered messages
// cannot fill a round.
const returning = 0x9E3779B97F4A7C15

// next returns the round of a new message with a flow. current is the round that is being delivered.
func (r *rounds) next(flow, current uint64) uint64 {
	a := &r.rows[0][flow%sketchCells]
	b := &r.rows[1][(flow>>32)%sketchCells]
	round := max(current, min(*a, *b)+1)
	*a = max(*a, round)
	*b = max(*b, round)
	return round
}
