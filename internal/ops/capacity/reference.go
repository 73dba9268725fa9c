package capacity

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Reference returns the tables of docs/CAPACITY.md at p, in Markdown. The name of each
// table is above the table.
func Reference(p Prices) string {
	var s strings.Builder
	for _, t := range referenceTables(p) {
		fmt.Fprintf(&s, "### %s\n%s\n", t.name, t.text)
	}
	return s.String()
}

// referenceTable is a table of docs/CAPACITY.md. The name marks the table's place on the page.
type referenceTable struct{ name, text string }

func referenceTables(p Prices) []referenceTable {
	return []referenceTable{
		{"bill", billTable(p)}, {"units", unitsTable()}, {"shares", sharesTable(p)}, {"limits", limitsTable()},
	}
}

// referenceNetwork is a network of the page.
type referenceNetwork struct {
	name             string
	users, followers float64
}

func referenceNetworks() []referenceNetwork {
	return []referenceNetwork{{"10 k × 50", 1e4, 50}, {"100 k × 100", 1e5, 100}, {"1 M × 100", 1e6, 100}, {"10 M × 200", 1e7, 200}}
}

// load returns the default load with the size of n, and with a share of users with live homes.
func (n referenceNetwork) load(streams float64) Load {
	l := DefaultLoad()
	l.Users, l.Followers, l.Streams = n.users, n.followers, streams
	return l
}

const referenceStreams = 0.01

// markdown formats rows as a table. The first row is the heading.
func markdown(rows [][]string) string {
	var s strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&s, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			s.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	return s.String()
}

// billTable returns the lines of the four networks' bills, and below them other deployments and alternatives.
func billTable(p Prices) string {
	heading, lines, all, streams, provisioned, reserved := []string{"$ a month"}, [][]string{}, []string{"**all, on demand**"},
		[]string{"and 1 % of the users on live homes"}, []string{"the same, provisioned"}, []string{"the same, with the cheapest reservation of a year"}
	other := map[string][]string{}
	var names []string
	for i, n := range referenceNetworks() {
		heading = append(heading, n.name)
		e := New(n.load(0), DefaultDeployment(), p)
		for at, line := range e.Lines {
			if i == 0 {
				name, _, _ := strings.Cut(line.Name, " (")
				lines = append(lines, []string{name})
			}
			lines[at] = append(lines[at], plain(line.Dollars))
		}
		all = append(all, "**"+plain(e.Dollars)+"**")
		streams = append(streams, plain(New(n.load(referenceStreams), DefaultDeployment(), p).Dollars))
		d := DefaultDeployment()
		d.Billing = Provisioned
		e = New(n.load(referenceStreams), d, p)
		provisioned, reserved = append(provisioned, plain(e.Dollars)), append(reserved, plain(e.Dollars-e.Reservation.Saves))
		for _, a := range New(n.load(0), DefaultDeployment(), p).Alternatives {
			if i == 0 {
				names = append(names, a.Name)
			}
			cost := "–"
			if a.Dollars > 0 {
				cost = plain(a.Dollars)
			}
			other[a.Name] = append(other[a.Name], cost)
		}
	}
	rows := append([][]string{heading}, lines...)
	rows = append(rows, all, streams, provisioned, reserved)
	for _, name := range names {
		if len(other[name]) > 0 && slices.ContainsFunc(other[name], func(cost string) bool { return cost != "–" }) {
			for len(other[name]) < len(heading)-1 {
				other[name] = append(other[name], "–")
			}
			rows = append(rows, append([]string{"*" + name + "*"}, other[name]...))
		}
	}
	return markdown(rows)
}

// plain formats dollars without the dollar sign.
func plain(v float64) string { return strings.TrimPrefix(dollars(v), "$") }

// unitsTable returns the units of one call or delivery of each row.
func unitsTable() string {
	l := DefaultLoad()
	l.AwayShare, l.Streams, l.PollsPerDay, l.PostsPerDay = 0, referenceStreams, 1, 1
	rows := [][]string{{"one of", "WCU", "RCU", "queue requests"}}
	for _, r := range append(rowsOfTwo(l), tailRow(l, 1)) {
		per := func(v float64) string { return Number(v / r.Count) }
		rows = append(rows, []string{unitOf(r.Name), per(r.Writes), per(r.Reads), per(r.Requests)})
	}
	return markdown(rows)
}

// rowsOfTwo returns the rows of a load with 100 followers. So a delivery is the delivery of
// a post to 100 followers.
func rowsOfTwo(l Load) []Row {
	l.Followers = 100
	return rows(l)
}

// unitOf returns the thing that a row counts.
func unitOf(row string) string {
	switch row {
	case RowPosts:
		return "posts, with an Idempotency-Key"
	case RowDeletes:
		return "deletions of a post"
	case RowFanOut:
		return "deliveries of a post with 100 followers, each with its part of the plan and the chunk"
	case RowHomes:
		return "home pages of 20 posts"
	case RowDeleted:
		return "home pages that lack a deleted post, with 1 % deleted: the part above a full page"
	case RowLikes:
		return "likes, alone in their windows, with the index by user"
	case RowFollows:
		return "follows, with a backfill of 30 posts"
	case RowFollowed:
		return "home pages within a minute after a follow: the part above others"
	case RowStreams:
		return "live homes that are open all day, with like counts"
	case RowArrivals:
		return "posts that come into an open live home"
	case RowOpenings:
		return "openings of a live home"
	case RowTails:
		return "days of the tail of an API process with live homes, at a million posts a day"
	case RowPolls:
		return "polls of a home that find nothing"
	}
	return row
}

// sharesTable compares the largest network with and without away readers and pulled authors.
func sharesTable(p Prices) string {
	largest := referenceNetworks()[3]
	rows := [][]string{{largest.name, "writes a day", "reads a day", "$ a month on demand", "provisioned"}}
	for _, change := range []struct {
		name         string
		away, pulled float64
	}{{"every follower is written to", 0, 0}, {"40 % of the users are away", 0.4, 0}, {"10 % of the deliveries are pulled", 0, 0.1}, {"both", 0.4, 0.1}} {
		l, d := largest.load(0), DefaultDeployment()
		l.AwayShare, l.PulledShare = change.away, change.pulled
		e := New(l, d, p)
		d.Billing = Provisioned
		rows = append(rows, []string{
			change.name, Number(math.Round(e.Total.Writes/million)) + " million", Number(math.Round(e.Total.Reads/million)) + " million",
			plain(e.Dollars), plain(New(l, d, p).Dollars),
		})
	}
	return markdown(rows)
}

// limitsTable returns the limits that warnings reports, with the value at which each limit begins.
func limitsTable() string {
	return markdown([][]string{
		{"limit", "warned of", "what helps"},
		{LimitPosts, fmt.Sprintf("above %s posts/s, 70 %% of %s × %d shards of the index", Number(nearlyFull*partitionWCU*postsShards), Number(partitionWCU), postsShards), "more shards: not built ([14](decisions/0014-posts-by-time.md))"},
		{LimitItem, fmt.Sprintf("above %s api processes, each of which reads one item up to %d times a second: an item serves %s RCU/s", Number(partitionRCU/itemReads), itemReads, Number(partitionRCU)), "nothing is refused; pages of that post take longer"},
		{LimitAuthor, fmt.Sprintf("a pushed author with more than %s; a follower list serves %s deliveries/s", Number(authorMeant), Number(authorPushed)), "`FANFARE_PUSH_LIMIT`"},
		{LimitFollows, fmt.Sprintf("above %s a second", Number(authorFollows)), "DynamoDB splits the partition within minutes; until then 503"},
		{LimitLikes, fmt.Sprintf("above %s a second, of an author with less than 100,000 followers when the post was made", Number(likesAPartition)), "they wait in the queue until DynamoDB splits the partition"},
		{LimitComments, fmt.Sprintf("above %s a second", Number(postComments)), "503 ([28](decisions/0028-comment-count.md))"},
		{LimitUser, fmt.Sprintf("above %s api processes, which let one user like %d times a second each; a partition of the index takes %s", Number(partitionWCU/userLikes), userLikes, Number(partitionWCU)), "a lower `FANFARE_RATE_LIMIT`"},
		{LimitFlight, fmt.Sprintf("above %s likes, half of the %s of a queue; a like is in flight for %v s, a failing one for up to %d s", Number(inFlight/2), Number(inFlight), likeSeconds, hiddenSeconds), "mend the failures"},
		{LimitQuota, fmt.Sprintf("above %s WCU/s or RCU/s", Number(tableQuota)), "ask AWS for more"},
		{LimitNew, fmt.Sprintf("above %s WCU/s on demand", Number(newTableWCU)), "set the warm throughput before the start"},
		{LimitCeiling, "above 80 % of `--max-write` or `--max-read`", "raise the table's maximum"},
		{LimitStreams, fmt.Sprintf("live homes need more processes than requests do, at %.0f %% of %s each", 100*streamsFull, Number(streamsAProcess)), "`ApiTasks` of the stack, or `FANFARE_STREAMS`"},
		{LimitTails, fmt.Sprintf("api processes × the units of a tail above %s RCU/s of a shard of the index of posts by time, which serves %s: at 1,000 posts/s above %s processes", Number(nearlyFull*partitionRCU), Number(partitionRCU), Number(math.Floor(nearlyFull*partitionRCU/tailOfShard(1000)))), "fewer processes, and more `FANFARE_STREAMS` in each"},
	})
}
