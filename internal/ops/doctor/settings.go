package doctor

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"fanfare/internal/daemon"
	"fanfare/internal/schema"
	"fanfare/internal/table"
)

// shared compares the settings that all daemons must share: the local settings if they belong to a
// daemon, and the settings with which the newest process of each role started.
func (e *examination) shared(ctx context.Context, store table.Store) {
	const check = "shared settings"
	roles := daemon.Roles{API: true, Fanout: true, Likes: true}.Names()
	var keys []table.Key
	at := map[string]map[string][]string{} // the places with each value of each variable
	have := func(values map[string]string, where string) {
		for name, value := range values {
			if at[name] == nil {
				at[name] = map[string][]string{}
			}
			if !slices.Contains(at[name][value], where) {
				at[name][value] = append(at[name][value], where)
			}
		}
	}
	for _, role := range roles {
		keys = append(keys, schema.SettingsKey(role))
		if slices.Contains(e.duties, role) {
			have(e.cfg.Shared(role), "here")
		}
	}
	res, err := store.BatchGet(ctx, table.BatchGetInput{Keys: keys, Consistent: true})
	if err != nil {
		return // tableCalls reports the failed call
	}
	slices.SortFunc(res.Items, func(a, b table.Item) int { return strings.Compare(a.Key.SK, b.Key.SK) })
	for _, it := range res.Items {
		s := schema.ParseSettings(it)
		have(s.Values, s.Role+" (started "+s.At.UTC().Format(time.RFC3339)+")")
	}
	differ := false
	for _, name := range slices.Sorted(maps.Keys(at)) {
		if len(at[name]) < 2 {
			continue
		}
		differ = true
		var parts []string
		for _, value := range slices.Sorted(maps.Keys(at[name])) {
			parts = append(parts, value+" at "+strings.Join(at[name][value], ", "))
		}
		e.note(LevelWarning, check, mendShared(name), "%s is %s", name, strings.Join(parts, ", and "))
	}
	if !differ {
		e.ok(check, "all daemons that have started on %s agree, %d of %d roles", e.cfg.Table, len(res.Items), len(roles))
	}
}

// mendShared returns the remedy if daemons have different values of a setting.
func mendShared(name string) string {
	switch name {
	case "FANFARE_NOTIFICATIONS":
		return "make the queue notices with fanfare queues create, then set on at fanout, at likeagg and at api, in this order, and off the other way round: a fanout that is off drops the events"
	case "FANFARE_REACTIONS":
		return "give both the same kinds: add one at likeagg first, and remove it at api first. A kind that likeagg does not know waits, and becomes a dead letter"
	}
	return "give all daemons the same " + name + ", and restart them"
}
