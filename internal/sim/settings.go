package sim

// kinds are the reactions of the worlds besides like.
func kinds() []string { return []string{"love", "wow"} }

// kindsAt returns the kinds of reaction that an aggregator starts with. In some worlds one of the aggregators has
// none in half of its lives, as while FANFARE_REACTIONS is switched on and off: a message of another kind waits for
// an aggregator that knows it, a day at most, and stored reactions of any kind stay counted and can be taken back.
func (w *World) kindsAt(p *Proc) []string {
	if w.shape.Kinds && p.Name == "likeagg-0" && w.rng.IntN(2) == 0 {
		return nil
	}
	return kinds()
}
