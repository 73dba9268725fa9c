package sim

// kinds returns the reactions of the worlds besides like.
func kinds() []string { return []string{"love", "wow"} }

// kindsAt returns the kinds of reaction that an aggregator starts with. In some worlds one of the
// aggregators has no kinds in half of its lives, as while an operator switches FANFARE_REACTIONS on
// and off. A message of another kind waits, a day at most, for an aggregator that knows the kind.
// Stored reactions of any kind stay counted and can be taken back.
func (w *World) kindsAt(p *Proc) []string {
	if w.shape.Kinds && p.Name == "likeagg-0" && w.rng.IntN(2) == 0 {
		return nil
	}
	return kinds()
}
