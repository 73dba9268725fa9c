package doctor

import (
	"context"
	"time"

	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// lifetimes compares FANFARE_TIMELINE_TTL with the stored TTL, which all processes use.
func (e *examination) lifetimes(ctx context.Context, store table.Store) {
	const check = "TTL of homes"
	res, err := store.Get(ctx, table.GetInput{Key: schema.LifetimesKey(), Consistent: true})
	if err != nil {
		return // tableCalls reports the failed call
	}
	own := e.cfg.TimelineTTL
	if res.Item == nil {
		e.ok(check, "the table has none yet: the first api or fanout stores FANFARE_TIMELINE_TTL, which is %s", own)
		return
	}
	stored, err := schema.ParseLifetimes(*res.Item)
	if err != nil {
		e.note(LevelFault, check, "restore the item "+schema.LifetimesKey().PK+" from a backup", "%w", err)
		return
	}
	last := stored[len(stored)-1]
	when := "homes show posts for " + stored.Written(e.now()).String()
	if last.From.After(e.now()) {
		when += ", and from " + last.From.Format(time.RFC3339) + " on for " + last.TTL.String()
	}
	if last.TTL != own.Truncate(time.Millisecond) {
		e.note(LevelWarning, check,
			"give all processes the same FANFARE_TIMELINE_TTL: "+last.TTL.String()+" changes nothing; with "+own.String()+" the next api or fanout that starts changes all homes a day later, and a lower one hides older posts for good",
			"%s, and FANFARE_TIMELINE_TTL is %s", when, own)
		return
	}
	e.ok(check, "%s, by FANFARE_TIMELINE_TTL", when)
}
