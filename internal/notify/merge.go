package notify

import (
	"cmp"
	"slices"

	"fanfare/internal/schema"
)

// Rules decide about actions that begin to hold.
type Rules struct {
	// LeftOut reports whether the notification leaves out an action that begins to hold.
	LeftOut func(schema.Act) bool
	// Place returns a new place above the place above, which is "" if there is no earlier place.
	Place func(above string) string
}

// Merge returns n with actions in it. It finds the newest action of each user, or of each comment
// and mention, and keeps the newest of these actions. Except for places, the result depends neither
// on the order of the actions, nor on repetitions, nor on the number of calls (I13).
//
//   - A take-back stays as an action that does not hold, so an older message of the same action
//     finds the take-back. Take-backs push out older actions as any other action does: a rule that
//     kept only holding actions would depend on the order.
//   - An action gets a place when it first holds, and keeps the place whatever its state becomes:
//     a like that was taken back and given again is no news (I14).
func Merge(n schema.Notice, acts []schema.Act, rules Rules) schema.Notice {
	merged := n
	merged.Acts = slices.Clone(n.Acts)
	acts = slices.Clone(acts)
	slices.SortStableFunc(acts, func(a, b schema.Act) int {
		switch {
		case b.Replaces(a):
			return -1
		case a.Replaces(b):
			return 1
		}
		return cmp.Compare(a.User, b.User)
	})
	for _, act := range acts {
		add(&merged, act, rules.LeftOut)
	}
	slices.SortFunc(merged.Acts, func(a, b schema.Act) int {
		return cmp.Or(cmp.Compare(b.Version, a.Version), cmp.Compare(a.User, b.User))
	})
	merged.Acts = merged.Acts[:min(len(merged.Acts), schema.NoticeActs)]
	for i, act := range slices.Backward(merged.Acts) {
		if act.Holds() && act.Place == "" {
			merged.Acts[i].Place = rules.Place(merged.Highest())
		}
	}
	return merged
}

// add replaces an older action by act if both have the same key.
func add(n *schema.Notice, act schema.Act, leftOut func(schema.Act) bool) {
	act.Place = ""
	i := slices.IndexFunc(n.Acts, func(a schema.Act) bool { return a.Key(n.Kind) == act.Key(n.Kind) })
	held := false
	if i >= 0 {
		old := n.Acts[i]
		if !act.Replaces(old) {
			return
		}
		act.Place, held = old.Place, old.Holds()
	}
	if act.Holds() && !held && leftOut(act) {
		return
	}
	if i >= 0 {
		n.Acts[i] = act
		return
	}
	n.Acts = append(n.Acts, act)
}
