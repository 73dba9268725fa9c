package config

import (
	"cmp"
	"strings"
)

// Shared returns the settings of a role that all daemons of a deployment must share, by variable. If
// daemons differ, one daemon waits for messages, counts or index entries that no other daemon makes.
func (c Config) Shared(role string) map[string]string {
	shared := map[string]string{"FANFARE_NOTIFICATIONS": word(c.HasNotifications())}
	if role == "api" || role == "likeagg" {
		shared["FANFARE_LIKE_WINDOW"] = c.LikeWindow.String()
		shared["FANFARE_LIKES_BY_USER"] = word(bool(c.LikesByUser))
		shared["FANFARE_REACTIONS"] = cmp.Or(strings.Join(c.Reactions, ","), "none")
	}
	return shared
}

func word(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
