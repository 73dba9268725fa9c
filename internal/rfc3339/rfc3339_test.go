package rfc3339

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTimesOfTheRFC(t *testing.T) {
	for text, want := range map[string]time.Time{
		"2026-01-01T00:00:00Z":                time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		"2026-01-01t00:00:00z":                time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		"1985-04-12T23:20:50.52Z":             time.Date(1985, 4, 12, 23, 20, 50, 520_000_000, time.UTC),
		"1996-12-19T16:39:57-08:00":           time.Date(1996, 12, 20, 0, 39, 57, 0, time.UTC),
		"1937-01-01T12:00:27.87+00:20":        time.Date(1937, 1, 1, 11, 40, 27, 870_000_000, time.UTC),
		"2026-01-01T00:00:00-00:00":           time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		"2026-01-01T00:00:00+23:59":           time.Date(2025, 12, 31, 0, 1, 0, 0, time.UTC),
		"2024-02-29T00:00:00Z":                time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC),
		"2000-02-29T00:00:00Z":                time.Date(2000, 2, 29, 0, 0, 0, 0, time.UTC),
		"2016-12-31T23:59:60Z":                time.Date(2017, 1, 1, 0, 0, 0, 0, time.UTC),
		"1990-12-31T15:59:60-08:00":           time.Date(1991, 1, 1, 0, 0, 0, 0, time.UTC),
		"2015-06-30T23:59:60.25Z":             time.Date(2015, 7, 1, 0, 0, 0, 250_000_000, time.UTC),
		"2015-07-01T05:29:60+05:30":           time.Date(2015, 7, 1, 0, 0, 0, 0, time.UTC),
		"2026-01-01T00:00:00.1234567899999Z":  time.Date(2026, 1, 1, 0, 0, 0, 123_456_789, time.UTC),
		"2026-01-01T00:00:00.000000000Z":      time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		"0000-01-01T00:00:00Z":                time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC),
		"0001-01-01T00:00:00Z":                {},
		"9999-12-31T23:59:59.999999999Z":      time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
		"2026-01-01T00:00:00." + digits + "Z": time.Date(2026, 1, 1, 0, 0, 0, 111_111_111, time.UTC),
	} {
		at, err := Parse(text)
		require.NoErrorf(t, err, "%.50s", text)
		assert.Equalf(t, want, at, "%.50s", text)
	}
}

var digits = strings.Repeat("1", 100_000)

func TestTextsThatTheRFCRefuses(t *testing.T) {
	for _, text := range []string{
		"", "Z", "2026-01-01", "2026-01-01T00:00:00", "2026-01-01T00:00Z", "2026-01-01 00:00:00Z", "2026-01-01_00:00:00Z", "2026-01-01T00:00:00 Z",
		"2026-01-01T00:00:00,5Z", "2026-11-25T1:00:00Z", "2026-11-25T001:00:00Z", "2026-1-01T00:00:00Z", "2026-01-1T00:00:00Z", "26-01-01T00:00:00Z", "+2026-01-01T00:00:00Z", "12026-01-01T00:00:00Z",
		"2026-01-01T00:00:00.Z", "2026-01-01T00:00:00.+01:00", "2026-01-01T00:00:00.5", "2026-01-01T00:00:00.5.5Z", "2026-01-01T00:00:00.-5Z", "2026-01-01T00:00:00.5ZZ", "2026-01-01T00:00:00Z ", " 2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z\n",
		"2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-01-32T00:00:00Z", "2026-01-00T00:00:00Z", "2026-02-29T00:00:00Z", "2100-02-29T00:00:00Z", "2026-04-31T00:00:00Z",
		"2026-01-01T24:00:00Z", "2026-01-01T00:60:00Z", "2026-01-01T00:00:61Z", "2026-01-01T00:00:60Z", "2026-01-01T23:59:60Z", "2016-12-31T23:59:60+01:00", "2016-12-31T15:59:60Z",
		"2026-01-01T00:00:00+24:00", "2026-01-01T00:00:00+00:60", "2026-01-01T00:00:00+1:00", "2026-01-01T00:00:00+0100", "2026-01-01T00:00:00+01", "2026-01-01T00:00:00+01:00:00", "2026-01-01T00:00:00+-1:00", "2026-01-01T00:00:00\u221201:00",
		"2026-01-01T00:00:00z+01:00", "0000-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01", "9999-12-31T23:59:60Z",
		"\u0662026-01-01T00:00:00Z", "2026-01-01T00:00:0\u0660Z", "2026-01-01T00:00:00\x00Z", "-026-01-01T00:00:00Z", "2026--1-01T00:00:00Z", "2026-01-01T-1:00:00Z",
	} {
		at, err := Parse(text)
		require.Errorf(t, err, "%q became %s", text, at)
		assert.Contains(t, err.Error(), "is not a time")
	}
}

// Both parsers agree about every text in the part of RFC 3339 that Go's dialect shares: capital letters, two
// digits, a point, no second 60, and an offset that a clock can show. If Parse accepts a text, it also parses
// Go's own spelling of the result.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"2026-01-01T00:00:00Z", "2026-01-01t00:00:00z", "2016-12-31T23:59:60Z", "2026-01-01T00:00:00,5Z", "2026-11-25T1:00:00Z", "1996-12-19T16:39:57.123456789123-08:00",
		"2024-02-29T23:59:59+23:59", "0000-01-01T00:00:00+00:01", "2026-01-01T00:00:00.5+1:00", "9999-12-31T23:59:59-00:01",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, err := Parse(text)
		if err == nil {
			again, err := Parse(at.Format(time.RFC3339Nano))
			require.NoErrorf(t, err, "%q", text)
			require.Equalf(t, at, again, "%q", text)
		}
		fixed := len("2006-01-02T15:04:05")
		if len(text) <= fixed || text[12] == ':' || strings.ContainsAny(text, "tz,") || text[17:19] == "60" {
			return
		}
		want, goErr := time.Parse(time.RFC3339, text)
		if goErr == nil && (want.UTC().Year() < 0 || want.UTC().Year() > 9999 || strings.HasSuffix(text[:len(text)-3], "+24") || strings.HasSuffix(text[:len(text)-3], "-24") || strings.HasSuffix(text, ":60")) {
			return // Go has times before and after these years, and takes hour 24 and minute 60 of an offset
		}
		require.Equalf(t, goErr == nil, err == nil, "%q: Go: %v, here: %v", text, goErr, err)
		if err == nil {
			require.Truef(t, want.Equal(at), "%q: Go: %s, here: %s", text, want, at)
		}
	})
}
