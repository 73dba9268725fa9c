package sim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/schema"
)

// movedLine is a line of an import or of an export, in the format of docs/IMPORT.md.
type movedLine struct {
	Type       string          `json:"type"`
	ID         string          `json:"id,omitempty"`
	PostID     string          `json:"post_id,omitempty"`
	QuoteOf    string          `json:"quote_of,omitempty"`
	AuthorID   string          `json:"author_id,omitempty"`
	FollowerID string          `json:"follower_id,omitempty"`
	UserID     string          `json:"user_id,omitempty"`
	OtherID    string          `json:"other_id,omitempty"`
	Name       string          `json:"name,omitempty"`
	Bio        string          `json:"bio,omitempty"`
	Text       string          `json:"text,omitempty"`
	ImageURL   string          `json:"image_url,omitempty"`
	Images     []movedImage    `json:"images,omitempty"`
	From       string          `json:"from,omitempty"`
	Silent     bool            `json:"silent,omitempty"`
	Kind       string          `json:"kind,omitempty"`
	Position   string          `json:"position,omitempty"`
	Time       time.Time       `json:"time"`
	EditedAt   *time.Time      `json:"edited_at,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
	Mentions   []string        `json:"mentions,omitempty"`
	ExpiresAt  *time.Time      `json:"expires_at,omitempty"`
}

// movedImage is an image of a post in such a line.
type movedImage struct {
	URL    string `json:"url"`
	Alt    string `json:"alt,omitempty"`
	Width  int    `json:"width,omitempty"`
	Height int    `json:"height,omitempty"`
}

// movedImages returns the images of a post as lines have them.
func movedImages(images []feed.Image) (moved []movedImage) {
	for _, m := range images {
		of := movedImage{URL: m.URL, Alt: m.Alt}
		if m.Width != nil {
			of.Width = *m.Width
		}
		if m.Height != nil {
			of.Height = *m.Height
		}
		moved = append(moved, of)
	}
	return moved
}

// network is a drawn network of the townsfolk with all kinds of record of the format.
type network struct {
	r    *rand.Rand
	now  time.Time
	text string
	ends map[string]time.Time
	// posts has the posts without an end, and the posts whose end has not passed.
	posts []movedLine
	// reposters has a user with a repost of a post, by the text of the post.
	reposters map[string]string
	fault     error
}

// drawNetwork draws the lines of an import. All times are far enough in the past for every clock.
func drawNetwork(r *rand.Rand, now time.Time) network {
	n := network{r: r, now: now, ends: map[string]time.Time{}, reposters: map[string]string{}}
	users := townsfolk()
	for i, user := range users {
		line := movedLine{Type: "user", ID: user, Name: "File " + user, Time: n.ago(400 * day)}
		if i%2 == 1 {
			line.Bio, line.ImageURL, line.Data = "moves", "https://example.com/"+user, json.RawMessage(`{"n":1,"of":[`+fmt.Sprint(i)+`]}`)
		}
		n.add(line)
	}
	for i := range 8 {
		n.post(i, users[r.IntN(len(users))])
	}
	for _, user := range users {
		for _, other := range users {
			n.pair(user, other)
		}
	}
	n.references()
	for i := range 10 {
		post, author := n.posts[r.IntN(len(n.posts))], users[r.IntN(len(users))]
		line := movedLine{Type: "comment", ID: fmt.Sprint("c", i), PostID: post.ID, AuthorID: author, Text: fmt.Sprint("comment ", i), Time: n.ago(13 * time.Hour)}
		if i%3 == 0 {
			line.Data, line.Mentions = json.RawMessage(`{"at":12}`), []string{users[0]}
		}
		n.add(line)
	}
	for _, user := range users {
		for _, post := range n.posts {
			if x := r.IntN(4); x < 2 {
				n.add(movedLine{Type: "like", PostID: post.ID, UserID: user, Kind: []string{"", "", kinds()[0], kinds()[1]}[r.IntN(4)], Time: n.ago(time.Duration(1+r.IntN(60)) * day)})
			} else if x == 2 && r.IntN(2) == 0 {
				n.add(movedLine{Type: "bookmark", PostID: post.ID, UserID: user, Time: n.ago(13 * time.Hour)})
			}
		}
		if r.IntN(2) == 0 {
			n.add(movedLine{Type: "marker", UserID: user, Name: "home", Position: "page:" + user, Time: n.ago(2 * day)})
		}
	}
	return n
}

func (n *network) ago(d time.Duration) time.Time { return n.now.Add(-d).UTC() }

func (n *network) add(line movedLine) {
	text, err := json.Marshal(line)
	if err != nil {
		n.fault = err
	}
	n.text += string(text) + "\n"
}

// post adds a young post that homes show, or an old post. The post may have an end that has passed
// or has not.
func (n *network) post(i int, author string) {
	age := []time.Duration{400 * day, 40 * day, 20 * day, 5 * day, 5 * day, 2 * day, 2 * day, 13 * time.Hour}[n.r.IntN(8)]
	line := movedLine{Type: "post", ID: fmt.Sprint("p", i), AuthorID: author, Text: fmt.Sprint("post ", i, " of ", author), Time: n.ago(age + time.Duration(i)*time.Millisecond)}
	switch n.r.IntN(5) {
	case 0:
		line.Kind, line.Data, line.Mentions, line.Images = "album", json.RawMessage(`{"a":["é"]}`), []string{townsfolk()[0]}, []movedImage{{URL: "https://example.com/a.png", Alt: "é", Width: 3, Height: 2}, {URL: "https://example.com/b.png"}}
	case 1:
		at := line.Time.Add(time.Hour)
		line.EditedAt = &at
	case 2:
		end := n.now.Add(20 * day).UTC()
		if n.r.IntN(3) == 0 && i > 0 {
			end = line.Time.Add(2 * time.Hour).Truncate(time.Second)
		}
		line.ExpiresAt = &end
	}
	if line.ExpiresAt != nil {
		n.endsAt(line, *line.ExpiresAt)
	}
	if line.ExpiresAt == nil || line.ExpiresAt.After(n.now) {
		n.posts = append(n.posts, line)
	}
	n.add(line)
}

// endsAt notes the end of a post by the id that an import gives the post.
func (n *network) endsAt(line movedLine, end time.Time) {
	made, err := id.Named(line.Time, line.Type+"\x00"+line.ID)
	if err != nil {
		n.fault = err
	}
	n.ends[made] = end
}

// references adds reposts and quotes of posts. Half of the quotes are before the lines of their originals.
func (n *network) references() {
	posts := slices.Clone(n.posts)
	for i, user := range townsfolk() {
		post := posts[n.r.IntN(len(posts))]
		repost := movedLine{Type: "repost", ID: "r" + user, PostID: post.ID, UserID: user, Time: n.ago(13*time.Hour - time.Second)}
		n.reposters[post.Text] = user
		if n.add(repost); post.ExpiresAt != nil {
			n.endsAt(repost, *post.ExpiresAt)
		}
		quote := movedLine{Type: "post", ID: fmt.Sprint("q", i), AuthorID: user, Text: fmt.Sprint("quote ", i, " of ", user), Time: n.ago(13*time.Hour - time.Duration(i)*time.Second)}
		if quote.QuoteOf = post.ID; i%2 == 1 {
			quote.QuoteOf = fmt.Sprint("q", i-1)
			n.addFirst(quote)
			continue
		}
		n.add(quote)
	}
}

// addFirst adds a line before all other lines.
func (n *network) addFirst(line movedLine) {
	after := n.text
	n.text = ""
	n.add(line)
	n.text += after
}

// pair adds a follow, a mute or a block between two users.
func (n *network) pair(user, other string) {
	x := n.r.IntN(20)
	line := movedLine{UserID: user, OtherID: other, Time: n.ago(300 * day)}
	switch {
	case user == other:
		return
	case user == townsfolk()[4] && other == townsfolk()[5]:
		line.Type = "block"
	case user == townsfolk()[5] && other == townsfolk()[4]:
		return // no follow exists over a block
	case x < 12:
		line = movedLine{Type: "follow", FollowerID: user, AuthorID: other, Time: n.ago(300 * day)}
		if x < 3 {
			line.From = id.Floor(n.ago(10 * day))
		}
		line.Silent = x%4 == 0
	case x < 14:
		line.Type = "mute"
	default:
		return
	}
	n.add(line)
}

// recordKey names a record without the id of its post.
type recordKey struct{ kind, who, post, other string }

func (k recordKey) String() string {
	return strings.Join(strings.Fields(k.kind+" "+k.who+" "+k.other+" "+k.post), " ")
}

func sortedRecords(all records) []recordKey {
	return slices.SortedFunc(maps.Keys(all), func(a, b recordKey) int { return strings.Compare(a.String(), b.String()) })
}

// records are the values of records. A record that occurs twice has both values.
type records map[recordKey]string

func (r records) add(key recordKey, value string) {
	if first, there := r[key]; there {
		value = first + " and " + value
	}
	r[key] = value
}

// naming names a post or a comment by its id or its text.
type naming func(id, text string) string

func byText(_, text string) string { return text }
func byID(id, _ string) string     { return id }

func millis(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return fmt.Sprint(t.UnixMilli())
}

func millisOf(t *time.Time) string {
	if t == nil {
		return "never"
	}
	return millis(*t)
}

// recordsOfLines returns the records of lines, without posts that have ended.
func recordsOfLines(text string, name naming) records {
	all, posts := records{}, map[string]string{}
	var read []movedLine
	for line := range strings.Lines(text) {
		var l movedLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			all.add(recordKey{kind: "broken line", other: line}, err.Error())
			continue
		}
		if l.Type == "post" && (l.ExpiresAt == nil || l.ExpiresAt.After(time.Now())) {
			posts[l.ID] = name(l.ID, l.Text)
		}
		read = append(read, l)
	}
	for _, l := range read {
		if of, living := posts[l.QuoteOf]; living {
			all.add(recordKey{kind: "quote", who: l.AuthorID, post: of, other: posts[l.ID]}, "there")
		}
		post, there := posts[cmp.Or(l.PostID, l.ID)]
		if (l.PostID != "" || l.Type == "post") && !there {
			continue
		}
		l.record(all, post, name)
	}
	return all
}

func (l movedLine) record(all records, post string, name naming) {
	at := millis(l.Time)
	switch l.Type {
	case "user":
		all.add(recordKey{kind: l.Type, who: l.ID}, fmt.Sprintf("%q %q %q %s %s", l.Name, l.Bio, l.ImageURL, l.Data, at))
	case "follow":
		all.add(recordKey{kind: l.Type, who: l.FollowerID, other: l.AuthorID}, fmt.Sprint(cmp.Or(l.From, id.Min), at, l.Silent))
	case "mute", "block":
		all.add(recordKey{kind: l.Type, who: l.UserID, other: l.OtherID}, at)
	case "post":
		all.add(recordKey{kind: l.Type, who: l.AuthorID, post: post},
			fmt.Sprintf("%q %+v %q %s %v %s %s %s", l.Text, l.Images, l.Kind, l.Data, l.Mentions, at, millisOf(l.EditedAt), millisOf(l.ExpiresAt)))
	case "comment":
		all.add(recordKey{kind: l.Type, who: l.AuthorID, post: post, other: name(l.ID, l.Text)}, fmt.Sprintf("%q %s %v %s", l.Text, l.Data, l.Mentions, at))
	case "like":
		all.add(recordKey{kind: l.Type, who: l.UserID, post: post}, cmp.Or(l.Kind, schema.KindLike)+" "+at)
	case "bookmark", "repost":
		all.add(recordKey{kind: l.Type, who: l.UserID, post: post}, at)
	case "marker":
		all.add(recordKey{kind: l.Type, who: l.UserID, other: l.Name}, fmt.Sprintf("%q %s", l.Position, at))
	default:
		all.add(recordKey{kind: l.Type}, "is no kind of record")
	}
}
