// Package rfc3339 reads times of RFC 3339, section 5.6, for every format with such times:
// queries, events, records of an import, metadata of dead letters.
//
// time.Parse reads a dialect: it refuses a lower-case t or z and second 60, which the RFC allows,
// and accepts a comma before the fraction and an hour of one digit, which the RFC forbids. This
// package must never accept a text that the RFC refuses, nor return another moment than the text's.
package rfc3339

import (
	"errors"
	"time"
)

// Form completes a sentence about a text that Parse refuses for its form.
const Form = `is not a time of RFC 3339, such as "2024-01-31T12:00:00Z"`

// Each error completes a sentence that begins with the name of a field, and quotes nothing.
var (
	errForm  = errors.New(Form)
	errDate  = errors.New("is not a time: the calendar has no such day")
	errClock = errors.New("is not a time: hours end at 23, minutes at 59 and seconds at 59")
	errLeap  = errors.New("is not a time: second 60 is only at 23:59:60 UTC at the end of a month")
	errYear  = errors.New("is not a time: in UTC it is outside the years 0000 to 9999")
)

// Parse returns the moment s, in UTC. A leap second becomes the next second, because Go's
// clock has no leap seconds. Digits of a fraction below the nanosecond are cut off.
func Parse(s string) (time.Time, error) {
	const fixed = len("2006-01-02T15:04:05")
	if len(s) <= fixed || s[4] != '-' || s[7] != '-' || s[10]|0x20 != 't' || s[13] != ':' || s[16] != ':' {
		return time.Time{}, errForm
	}
	year, month, day := number(s[:4]), number(s[5:7]), number(s[8:10])
	hour, minute, second := number(s[11:13]), number(s[14:16]), number(s[17:19])
	if min(year, month, day, hour, minute, second) < 0 {
		return time.Time{}, errForm
	}
	nanos, rest, ok := fraction(s[fixed:])
	if !ok {
		return time.Time{}, errForm
	}
	offset, err := offsetOf(rest)
	switch {
	case err != nil:
		return time.Time{}, err
	case month < 1 || month > 12 || day < 1 || day > daysIn(year, month):
		return time.Time{}, errDate
	case hour > 23 || minute > 59 || second > 60:
		return time.Time{}, errClock
	}
	at := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC).Add(-offset)
	if second == 60 && (at.Day() != 1 || at.Hour() != 0 || at.Minute() != 0) { // at is the second after the leap second
		return time.Time{}, errLeap
	}
	if at.Year() < 0 || at.Year() > 9999 {
		return time.Time{}, errYear
	}
	return at.Add(time.Duration(nanos)), nil
}

// number returns the value of a text of digits, or -1 if the text has another character.
func number(s string) (n int) {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return -1
		}
		n = 10*n + int(s[i]-'0')
	}
	return n
}

// fraction returns the nanoseconds of the fraction that s may begin with, and the rest of s.
func fraction(s string) (nanos int, rest string, ok bool) {
	if s[0] != '.' {
		return 0, s, true
	}
	digits := 1
	for scale := 100_000_000; digits < len(s) && s[digits] >= '0' && s[digits] <= '9'; digits++ {
		nanos += int(s[digits]-'0') * scale
		scale /= 10
	}
	return nanos, s[digits:], digits > 1
}

// offsetOf parses an offset from UTC. An offset ahead of UTC is positive.
func offsetOf(s string) (time.Duration, error) {
	if s == "Z" || s == "z" {
		return 0, nil
	}
	if len(s) != len("+00:00") || s[0] != '+' && s[0] != '-' || s[3] != ':' {
		return 0, errForm
	}
	hours, minutes := number(s[1:3]), number(s[4:6])
	switch {
	case min(hours, minutes) < 0:
		return 0, errForm
	case hours > 23 || minutes > 59:
		return 0, errClock
	}
	offset := time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if s[0] == '-' {
		return -offset, nil
	}
	return offset, nil
}

// daysIn returns the number of days of a month.
func daysIn(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}
