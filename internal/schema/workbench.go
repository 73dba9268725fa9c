package schema

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fanfare/internal/table"
	"fanfare/messages"
)

// facet is a type of item: the form of its key, and samples.
type facet struct {
	name string
	// key has names in capitals in the places of values.
	key     table.Key
	samples []table.Item
}

// facets returns every type of item. The functions that the program itself uses make the keys and
// samples.
func facets() []facet {
	const (
		alice, bob = "alice", "bob"
		post       = "01K0D4N8R8T5M2V9X7C3B6Z1QA"
		comment    = "01K0D4NSS8H1J4K7N2P5R8T3VB"
		action     = "01K0D4PB9RW6Y3A8D1F4G7J2KC"
		inc        = "INC" // an aggregator's incarnation; INC is part of attributes' names
	)
	at := time.UnixMilli(1752796000000).UTC() // the time at which alice posted
	later, expiry, flush := at.Add(time.Minute), at.Add(30*24*time.Hour), Flush{Inc: inc, Seq: 1}
	album := Post{ID: action, Author: alice, Content: Content{Text: "Two photos of the harbour.", Kind: "album", Data: `{"photos":[{"url":"https://img.example/1.jpg"},{"url":"https://img.example/2.jpg"}]}`, Mentions: []string{bob, "carol"}, ExpiresAt: at.Add(24 * time.Hour)}, LikeShards: 1}
	repost := Post{ID: action[:25] + "D", Author: bob, Reference: Reference{RepostOf: post, OfAuthor: alice, OfShards: 1}, LikeShards: 1}
	mute, muter := Mute{User: bob, Author: "carol", Since: later}.Items()
	return append([]facet{
		{"Profile", ProfileKey("USER"), []table.Item{
			Profile{User: alice, Name: "Alice", Bio: "Trumpets.", ImageURL: "https://img.example/alice.png", CreatedAt: at, V: at.UnixMilli(), Data: `{"pronouns":"she/her"}`}.Item(),
			Profile{User: bob, Name: "Bob", CreatedAt: at, After: action, Former: Removal{Event: post, At: at}}.Item(),
		}},
		{"Note of a removal", ForgottenKey("USER"), []table.Item{Removal{User: "dave", Event: action, At: later}.NewItem(action)}},
		{"Change in the log of changes", Change{Event: "EVENT"}.Item(at).Key, []table.Item{Change{Event: action, Post: post, Author: alice, Deleted: true, Referred: true}.Item(at)}},
		{"Counts", CountsKey("USER"), []table.Item{
			{Key: CountsKey(alice), Attrs: []table.Attr{num(AttrPosts, 1), num(AttrFollowing, 0), str(AttrLastDel, action), num(HourOf(at).AttrUnits(), 12), num(HourOf(at).AttrMade(), 1)}},
			{Key: CountsKey(bob), Attrs: []table.Attr{num(AttrPosts, 0), num(AttrFollowing, 1), num(AttrUptoDay, 20301)}},
		}},
		{fmt.Sprintf("Follower count (%d shards)", FollowerShards), anyShard(FollowerCountKey("AUTHOR", "FOLLOWER")), []table.Item{
			{Key: FollowerCountKey(alice, bob), Attrs: []table.Attr{num(AttrN, 1)}},
		}},
		{"Mode of a large author", ModeKey("AUTHOR"), []table.Item{
			Mode{Author: alice, State: ModePull, V: 2, Since: post, At: at}.Item(),
		}},
		{"Lifetimes of posts in homes", LifetimesKey(), []table.Item{Lifetimes{{time.UnixMilli(0), 30 * 24 * time.Hour}, {later, 365 * 24 * time.Hour}}.Item()}},
		{"Settings that daemons share", SettingsKey("ROLE"), []table.Item{
			Settings{Role: "fanout", At: later, Values: map[string]string{"FANFARE_NOTIFICATIONS": "on"}}.Item(),
		}},
		{"Follower", FollowerKey("AUTHOR", "FOLLOWER"), []table.Item{DatedFollowerItem(alice, bob, at, 20301)}},
		{"Following", FollowingKey("FOLLOWER", "AUTHOR"), []table.Item{FollowingItem(bob, alice, at, post)}},
		{"Post", PostKey("AUTHOR", "POST"), []table.Item{
			Post{ID: post, Author: alice, Content: Content{Text: "Hello", Images: []Image{{URL: "https://img.example/hello.png", Alt: "A trumpet", Width: new(1200), Height: new(800)}}}, EditedAt: later, LikeShards: 1, Comments: 1, Byline: Byline{"Alice", "https://img.example/alice.png", at.UnixMilli()}}.Item(),
			album.Item(), repost.Item(), Post{ID: comment, Author: bob, Content: Content{Text: "So true."}, Reference: Reference{QuoteOf: post, OfAuthor: alice, OfShards: 1}, LikeShards: 1}.Item(),
		}},
		{"Post by id", PostByIDKey("POST"), []table.Item{
			PostRef{ID: post, Author: alice, LikeShards: 1, Referred: true}.Item(),
			album.Ref(30 * 24 * time.Hour).Item(), repost.Ref(30 * 24 * time.Hour).Item(),
			PostRef{ID: comment, Author: alice, Deleted: true, TTL: expiry, TakenDown: &TakeDown{"Forged shoes", "moderation", later}}.Item(),
		}},
		{"Comment", CommentKey("POST", "COMMENT"), []table.Item{
			Comment{ID: comment, Post: post, Author: bob, Text: "Well said"}.Item(),
			Comment{ID: action, Post: post, Author: bob, Text: "Look, @carol", Data: `{"at":12.5}`, Mentions: []string{"carol"}}.Item(),
		}},
		{"Like", LikeKey("POST", "USER", 1), []table.Item{
			Like{Post: post, User: bob, Kind: KindLike, Version: action, Flush: flush, LikeShards: 1, Indexed: true}.Item(),
			Like{Post: post, User: alice, Version: action, Flush: flush, TTL: expiry, LikeShards: 1, Indexed: true}.Item(),
			Like{Post: post, User: messages.Reposter(repost.ID), Kind: messages.KindRepost, Version: repost.ID, Flush: flush, LikeShards: 1, Indexed: true}.Item(),
		}},
		{"Like of a sharded post", anyShard(LikeKey("POST", "USER", 16)), []table.Item{
			Like{Post: comment, User: bob, Kind: "love", Version: action, Flush: flush, LikeShards: 16, Indexed: true}.Item(),
		}},
		{"Like count", LikeCountKey("POST"), []table.Item{
			{Key: LikeCountKey(post), Attrs: []table.Attr{num(AttrLikes, 1), num(AttrCount("love"), 1), num(AttrCount(messages.KindRepost), 1), millis(AttrAsOf, later), num(AttrFlushed(inc), 1), num(AttrFenced(inc), 1)}},
		}},
		{"Like aggregator's end", LikeEndKey("INCARNATION"), []table.Item{
			LikeEnd{Inc: inc, Lost: map[string]bool{post: true}}.Item(),
		}},
		{"Timeline entry", table.Key{PK: TimelinePK("USER"), SK: EntrySK("POST", "AUTHOR")}, []table.Item{
			{Key: table.Key{PK: TimelinePK(bob), SK: EntrySK(post, alice)}, Attrs: EntryAttrs(expiry, 1)},
			{Key: table.Key{PK: TimelinePK(bob), SK: EntrySK(comment, alice)}, Attrs: EntryAttrs(expiry, 16)},
		}},
		{"Home mark", MarkKey("USER", "AUTHOR"), []table.Item{
			Mark{User: bob, Author: alice, Kind: MarkBackfill, From: post, Version: action, FollowID: action}.Item(),
			Mark{User: bob, Author: "carol", Kind: MarkUnfollowed, Version: action, TTL: expiry}.Item(),
		}},
		{"Mute", MuteKey("USER", "AUTHOR"), []table.Item{mute}},
		{"Mute, under the muted user", MuterKey("AUTHOR", "USER"), []table.Item{muter}},
		{"Block between two users", BlockKey("USER", "OTHER"), []table.Item{
			Block{User: bob, Other: "carol", Since: at, By: later}.Item(), Block{User: "carol", Other: bob, Since: later, By: at}.Item(),
		}},
		{"Note of blocks", HasBlocksKey("USER"), []table.Item{BlocksItem(bob, at)}},
		{"Delivery plan", DeliveryPlanKey("POST"), []table.Item{Plan{Post: post, Author: alice, Planned: 2, Started: at, Attempts: 1, TTL: expiry}.Item()}},
		{"Delivery chunk", DeliveryChunkKey("POST", "FIRST"), []table.Item{
			Chunk{Post: post, End: "m", Done: later, Delivered: 1, TTL: expiry}.Item(),
			Chunk{Post: post, First: "m", TTL: expiry}.Item(),
		}},
	}, ownFacets(bob, post, action, later)...)
}

// ownFacets returns the types of item that only the item's user sees.
func ownFacets(user, post, bookmark string, at time.Time) []facet {
	listed, byPost := Bookmark{User: user, Post: post, V: bookmark}.Items()
	return []facet{
		{"Notification", NoticeKey("USER", "KIND", "TARGET"), []table.Item{
			Notice{User: user, Kind: NoticeLike, Target: post, Acts: []Act{{bookmark, bookmark, "like", "carol"}}, Revision: 1}.Item(),
			Notice{User: user, Kind: NoticeFollow, Acts: []Act{{bookmark, bookmark, ActHolds, "carol"}}, Revision: 1}.Item(),
		}},
		{"Mark of read notifications", NoticeMarkKey("USER"), []table.Item{NoticeMarkItem(user, bookmark)}},
		{"Presence of a reader", PresenceKey("USER"), []table.Item{
			Presence{User: user, State: PresenceHere, Until: 20301, V: 1, At: at, Lo: post, Hi: bookmark}.Item(),
		}},
		{"Idempotency key", IdempotencyKey("USER", "KEY"), []table.Item{
			Idempotency{User: user, Key: "hello-1", Post: post, BodyHash: "n4bQgYhMfWWaL-qgxVrQFaO_TxsrC4Is0V1sFbDwCgg", LikeShards: 1, TTL: at.Add(24 * time.Hour)}.Item(),
		}},
		{"Bookmark", BookmarkKey("USER", "BOOKMARK"), []table.Item{listed}},
		{"Bookmark, by its post", BookmarkOfKey("USER", "POST"), []table.Item{byPost}},
		{"Repost, by its original", RepostKey("USER", "POST"), []table.Item{Repost{User: user, Of: post, R: bookmark, V: bookmark}.Item()}},
		{"Read marker", MarkerKey("USER", "NAME"), []table.Item{Marker{User: user, Name: "home", Position: post, At: at}.Item()}},
	}
}

// anyShard replaces the shard number at the end of a part of a key by a name.
func anyShard(k table.Key) table.Key {
	const digits = "0123456789"
	named := func(s string) string {
		if cut := strings.TrimRight(s, digits); cut != s {
			return cut + "SHARD"
		}
		return s
	}
	return table.Key{PK: named(k.PK), SK: named(k.SK)}
}

// These types are the import format of NoSQL Workbench for DynamoDB, version 3.0.
type (
	wbModel struct {
		ModelName     string
		ModelMetadata map[string]string
		DataModel     []wbTable
	}
	wbTable struct {
		TableName              string
		KeyAttributes          wbKey
		NonKeyAttributes       []wbAttribute
		TableFacets            []wbFacet
		GlobalSecondaryIndexes []wbIndex
		TableData              []wbItem
		DataAccess             wbDataAccess
		BillingMode            string
	}
	wbKey       struct{ PartitionKey, SortKey wbAttribute }
	wbAttribute struct{ AttributeName, AttributeType string }
	wbFacet     struct {
		FacetName         string
		KeyAttributeAlias struct{ PartitionKeyAlias, SortKeyAlias string }
		TableData         []wbItem
		NonKeyAttributes  []string
		DataAccess        wbDataAccess
	}
	wbIndex struct {
		IndexName     string
		KeyAttributes wbKey
		Projection    map[string]string
	}
	wbItem       map[string]map[string]string // name, type, value
	wbDataAccess struct{ MySql struct{} }
)

// WorkbenchModel returns the table's design in the import format of NoSQL Workbench:
// keys, the index, and each type of item as a facet with sample rows.
func WorkbenchModel(tableName string) ([]byte, error) {
	t := wbTable{
		TableName: tableName, KeyAttributes: wbKeyOf(table.AttrPK, table.AttrSK), BillingMode: "PAY_PER_REQUEST",
		GlobalSecondaryIndexes: []wbIndex{{table.IndexName, wbKeyOf(table.AttrGSI1PK, table.AttrGSI1SK), map[string]string{"ProjectionType": "ALL"}}},
	}
	kinds := map[string]string{} // types by attribute name
	for _, f := range facets() {
		view := wbFacet{FacetName: f.name, NonKeyAttributes: []string{}}
		view.KeyAttributeAlias.PartitionKeyAlias, view.KeyAttributeAlias.SortKeyAlias = f.key.PK, f.key.SK
		inView := map[string]bool{}
		for _, it := range f.samples {
			row := wbItem{table.AttrPK: {"S": it.Key.PK}, table.AttrSK: {"S": it.Key.SK}}
			for _, a := range it.Attrs {
				kind, text := "S", a.Value.Str()
				if a.Value.Kind() == table.KindNumber {
					kind, text = "N", strconv.FormatInt(a.Value.Int(), 10)
				}
				row[a.Name] = map[string]string{kind: text}
				switch kinds[a.Name] {
				case "":
					kinds[a.Name] = kind
					t.NonKeyAttributes = append(t.NonKeyAttributes, wbAttribute{a.Name, kind})
				case kind:
				default: // such an item would need two attributes in the index
					return nil, fmt.Errorf("table: attribute %s is both %s and %s", a.Name, kinds[a.Name], kind)
				}
				if !inView[a.Name] {
					inView[a.Name] = true
					view.NonKeyAttributes = append(view.NonKeyAttributes, a.Name)
				}
			}
			view.TableData = append(view.TableData, row)
		}
		t.TableFacets = append(t.TableFacets, view)
		t.TableData = append(t.TableData, view.TableData...)
	}
	out, err := json.MarshalIndent(wbModel{ //nolint:musttag // NoSQL Workbench names its fields like these
		ModelName: "Fanfare",
		ModelMetadata: map[string]string{
			"Author": "Fanfare", "AWSService": "Amazon DynamoDB", "Version": "3.0",
			"DateCreated": "Jul 18, 2025, 12:00 AM", "DateLastModified": "Jul 18, 2025, 12:00 AM",
			"Description": "Posts, follows, comments, likes, home timelines and notifications in one table. Names in capitals stand for values; times are milliseconds since 1970, ttl seconds.",
		},
		DataModel: []wbTable{t},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("table: workbench model: %w", err)
	}
	return append(out, '\n'), nil
}

func wbKeyOf(partition, sort string) wbKey {
	return wbKey{wbAttribute{partition, "S"}, wbAttribute{sort, "S"}}
}
