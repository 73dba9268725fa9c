package pair

import "fanfare/internal/stream"

// announces returns the safe point that the standby may apply up to. What a start of a primary has read from its logs has one time, and
// between the stores no order, so there is no safe point inside it. A second start reads, with another time, the rest of the logs that the first
// start has not spooled: write forgets the time between the two, so that the change of the time is no safe point. And the standby may have
// bytes of the last log which a crash of this machine has undone: they are never safe.
func (s *session) announces(safe stream.Position) stream.Position {
	at, rest := s.at, s.primary.rest
	if !at.Covers(rest) {
		at = s.before
	}
	for store := stream.Queue; store <= stream.Table; store++ {
		if end := rest.Of(store); end.Log == at.Of(store).Log && end.Before(at.Of(store)) {
			at = at.With(store, end)
		}
	}
	return least(at, safe)
}
