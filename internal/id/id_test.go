package id_test

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"fanfare/internal/id"
)

func generate(tb testing.TB, g *id.Generator, floor string) string {
	tb.Helper()
	next, err := g.After(floor)
	require.NoError(tb, err)
	return next
}

func TestIDsAboveOneFloorGrowWithTheClock(t *testing.T) {
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	generators := []*id.Generator{id.NewGenerator(clock), id.NewGenerator(clock)} // the generators of two processes
	floor := id.Floor(now.Add(time.Hour))
	last := floor
	for i := range 1000 {
		next := generate(t, generators[i%2], floor)
		require.Greater(t, next, last)
		last, now = next, now.Add(time.Millisecond)
	}
}

func TestIDsOnlyGrowAcrossGoroutinesAndClockSteps(t *testing.T) {
	var mu sync.Mutex
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	steps := 0
	clock := func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		if steps++; steps%7 == 0 {
			now = now.Add(-3 * time.Second)
		} else {
			now = now.Add(time.Millisecond)
		}
		return now
	}
	g := id.NewGenerator(clock)
	const goroutines, each = 8, 2000
	made := make([][]string, goroutines)
	var wg sync.WaitGroup
	for i := range goroutines {
		wg.Go(func() {
			for range each {
				next, err := g.New()
				if err != nil {
					t.Error(err)
					return
				}
				made[i] = append(made[i], next)
			}
		})
	}
	wg.Wait()
	var all []string
	for _, ids := range made {
		assert.True(t, slices.IsSorted(ids), "one goroutine saw an id step back")
		all = append(all, ids...)
	}
	slices.Sort(all)
	assert.Len(t, slices.Compact(all), goroutines*each, "distinct ids of")
}

func TestAFloorRaisesOneIDOnly(t *testing.T) {
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	g := id.NewGenerator(func() time.Time { return now })
	ahead := id.Floor(now.Add(time.Minute))
	raised := generate(t, g, ahead)
	assert.Greaterf(t, raised, ahead, "%s is not above its floor %s", raised, ahead)
	next := generate(t, g, "")
	at, err := id.Time(next)
	require.NoError(t, err)
	assert.Truef(t, at.Equal(now), "the id after it has the time %s, want the clock's %s", at, now)
	third := generate(t, g, id.Floor(now.Add(-time.Minute)))
	assert.Greaterf(t, third, next, "a floor in the past gave %s, below %s", third, next)
}

func TestThereIsNoIDAboveMax(t *testing.T) {
	g := id.NewGenerator(time.Now)
	next, err := g.After(id.Max)
	assert.Errorf(t, err, "got %s above the highest id", next)
	_, err = g.After("nonsense-that-is-above-every-id")
	assert.ErrorIs(t, err, id.ErrMalformed)
}

func TestSeededGeneratorReplays(t *testing.T) {
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	run := func() (ids []string) {
		g := id.NewSeededGenerator(func() time.Time { return now }, bytes.NewReader(bytes.Repeat([]byte{7, 1, 9}, 100)))
		for range 20 {
			ids = append(ids, generate(t, g, ""))
		}
		return ids
	}
	a, b := run(), run()
	assert.Truef(t, slices.Equal(a, b), "%v\n%v", a, b)
}

func TestParseIsStrict(t *testing.T) {
	valid := generate(t, id.NewGenerator(time.Now), "")
	require.Truef(t, id.Valid(valid), "%s refused", valid)
	for _, s := range []string{"", "x", strings.ToLower(valid), valid + "0", valid[:25], valid[:25] + "U", "8" + valid[1:], valid[:25] + "é"} {
		_, err := id.Parse(s)
		assert.ErrorIs(t, err, id.ErrMalformed, s)
	}
	assert.True(t, id.Valid(id.Min), "Min or Max is not valid")
	assert.True(t, id.Valid(id.Max), "Min or Max is not valid")
}

func TestFloorSplitsTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(0, 1<<47).Draw(t, "ms")
		at := time.UnixMilli(ms)
		g := id.NewGenerator(func() time.Time { return at })
		made, err := g.New()
		require.NoError(t, err)
		if made < id.Floor(at) || made >= id.Floor(at.Add(time.Millisecond)) {
			t.Fatalf("%s is not in [%s, %s)", made, id.Floor(at), id.Floor(at.Add(time.Millisecond)))
		}
	})
	assert.Equal(t, id.Min, id.Floor(time.UnixMilli(-1)), "a time before 1970 does not give Min")
	assert.Equal(t, id.Max, id.Floor(time.UnixMilli(int64(ulid.MaxTime())+1)), "a time after the last gives")
}

func TestUserGrammar(t *testing.T) {
	for s, want := range map[string]bool{
		"a": true, "A-z_09": true, "0b8a4d5c-6f9e-4d6a-9c1b-1b2c3d4e5f60": true, strings.Repeat("x", 64): true,
		"auth0|5f7c8ec7c33c6c004bbafe82": true, "google-oauth2|113": true, "000123.0a1b2c3d4e5f60718293a4b5c6d7e8f9.0456": true,
		"a.": true, "samlp|corp|ann@corp.example": true, "eu-central-1:0b8a": true, "backend@clients": true, "a..b": true,
		".": false, "..": false, ".a": false, "|a": false, "@a": false, ":a": false, "a~": false, "a+b": false, "a%7Cb": false, "a,b": false, "a\\b": false,
		"": false, strings.Repeat("x", 65): false, "a#b": false, "a b": false, "é": false, "a/b": false, "a\x00": false,
	} {
		assert.Equal(t, want, id.ValidUser(s), s)
	}
}

func TestPackedIDsAreUnpacked(t *testing.T) {
	for _, s := range []string{"", id.Max, id.Floor(time.UnixMilli(1)), "01ARZ3NDEKTSV4RRFFQ69G5FAV"} {
		packed := id.Pack(s)
		assert.Len(t, packed, id.PackedLen)
		assert.Equal(t, s, id.Unpack(packed))
	}
	assert.Empty(t, id.Unpack(id.Pack("not an id")))
}

func TestANamedIDIsTheSameEachTime(t *testing.T) {
	at := time.Date(2024, 3, 5, 12, 0, 0, 7_000_000, time.UTC)
	first, err := id.Named(at, "post 1")
	require.NoError(t, err)
	again, err := id.Named(at, "post 1")
	require.NoError(t, err)
	other, err := id.Named(at, "post 2")
	require.NoError(t, err)
	assert.Equal(t, first, again)
	assert.NotEqual(t, first, other)
	made, err := id.Time(first)
	require.NoError(t, err)
	assert.Equal(t, at, made)
	_, err = id.Named(time.Unix(-1, 0), "post 1")
	assert.Error(t, err)
}

func TestBeforeIsANewIDOfTheMillisecondBefore(t *testing.T) {
	at := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	g := id.NewGenerator(func() time.Time { return at.Add(time.Hour) })
	ceiling := id.Floor(at)
	met := map[string]bool{}
	for range 100 {
		made, err := g.Before(ceiling)
		require.NoError(t, err)
		of, err := id.Time(made)
		require.NoError(t, err)
		assert.Equal(t, at.Add(-time.Millisecond), of)
		assert.False(t, met[made], "%s comes twice", made)
		met[made] = true
	}
	for _, none := range []string{id.Min, "x", ""} {
		_, err := g.Before(none)
		require.ErrorIs(t, err, id.ErrMalformed)
	}
}

func TestSuccessorIsTheNextID(t *testing.T) {
	for of, want := range map[string]string{
		id.Min:                       "00000000000000000000000001",
		"01JD8QJ4WZ000000000000000Z": "01JD8QJ4WZ0000000000000010",
		"01JD8QJ4WZZZZZZZZZZZZZZZZZ": "01JD8QJ4X00000000000000000",
	} {
		next, err := id.Successor(of)
		require.NoError(t, err)
		assert.Equal(t, want, next)
	}
	for _, none := range []string{id.Max, "x", ""} {
		_, err := id.Successor(none)
		require.ErrorIs(t, err, id.ErrMalformed)
	}
}
