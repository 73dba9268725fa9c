package apitest

import "strings"

// eventRows let a service read the events of the rows above.
func eventRows(target Target) []row {
	const path = "/v1/events"
	refused := func(name, query string, fields ...string) row {
		return bad("events, "+name, "service", "GET", path+"?"+query, "", 422, "invalid", fields...)
	}
	rows := []row{
		bad("events for a user", "ann", "GET", path, "", 403, "forbidden"),
		bad("events without a token", "", "GET", path, "", 401, "unauthenticated"),
		refused("limit of 0", "limit=0", "limit"),
		refused("limit of 1001", "limit=1001", "limit"),
		refused("a wait of 21 s", "wait_s=21", "wait_s"),
		refused("a wait that is no number", "wait_s=long", "wait_s"),
		refused("after too long", "after="+strings.Repeat("0", 65), "after"),
	}
	if !target.Events {
		return append(rows, bad("events, switched off", "service", "GET", path, "", 404, "events-off"))
	}
	first := object{"events": []any{object{"position": "*", "event": object{"type": "*", "version": 1, "event_id": "*", "time": "*"}}}, "next": "*"}
	return append(rows,
		row{name: "the first event", as: "service", method: "GET", path: path + "?limit=1&wait_s=20", status: 200, want: first, keep: member("first_event", "next")},
		row{name: "the event behind it", as: "deleter", method: "GET", path: path + "?limit=1&wait_s=20&after={first_event}", status: 200, want: first, keep: member("second_event", "next")},
		row{name: "the same event again, for a service that names a user", as: "service", method: "GET", path: path + "?limit=1&after={first_event}", header: headers("Fanfare-User", "{ben}"), status: 200,
			want: object{"events": []any{object{"position": "{second_event}"}}, "next": "{second_event}"}},
		refused("after that is no position", "after=01JZ0000000000000000000000", "after"),
		refused("after in another spelling", "after="+strings.Repeat("F", 32), "after"),
		refused("after in the future", "after="+strings.Repeat("f", 32), "after"),
	)
}
