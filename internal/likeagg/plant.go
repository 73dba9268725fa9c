package likeagg

// Plant switches one rule of the protocol off. It is for the simulation only: each
// field is a bug that the simulation has to find, which shows that it looks. The
// zero Plant, the only one in production, plants nothing.
type Plant struct {
	// NoFence takes an unflushed like over without fencing its aggregator.
	NoFence bool
	// OverlapWindows starts a post's window while the former one runs.
	OverlapWindows bool
	// AckBeforeFlush answers messages before their flush.
	AckBeforeFlush bool
	// FlushUnresolved flushes past a write whose outcome is unknown.
	FlushUnresolved bool
	// PrunedNotCounted reads a pruned entry of the ledger as a flush that never
	// happened.
	PrunedNotCounted bool
	// AddTwice repeats a flush whose answer was lost without its condition.
	AddTwice bool
}
