package messages

import "strings"

const (
	// KindLike is the kind of reaction that every system has.
	KindLike = "like"
	// MaxReaction is the longest name of a kind of reaction.
	MaxReaction = 12
)

// ValidReaction reports whether s can be a kind of reaction.
func ValidReaction(s string) bool {
	return s != "" && len(s) <= MaxReaction && s[0] >= 'a' && s[0] <= 'z' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// Action returns the event for a user's new reaction to a post, "" for none.
func Action(like Like, reaction string) Event {
	switch reaction {
	case "":
		return &Unliked{like}
	case KindLike:
		return &Liked{like}
	default:
		return &Reacted{like, reaction}
	}
}

// ActionOf returns the content of an event that Action makes, and its kind of reaction. ok is false
// for other events.
func ActionOf(e Event) (like *Like, reaction string, ok bool) {
	switch e := e.(type) {
	case *Liked:
		return &e.Like, KindLike, true
	case *Unliked:
		return &e.Like, "", true
	case *Reacted:
		return &e.Like, e.Reaction, true
	}
	return nil, "", false
}
