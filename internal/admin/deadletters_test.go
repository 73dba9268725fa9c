package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/admin"
	"fanfare/internal/queue"
)

// crowd returns a+b dead letters: the first a have the reason "a", and the last b have the reason "b".
func crowd(a, b int) *letters {
	l := &letters{}
	for i := range a + b {
		reason := "a"
		if i >= a {
			reason = "b"
		}
		l.held = append(l.held, queue.DeadLetter{ID: fmt.Sprint(i), Topic: "posts", Reason: reason})
	}
	return l
}

// A drop by a reason reads a thousand letters at a time, until it has read all letters of the topic.
func TestADropByReasonSeesAllLettersOrReportsThatItDidNot(t *testing.T) {
	for name, c := range map[string]struct {
		*letters
		dropped int
		err     string
	}{
		"none is meant":                     {crowd(0, 999), 0, ""},
		"one of a thousand":                 {crowd(1, 998), 1, ""},
		"all of several thousands":          {crowd(2500, 10), 2500, ""},
		"a thousand others first":           {crowd(0, 1000), 0, "the first 1000 dead letters of posts have another reason or age"},
		"a thousand others after the first": {crowd(1, 1001), 1, "the first 1000 dead letters of posts have another reason or age"},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(c.held)
			dropped, err := admin.Drop().Do(t.Context(), domainOf(c.letters, time.Now()), selected("posts", admin.Selection{All: true, Reason: "a"}))
			if c.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, c.err)
			}
			assert.Equal(t, c.dropped, dropped.Dropped)
			assert.Len(t, c.held, before-dropped.Dropped)
		})
	}
}

// breaking holds dead letters, and fails the second drop.
type breaking struct {
	*letters
	drops int
}

func (b *breaking) DropDead(ctx context.Context, topic string, ids []string) (int, error) {
	if b.drops++; b.drops == 2 {
		return 0, errors.New("away")
	}
	return b.letters.DropDead(ctx, topic, ids)
}

func TestADropThatFailsHalfwayReportsHowManyLettersItDropped(t *testing.T) {
	dropped, err := admin.Drop().Do(t.Context(), domainOf(&breaking{letters: crowd(1500, 0)}, time.Now()), selected("posts", admin.Selection{All: true, Reason: "a"}))
	require.ErrorContains(t, err, "away")
	assert.Equal(t, 1000, dropped.Dropped)
}

func TestAListOfDeadLettersHasALimitAndSoundTimes(t *testing.T) {
	for query, want := range map[string]int{
		"limit=1": 200, "limit=1000": 200, "limit=10&before=2026-01-01T00:00:00Z&after=2025-01-01T00:00:00Z": 200,
		"": 422, "limit=0": 422, "limit=1001": 422, "limit=x": 422, "limit=1&before=yesterday": 422, "limit=1&after=yesterday": 422,
	} {
		assert.Equal(t, want, call(t, admin.Config{Domain: admin.Domain{Letters: &letters{}}}, http.MethodGet, "/admin/dead-letters/posts?"+query, nil, ""), query)
	}
	assert.Equal(t, http.StatusNotFound, call(t, admin.Config{Domain: admin.Domain{Letters: &letters{}}}, http.MethodGet, "/admin/dead-letters/other?limit=1", nil, ""))
}
