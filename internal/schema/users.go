package schema

import (
	"strings"
	"time"

	"fanfare/internal/table"
)

// userOf returns the user of a partition whose key is "u#USER" + suffix.
func userOf(pk, suffix string) (string, bool) {
	rest, ok := strings.CutPrefix(pk, "u#")
	if !ok {
		return "", false
	}
	user, ok := strings.CutSuffix(rest, suffix)
	return user, ok && user != "" && !strings.Contains(user, "#")
}

// Profile is a user's description of itself.
type Profile struct {
	User, Name, Bio, ImageURL string
	CreatedAt                 time.Time
	// Data is the user's custom data, in the form of a post's data.
	Data string
	// V is the version of Name and ImageURL. V grows with each change of Name or ImageURL, and is 0 for a
	// profile that a repair made.
	V int64
	// After is an id above all ids of former lives, "" in the first life. Former is the removal that ended
	// the previous life.
	After  string
	Former Removal
}

// Byline returns the byline of the user's posts. A byline that would be too long has no name.
func (p Profile) Byline() Byline {
	if len(p.Name)+len(p.ImageURL) > maxByline {
		return Byline{V: p.V}
	}
	return Byline{p.Name, p.ImageURL, p.V}
}

func (p *Profile) fields(c *codec) *codec {
	c.str(AttrName, &p.Name, always)
	c.str("bio", &p.Bio, always)
	c.str(AttrImageURL, &p.ImageURL, always)
	c.millis(AttrCreated, &p.CreatedAt, always)
	c.num(AttrBylineV, &p.V, optional)
	c.str(AttrData, &p.Data, optional)
	if c.str(AttrAfter, &p.After, optional); p.After != "" {
		p.Former.User = p.User
		p.Former.fields(c)
	}
	return c
}

// Item encodes p.
func (p Profile) Item() table.Item {
	return table.Item{Key: ProfileKey(p.User), Attrs: p.fields(writer()).attrs}
}

// ParseProfile decodes a profile.
func ParseProfile(it table.Item) (Profile, error) {
	user, ok := userOf(it.Key.PK, "")
	if !ok || it.Key.SK != SortInfo {
		return Profile{}, &ParseError{it.Key, "not a profile"}
	}
	p := Profile{User: user}
	p.fields(reader(it))
	return p, nil
}

// Counts are a user's exact counts (I4).
type Counts struct {
	Followers, Following, Posts int64
	// Silent is the number of followers whose follow is silent.
	Silent int64
	// LastDeleted is the id of the newest deleted post, "" if no post was deleted.
	LastDeleted string
	// Upto is the lowest day that a new dated edge of the user may have, 0 for a user without
	// a presence.
	Upto Day
}

// ParseUser reads the items of the partition UserPK: the counts, and the profile, if a profile exists.
func ParseUser(items []table.Item) (profile *Profile, counts Counts, err error) {
	for _, it := range items {
		switch {
		case it.Key.SK == SortInfo:
			p, err := ParseProfile(it)
			if err != nil {
				return nil, Counts{}, err
			}
			profile = &p
		case it.Key.SK == SortCount:
			counts.Posts, counts.Following, counts.LastDeleted = it.Int(AttrPosts), it.Int(AttrFollowing), it.Str(AttrLastDel)
			counts.Upto = Day(it.Int(AttrUptoDay))
		case strings.HasPrefix(it.Key.SK, SortCount+"#followers#"):
			counts.Followers += it.Int(AttrN)
			counts.Silent += it.Int(AttrSilent)
		}
	}
	return profile, counts, nil
}

// ModeState is the stage of an author between push and pull.
type ModeState string

// These constants are the states of a mode. In all states but ModePull, new posts are pushed. In all
// states but ModePush, some followers' homes may merge the author's posts in.
const (
	ModePush      ModeState = "push"
	ModeSwitching ModeState = "switching" // a mark walk prepares the homes of all followers
	ModePull      ModeState = "pull"
	ModeLeaving   ModeState = "leaving" // a mark walk ends the marks
)

// Mode is an author's mode (docs/HYBRID.md). The posts of an author without this item are pushed.
type Mode struct {
	Author string
	State  ModeState
	// V grows by one with each change to ModeSwitching and to ModeLeaving.
	V int64
	// Since is the lowest post id that may be pulled: a ULID made at the change to
	// ModeSwitching.
	Since string
	// At is the time of the last change.
	At time.Time
	// Walked is the last follower whose mark the last walk has handled, "" if there is none. Walker is the
	// event that began the walk, and WalkedAt is the time of the walk's last step.
	Walked, Walker string
	WalkedAt       time.Time
}

// Pulls reports whether a post is pulled if a worker handles the post now.
func (m Mode) Pulls(post string) bool { return m.State == ModePull && post >= m.Since }

// Item encodes a mode whose walk has not begun.
func (m Mode) Item() table.Item {
	return table.Item{Key: ModeKey(m.Author), Attrs: []table.Attr{
		str(AttrMode, string(m.State)), num(AttrModeV, m.V), str(AttrFrom, m.Since), millis(AttrAsOf, m.At),
	}}
}

// ParseMode finds the mode among the items of the partition UserPK.
func ParseMode(author string, items []table.Item) (Mode, error) {
	key := ModeKey(author)
	for _, it := range items {
		if it.Key != key {
			continue
		}
		m := Mode{
			Author: author, State: ModeState(it.Str(AttrMode)), V: it.Int(AttrModeV), Since: it.Str(AttrFrom), At: timeOf(&it, AttrAsOf),
			Walked: it.Str(AttrWalked), Walker: it.Str(AttrWalker), WalkedAt: timeOf(&it, AttrWalkedAt),
		}
		switch m.State {
		case ModePush, ModeSwitching, ModePull, ModeLeaving:
			return m, nil
		}
		return Mode{}, &ParseError{it.Key, "not the mode of an author"}
	}
	return Mode{Author: author, State: ModePush}, nil
}

// Edge is one direction of a follow. Other is the user in the edge's sort key.
type Edge struct {
	Other string
	Since time.Time
	// From is the lowest post id that the follow shows. Only the following edge has From.
	From string
	// V is the time of an imported follow's version, if that time is later than Since. Zero means Since. V
	// is above the user's former lives. Only the following edge has V.
	V time.Time
	// Until is the last day whose posts are pushed along the edge, 0 for every day. Only the follower edge
	// has Until.
	Until Day
	// Silent is set if only the follower sees the follow.
	Silent bool
}

// Pushed reports whether posts of a day are pushed along an edge under the author.
func Pushed(edge *table.Item, day Day) bool {
	until := edge.Get(AttrUntil)
	return until.IsZero() || Day(until.Int()) >= day
}

// DatedFollowerItem encodes an edge under the author, with a last day of pushes.
func DatedFollowerItem(author, follower string, since time.Time, until Day) table.Item {
	it := FollowerItem(author, follower, since)
	if until != 0 {
		it.Attrs = append(it.Attrs, num(AttrUntil, int64(until)))
	}
	return it
}

// FollowerItem encodes the edge under the followed author.
func FollowerItem(author, follower string, since time.Time) table.Item {
	return table.Item{Key: FollowerKey(author, follower), Attrs: []table.Attr{millis(AttrSince, since)}}
}

// FollowingItem encodes the edge under the follower.
func FollowingItem(follower, author string, since time.Time, from string) table.Item {
	return table.Item{Key: FollowingKey(follower, author), Attrs: []table.Attr{millis(AttrSince, since), str(AttrFrom, from)}}
}

// ImportedFollowingItem encodes the edge under the follower for a follow whose version has the later
// time v.
func ImportedFollowingItem(follower, author string, since time.Time, from string, v time.Time) table.Item {
	it := FollowingItem(follower, author, since, from)
	if !v.Equal(since) {
		it.Attrs = append(it.Attrs, millis(AttrEdgeV, v))
	}
	return it
}

// SilentEdge marks an edge of either direction as an edge of a silent follow.
func SilentEdge(it table.Item) table.Item {
	it.Attrs = append(it.Attrs, num(AttrSilent, 1))
	return it
}

// ParseEdge decodes an edge of either direction.
func ParseEdge(it table.Item) (Edge, error) {
	other, ok := UserOfSK(it.Key.SK)
	if !ok {
		return Edge{}, &ParseError{it.Key, "not an edge"}
	}
	return Edge{other, timeOf(&it, AttrSince), it.Str(AttrFrom), timeOf(&it, AttrEdgeV), Day(it.Int(AttrUntil)), it.Has(AttrSilent)}, nil
}

// Version returns the time that decides to which life of its users a follow belongs.
func (e Edge) Version() time.Time {
	if e.V.IsZero() {
		return e.Since
	}
	return e.V
}
