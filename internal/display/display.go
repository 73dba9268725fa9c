// Package display decides which short texts may stand beside other texts on a page: names, the lines
// of a profile, and the URLs of images. Package display refuses invisible characters, characters that
// change the direction of the text around them, and characters that end a line, a string or a URL. The
// API, imports and producers use package display, so that they share one rule (docs/decisions/0043).
//
// Package display must never change a text, or refuse a character that a language or an emoji needs.
package display

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// NameFault returns the fault of a name, "" if the name has no fault. The name must be valid UTF-8. A
// name is one line with at least one visible character.
func NameFault(name string) string {
	runes := []rune(name)
	shows := false
	for i, r := range runes {
		fault := faultOf(r)
		if fault == "" && invisible(r) && !needed(runes, i) {
			fault = unseen
		}
		if fault != "" {
			return leaveOut(r, fault)
		}
		shows = shows || hasInk(r)
	}
	if !shows {
		return "shows nothing: it needs a letter, a digit or a symbol"
	}
	return ""
}

// LinesFault returns the fault of a text of several lines, "" if the text has no fault. The text must
// be valid UTF-8. Direction marks are allowed, but controls that affect further characters are not.
func LinesFault(text string) string {
	for _, r := range text {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
		case unicode.IsControl(r):
			return leaveOut(r, faultOf(r))
		case unicode.Is(unicode.Bidi_Control, r) && r != arabicMark && r != leftMark && r != rightMark:
			return leaveOut(r, turns)
		}
	}
	return ""
}

// ImageURLFault returns the fault of the URL of an image, "" if the URL has no fault. An empty URL is
// allowed.
func ImageURLFault(value string, most int) string {
	if value == "" {
		return ""
	}
	if n := utf8.RuneCountInString(value); n > most || !utf8.ValidString(value) {
		return fmt.Sprintf("has %d characters: it must be UTF-8 of at most %d", n, most)
	}
	u, err := url.Parse(value)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "":
		return "is not an http or https URL"
	case u.User != nil:
		return "has a user name: every reader would send it"
	case strings.ContainsFunc(value, endsURL):
		return "has a space, a quote, an angle bracket or a control character: percent-encode it"
	}
	for _, r := range u.Hostname() + value { // the host may contain percent-encoded characters
		if fault := faultOf(r); fault != "" || invisible(r) || unicode.IsSpace(r) {
			if fault == "" {
				fault = unseen
			}
			return leaveOut(r, fault)
		}
	}
	return ""
}

// endsURL reports whether a page may treat r as the end of a URL that contains r. Such a URL could add
// code to a careless page.
func endsURL(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune("\"'`<>", r)
}

// These constants are the faults of characters.
const (
	turns  = "changes the direction of the text around it"
	unseen = "cannot be seen"
)

func leaveOut(r rune, fault string) string {
	return fmt.Sprintf("has U+%04X, which %s: leave it out", r, fault)
}

// faultOf returns the fault of a character that is allowed nowhere in a name, "" if the character has
// no such fault.
func faultOf(r rune) string {
	switch {
	case unicode.IsControl(r):
		return "is a control character"
	case unicode.In(r, unicode.Zl, unicode.Zp):
		return "ends a line"
	case unicode.Is(unicode.Bidi_Control, r):
		return turns
	case unicode.Is(unicode.Noncharacter_Code_Point, r):
		return "is no character"
	default:
		return ""
	}
}
