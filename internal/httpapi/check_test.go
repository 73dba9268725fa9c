package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// An accepted body must be decoded unchanged. The decoder writes U+FFFD for bad input, so a decoded U+FFFD
// must have been in the body.
func FuzzAcceptedBodiesAreDecodedAsSent(f *testing.F) {
	for _, seed := range []string{
		`{"text":"a"}`, `{"text":"\ud83d\ude00"}`, `{"text":"\ud83d"}`, `{"text":"\ude00"}`, `{"text":"\ud83d\ud83d\ude00"}`,
		`{"text":"\\ud83d"}`, `{"text":"\\\ud83d\\"}`, `{"text":"\ud83dx"}`, `{"text":"\ud83d\n"}`, `{"text":"\uD83D\uDE00\uDE00"}`,
		"{\"text\":\"\xff\"}", "{\"text\":\"\xed\xa0\x80\"}", `{"\ud800":1}`, `{"text":1e999}`, `{"a":{"b":[1e999]}}`, `[]`, `null`, ``, `{"a":1,"a":null}`, `{"a":[{"b":1,"b":2}]}`, `{"a":1}{}`, `{"images":[{"url":"\ud83d"}]}`, `{"images":[{"url":null,"width":1e300}]}`, `{"images":[null,{"alt":"\ufffd"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, p := checkBody(body); p != nil {
			return
		}
		var fields map[string]any
		require.NoError(t, json.Unmarshal(body, &fields))
		if bytes.Contains(body, []byte("\uFFFD")) || bytes.Contains(bytes.ToLower(body), []byte(`\ufffd`)) {
			return
		}
		text, err := json.Marshal(fields)
		if err != nil || strings.Contains(string(text), "\uFFFD") || strings.Contains(string(text), `\ufffd`) {
			t.Errorf("%q became %q, %v", body, text, err)
		}
	})
}

func TestIfNoneMatchIsAListOfTags(t *testing.T) {
	for header, want := range map[string]bool{
		`*`: true, `"e"`: true, `W/"e"`: true, `"x", W/"e"`: true, `,, "x" ,"e",`: true, `"a,b","e"`: true, "\"x\",\t\"e\"": true,
		``: false, `"x"`: false, `e`: false, `"a,*,b"`: false, `*, "x"`: false, `"x,"e"`: false, `"x, W/`: false, `w/"e"`: false, `"E"`: false, `"x" "e`: false, `W/`: false,
	} {
		assert.Equalf(t, want, names(header, `W/"e"`), "%s", header)
	}
}

func TestAListMayBeSpreadOverLines(t *testing.T) {
	for want, lines := range map[string][]string{
		`"a", "b"`: {`"a"`, `"b"`}, `"a"`: {`"a"`}, ``: {"", ", ,"}, `, "a"`: {"", `"a"`},
	} {
		h := http.Header{"If-None-Match": lines}
		joinLines(h, "If-None-Match")
		assert.Equal(t, want, h.Get("If-None-Match"))
		assert.LessOrEqual(t, len(h.Values("If-None-Match")), 1)
	}
}

func TestLimiterForgetsTheOldestAndStaysSmall(t *testing.T) {
	l := newLimiter(1, 10)
	now := time.Now()
	for range l.burst {
		require.Zero(t, l.take("ann", now), "within the burst")
	}
	assert.Equal(t, time.Second, l.take("ann", now))
	for i := range 15 { // one generation and a half of others: she is still known
		l.take(strings.Repeat("x", i+1), now)
	}
	assert.Equal(t, time.Second, l.take("ann", now), "after others came")
	for i := range 1000 {
		l.take(strings.Repeat("y", i+1), now)
	}
	assert.LessOrEqual(t, len(l.young)+len(l.old), 20, "buckets are kept")
	assert.Zero(t, l.take("ann", now), "though she was forgotten")
}

func TestNoLimitKeepsNobody(t *testing.T) {
	l := newLimiter(0, 10)
	for range 100 {
		require.Zero(t, l.take("ann", time.Now()))
	}
	assert.Empty(t, l.young, "buckets are kept")
}

// Reads of streams take no token beforehand. So each unit of such a read is charged, even if a read uses
// few units.
func TestUnitsBelowATokensWorthAreCarried(t *testing.T) {
	l := newLimiter(1, 10)
	now := time.Now()
	for i := range 440 { // 220 units
		owed := l.carry("ann", 0.5, now)
		require.Equalf(t, i >= 439, owed > 0, "after %d reads", i+1)
	}
	assert.Equal(t, 2*time.Second, l.take("ann", now), "eleven of ten tokens, and the next one")
	assert.Equal(t, 24*time.Second, l.carry("ann", 470, now), "more than a full bucket")
	assert.Equal(t, 25*time.Second, l.carry("ann", 10, now))
	l.charge("ben", 39.5, now)
	l.charge("ben", 19.5, now)
	assert.Equal(t, 2*time.Second, l.carry("ben", 220, now), "a request's own token pays for its rest")
}
