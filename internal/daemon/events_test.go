package daemon_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
	"fanfare/internal/admin"
	"fanfare/internal/config"
	queueembedded "fanfare/internal/queue/embedded"
)

// eventsBehind waits for the event of a delivered post behind a position.
func eventsBehind(t *testing.T, address, service, after string) client.EventPage {
	t.Helper()
	c := clientOf(t, address, service)
	var read client.EventPage
	until(t, "an event", func() bool {
		var err error
		read, err = c.Events(t.Context(), after, 0, 20*time.Second)
		return err == nil && len(read.Events) > 0
	})
	require.Contains(t, string(read.Events[0].Event), `"PostDelivered"`)
	return read
}

func clientOf(t *testing.T, address, token string) *client.Client {
	t.Helper()
	c, err := client.New("http://"+address, client.WithToken(token))
	require.NoError(t, err)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// A process without the setting keeps the events of a process with its highest value.
func TestTheLogKeepsEventsForTheHighestSetting(t *testing.T) {
	t.Parallel()
	all := config.Fields()
	of := all[slices.IndexFunc(all, func(f config.Field) bool { return f.Name == "FANFARE_EVENTS_KEPT" })]
	most, err := time.ParseDuration(of.High)
	require.NoError(t, err)
	assert.Equal(t, queueembedded.MostEventsKept, most)
}

// A reader of the primary continues at the promoted standby: it has the same events at the same positions, and later events behind them.
func TestAReaderOfEventsContinuesAtAPromotedStandby(t *testing.T) {
	t.Parallel()
	one, two := newPair(t)
	for _, m := range []*machine{one, two} {
		m.env = append(m.env, "FANFARE_EVENTS_KEPT=1h")
	}
	one.start(false)
	ann, service := tokens(t, one.dir)(t, "ann"), services(t, one.dir)(t, "push", false)
	called(t, one.at.HTTP, ann, "Ann")
	two.start(true)
	two.untilPaired()
	one.untilPaired()
	post := func(address string) {
		t.Helper()
		_, err := clientOf(t, address, ann).CreatePost(t.Context(), client.PostInput{Text: "Hello"})
		require.NoError(t, err)
	}
	post(one.at.HTTP)
	first := eventsBehind(t, one.at.HTTP, service, "")
	require.NoError(t, one.stop())
	_, err := admin.Promote().Do(t.Context(), two.client(), admin.Promotion{PrimaryIsGone: true})
	require.NoError(t, err)
	two.await(false)
	again := eventsBehind(t, two.at.HTTP, service, "")
	assert.Equal(t, first.Events, again.Events[:len(first.Events)], "a delivery that the stop cut may repeat its event behind them")
	post(two.at.HTTP)
	assert.Greater(t, eventsBehind(t, two.at.HTTP, service, again.Next).Next, again.Next)
}
