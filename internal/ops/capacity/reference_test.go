package capacity

import (
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files and the table of docs/CAPACITY.md")

// referenceNetwork is a network of docs/CAPACITY.md.
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

// The bills of the design, in dollars a month: for each network without live homes, with live homes, and with live
// homes on a provisioned table. The design has no Idempotency-Keys, which cause at most 1 % of the writes.
func TestTheReferenceNetworksHaveTheBillsOfTheDesign(t *testing.T) {
	t.Parallel()
	bills := [][3]float64{{325, 336, 317}, {812, 901, 666}, {5653, 6605, 4278}, {76_478, 86_747, 53_297}}
	for i, n := range referenceNetworks() {
		onDemand, provisioned := DefaultDeployment(), DefaultDeployment()
		provisioned.Billing = Provisioned
		assert.InEpsilonf(t, bills[i][0], New(n.load(0), onDemand, listed(t)).Dollars, 0.02, "%s, without live homes", n.name)
		assert.InEpsilonf(t, bills[i][1], New(n.load(referenceStreams), onDemand, listed(t)).Dollars, 0.02, "%s, live homes", n.name)
		assert.InEpsilonf(t, bills[i][2], New(n.load(referenceStreams), provisioned, listed(t)).Dollars, 0.02, "%s, live homes, provisioned", n.name)
	}
}

// The bill counts the alarms of the stack.
func TestTheBillHasTheAlarmsOfTheStack(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "cloudformation", "alarms.yaml"))
	require.NoError(t, err)
	assert.Equal(t, alarms, strings.Count(string(text), "Type: AWS::CloudWatch::Alarm\n"))
}

// One machine costs about as much as in the design: $60, $100 and $400, with the same egress.
func TestOneMachineCarriesUpToAMillionUsers(t *testing.T) {
	t.Parallel()
	for i, n := range referenceNetworks() {
		e := New(n.load(0), DefaultDeployment(), listed(t))
		one := e.Alternatives[0]
		if i == 3 {
			assert.Zero(t, one.Dollars, "30 TB are on no disk of a machine")
			continue
		}
		want := []float64{60, 100 + 24, 400 + 319}[i]
		assert.InEpsilonf(t, want, one.Dollars, 0.15, n.name)
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o750))
		require.NoError(t, os.WriteFile(path, got, 0o600))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got), "write it with go test . -run Golden -update")
}

func TestTheGoldenOutput(t *testing.T) {
	t.Parallel()
	l := DefaultLoad()
	l.Users, l.Followers, l.Streams, l.LargestAuthor = 1e7, 200, 0.01, 1e6
	for name, billing := range map[string]string{"on-demand": OnDemand, "provisioned": Provisioned} {
		d := DefaultDeployment()
		d.Billing = billing
		e := New(l, d, listed(t))
		golden(t, name+".txt", []byte(e.String()))
		text, err := json.MarshalIndent(e, "", " ")
		require.NoError(t, err)
		golden(t, name+".json", append(text, '\n'))
	}
}

// The sentences of docs/CAPACITY.md have few numbers, and the command prints each of these numbers.
func TestTheSentencesOfTheCapacityDocumentHaveTheFiguresOfTheCommand(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "CAPACITY.md"))
	require.NoError(t, err)
	page, p, l, d := strings.Join(strings.Fields(string(text)), " "), listed(t), DefaultLoad(), DefaultDeployment()
	entry := p.of("table_write") + p.of("table_read")*followerBytes/readBytes + p.of("storage")*entryBytes/gigabyte*million
	postgres := New(l, d, p).Alternatives[3]
	largest := func(away, pulled float64) float64 {
		l := referenceNetworks()[3].load(0)
		l.AwayShare, l.PulledShare = away, pulled
		return New(l, d, p).Dollars
	}
	saved := func(away, pulled float64) float64 { return 100 * (1 - largest(away, pulled)/largest(0, 0)) }
	for _, want := range []string{
		fmt.Sprintf("40 %% of the users are away, the bill on demand is %.0f %% lower; if 10 %% of the deliveries are pulled, %.0f %%; with both, %.0f %%", saved(0.4, 0), saved(0, 0.1), saved(0.4, 0.1)),
		fmt.Sprintf("| posts by time | above %s posts/s, 70 %% of %s × %d shards", Number(nearlyFull*partitionWCU*postsShards), Number(partitionWCU), postsShards),
		fmt.Sprintf("| one post | above %s api processes, each of which reads one item up to %d times a second: an item serves %s RCU/s |", Number(partitionRCU/itemReads), itemReads, Number(partitionRCU)),
		fmt.Sprintf("| an author's followers | a pushed author with more than %s; a follower list serves %s deliveries/s |", Number(authorMeant), Number(authorPushed)),
		fmt.Sprintf("| follows of an author | above %s a second |", Number(authorFollows)),
		fmt.Sprintf("| likes of a post | above %s a second,", Number(partitionWCU)),
		fmt.Sprintf("| comments of a post | above %s a second |", Number(postComments)),
		fmt.Sprintf("| likes by a user | above %s api processes, which let one user like %d times a second each; a partition of the index takes %s |", Number(partitionWCU/userLikes), userLikes, Number(partitionWCU)),
		fmt.Sprintf("| messages in flight | above %s likes, half of the %s of a queue; a like is in flight for %v s, a failing one for up to %d s |", Number(inFlight/2), Number(inFlight), likeSeconds, hiddenSeconds),
		fmt.Sprintf("| table quota | above %s WCU/s or RCU/s |", Number(tableQuota)),
		fmt.Sprintf("| a new table | above %s WCU/s on demand |", Number(newTableWCU)),
		fmt.Sprintf("| the table's ceiling | above %.0f %% of", 100*ceilingFull),
		fmt.Sprintf("| live homes of a process | live homes need more processes than requests do, at %.0f %% of %s each |", 100*streamsFull, Number(streamsAProcess)),
		fmt.Sprintf("above %s RCU/s of a shard of the index of posts by time, which serves %s: at 1,000 posts/s above %s processes |", Number(nearlyFull*partitionRCU), Number(partitionRCU), Number(math.Floor(nearlyFull*partitionRCU/tailOfShard(1000)))),
		fmt.Sprintf("adds %v read units to each home page", likesByKeyRCU),
		fmt.Sprintf("A worker on AWS reads %s followers as one page", Number(inlineFollowers)),
		"above some $500 of table cost a month",
		fmt.Sprintf("about %.1f home pages for each post", entry/p.of("table_read")),
		fmt.Sprintf("finds %s followers as the limit", Number(authorMeant)),
		fmt.Sprintf("%.0f and %.0f %% are used", 100*d.TableUse, 100*d.ReadUse),
		fmt.Sprintf("| api | %s requests", Number(l.RequestsPerCPU)),
		fmt.Sprintf("| fanout | %s deliveries", Number(l.DeliveriesPerCPU)),
		fmt.Sprintf("| likeagg | %s likes", Number(l.LikesPerCPU)),
		fmt.Sprintf("return once in %.0f days", 1/l.ReturnsPerDay),
		"some $250 a month for the second network and $1,400 for the third",
	} {
		assert.Contains(t, page, want)
	}
	assert.Contains(t, postgres.Note, "some $250 at 100,000 users and $1,400 at a million")
}

// README.md has the bills of one small network in its three shapes.
func TestTheReadmeHasTheBillsOfItsShapes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "README.md"))
	require.NoError(t, err)
	d, n := DefaultDeployment(), referenceNetwork{users: 50e3, followers: 100}
	e := New(n.load(0), d, listed(t))
	d.Billing = Provisioned
	want := fmt.Sprintf("| 50,000 users, 100 followers each, a month | %s | %s | %s, [provisioned](docs/CAPACITY.md) %s |\n",
		e.Alternatives[0].cost(), e.Alternatives[1].cost(), dollars(e.Dollars), dollars(New(n.load(0), d, listed(t)).Dollars))
	assert.Contains(t, string(text), want)
}

// billTable returns the table of docs/CAPACITY.md at p, in Markdown: a column for the bill of each network.
func billTable(p Prices) string {
	heading, names, cells := "| $ a month |", []string{}, map[string]string{}
	plain := strings.NewReplacer("$", "", "?", "–")
	add := func(name, cost string) {
		if cells[name] == "" {
			names = append(names, name)
		}
		cells[name] += " " + plain.Replace(cost) + " |"
	}
	for _, n := range referenceNetworks() {
		heading += " " + n.name + " |"
		d := DefaultDeployment()
		e := New(n.load(0), d, p)
		for _, line := range e.Lines {
			name, _, _ := strings.Cut(line.Name, " (")
			add(name, dollars(line.Dollars))
		}
		add("**all, on demand**", dollars(e.Dollars))
		add("and 1 % of the users on live homes", dollars(New(n.load(referenceStreams), d, p).Dollars))
		d.Billing = Provisioned
		provisioned := New(n.load(referenceStreams), d, p)
		add("the same, provisioned", dollars(provisioned.Dollars))
		add("the same, with the cheapest reservation of a year", dollars(provisioned.Dollars-provisioned.Reservation.Saves))
		add("*one fanfare up*", e.Alternatives[0].cost())
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n%s|\n", heading, strings.Repeat("|---", len(referenceNetworks())+1))
	for _, name := range names {
		fmt.Fprintf(&text, "| %s |%s\n", name, cells[name])
	}
	return text.String()
}

// docs/CAPACITY.md has the bills of its networks between two marks.
func TestTheCapacityDocumentHasTheBillsOfItsNetworks(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "..", "docs", "CAPACITY.md")
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	const begin, end = "<!-- table: bill -->\n", "<!-- end -->\n"
	before, rest, ok := strings.Cut(string(page), begin)
	require.True(t, ok, begin)
	old, after, ok := strings.Cut(rest, end)
	require.True(t, ok, end)
	table := billTable(listed(t))
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(before+begin+table+end+after), 0o600))
		return
	}
	assert.Equal(t, table, old, "go test ./internal/ops/capacity -run Document -update")
}
