package home

import (
	"context"

	"fanfare/internal/fault"
	"fanfare/internal/feed/access"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

const (
	// awayEdges is the number of edges that one transaction dates back.
	awayEdges = 25
	// awaySince is the number of days since the last activity of a reader that PutAway makes away. The gap
	// begins a day later, and clock skew is less than a day.
	awaySince = 2
)

// PutAway makes user a reader whose last visit is older than the active days. PutAway is for
// development, so that nobody has to wait for days. A call may be repeated.
//
// The home misses no post (I1), as if the days had passed. PutAway first gives the presence the past
// day, so each later home read begins a return from that day on. A transaction dates an edge back only
// if the presence still has the past day, and a return changes the presence before the return raises
// the edges. So no edge that a return has raised is dated back.
func (h *Homes) PutAway(ctx context.Context, user string) error {
	if err := h.access.RequireWriter(ctx, user); err != nil {
		return err
	}
	if h.access.ActiveDays == 0 {
		return fault.NotFoundf("no reader is ever away here: FANFARE_ACTIVE_DAYS is 0")
	}
	return h.access.RetryChanged(func() (bool, error) {
		p, err := h.datePresenceBack(ctx, user)
		if err == nil {
			err = h.dateEdgesBack(ctx, p)
		}
		return access.ConditionFailed(err), fault.Wrap("table", err)
	})
}

// datePresenceBack gives the reader's presence a past day.
func (h *Homes) datePresenceBack(ctx context.Context, user string) (p schema.Presence, err error) {
	it, err := h.access.Get(ctx, schema.PresenceKey(user), true)
	if err != nil {
		return p, err
	}
	past := schema.DayOf(h.access.Now()) - awaySince
	if it == nil {
		p = schema.Presence{User: user, State: schema.PresenceHere, Until: past}
		_, err = h.access.Store.Transact(ctx, table.TransactInput{Ops: []table.TransactOp{
			{Put: &table.PutInput{Item: p.Item(), If: table.Absent{}}},
			{Update: &table.UpdateInput{
				Key: schema.CountsKey(user), Set: []table.Attr{{Name: schema.AttrUptoDay, Value: table.N(int64(past))}},
				If: table.AttrAbsent{Name: schema.AttrUptoDay},
			}},
		}})
		return p, err
	}
	if p, err = schema.ParsePresence(*it); err != nil || p.State == schema.PresenceHere && p.Until <= past {
		return p, err
	}
	if p.State != schema.PresenceHere {
		return p, &fault.Error{Kind: fault.Unavailable, Detail: "the home is being rebuilt: try again", RetryAfter: fault.RetryAfter}
	}
	_, err = h.access.Store.Transact(ctx, table.TransactInput{Ops: []table.TransactOp{{Update: &table.UpdateInput{
		Key: schema.PresenceKey(user), Set: []table.Attr{{Name: schema.AttrUntil, Value: table.N(int64(past))}}, If: samePresence(p),
	}}}})
	p.Until = past
	return p, err
}

// dateEdgesBack gives all edges of a reader the day of the reader's presence, while the presence has
// this day.
func (h *Homes) dateEdgesBack(ctx context.Context, p schema.Presence) error {
	for page, err := range h.access.Store.Query(ctx, table.Query{PK: schema.FollowingPK(p.User), PageSize: awayEdges, Consistent: true}) {
		if err != nil {
			return err
		}
		ops := []table.TransactOp{{Check: &table.CheckInput{Key: schema.PresenceKey(p.User), If: samePresence(p)}}}
		for _, it := range page.Items {
			edge, err := schema.ParseEdge(it)
			if err != nil {
				return err
			}
			ops = append(ops, table.TransactOp{Update: &table.UpdateInput{
				Key: schema.FollowerKey(edge.Other, p.User), Set: []table.Attr{{Name: schema.AttrUntil, Value: table.N(int64(p.Until))}}, If: table.Exists{},
			}})
		}
		if len(ops) == 1 {
			continue
		}
		if _, err := h.access.Store.Transact(ctx, table.TransactInput{Ops: ops}); err != nil {
			return err
		}
	}
	return nil
}

// samePresence holds while a presence has not changed since the read.
func samePresence(p schema.Presence) table.Cond {
	return table.All{
		table.Equal{Name: schema.AttrPresence, Value: table.S(string(p.State))}, table.Equal{Name: schema.AttrModeV, Value: table.N(p.V)},
		table.Equal{Name: schema.AttrUntil, Value: table.N(int64(p.Until))},
	}
}
