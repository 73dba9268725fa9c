package display_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/display"
)

// names returns names of people in many scripts, with the joiners and selectors of these scripts.
func names() []string {
	return []string{
		"A", "Ann", " Ann ", "O'Neil <3", "Ann\u00a0Lee", "7", "?", "#1", "José", "Jose\u0301", "عائشة", "עברית", "\u674e\u5c0f\u9f8d", "김철수", "Ньют", "Nguyễn Văn",
		"می\u200cخواهم", "بَ\u200cب",
		"क्\u200dष", "क्\u200cष", "अवन\u094d\u200d", "\u0d05\u0d35\u0d28\u0d4d\u200d", "ශ්\u200dරී", "\u06dd", "\u0600١",
		"\u845b\U000e0100\u57ce", "\u845b\ufe00", "ᠮᠣ\u180bᠩ", "ᠠ\u180eᠠ",
		"🎺", "👩\u200d🚀", "👩🏽\u200d🚀", "👨\u200d👩\u200d👧\u200d👦", "🏳\ufe0f\u200d🌈", "🙂\u200d↔\ufe0f", "❤\ufe0f", "☎\ufe0e", "ℹ\ufe0f", "‼\ufe0f", "©\ufe0f",
		"1\ufe0f\u20e3", "#\ufe0f\u20e3", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "🇩🇪", "\U0001fae9", "\U0001f9d1\u200d\U0001fae9",
	}
}

func TestNamesOfAllScriptsAndEmojiAreFine(t *testing.T) {
	for _, name := range names() {
		assert.Emptyf(t, display.NameFault(name), "%+q", name)
	}
}

func TestNamesThatDeceiveAreRefused(t *testing.T) {
	for fault, names := range map[string][]string{
		"shows nothing": {" ", "\u00a0", "\u3000 ", "\u2800", "\u2800 \u2800", "\U0001d159", "\u0301", "\ue000", ""},
		"cannot be seen": {
			"\u200b", "Ann\u200b", "\ufeffAnn", "A\u00adnn", "A\u2060nn", "\u3164", "\u115f", "\u1160", "\uffa0", "A\u034fnn", "\u180e", "Ann\u180e", "\u17b4",
			"A\u200dnn", "A\u200cnn", "\u200d", "\u200dक", "Ann\u200d", "Ann\ufe0f", "\ufe0f", "1\ufe0f", "1\ufe0fx", "Ann\U000e0100", "Ann\ufe00", "A\u180bnn",
			"م\u200c", "م\u200cA", "A\u200cم", "م\u200c\u200cم", "👩\u200d", "👩\u200dA", "A\u200d👩", "\U000e0041", "Ann\U000e0041\U000e007f", "🏴\U000e0067", "🏴\U000e007f",
			"🏴\U000e0067x\U000e007f", "\ufff9A", "\U0001d173", "\U000e0001", "\u206a", "\u2065", "\U00013430", "A\u0301\u200dn", "❤\ufe0f\ufe0f", "\u845b\U000e0100\U000e0101",
		},
		"changes the direction":  {"\u202e", "Ann\u202e", "\u202aAnn\u202c", "\u2066Ann\u2069", "Ann\u200e", "\u200fAnn", "\u061cAnn", "\u202d", "\u2067", "\u2068"},
		"is a control character": {"\x00", "Ann\x00", "A\nnn", "Ann\r", "A\tnn", "\x1b[31mAnn", "Ann\x7f", "A\u0085nn", "A\u009bnn"},
		"ends a line":            {"A\u2028nn", "Ann\u2029"},
		"is no character":        {"A\ufffe", "\uffff", "\ufdd0", "\U0001ffff"},
	} {
		for _, name := range names {
			assert.Containsf(t, display.NameFault(name), fault, "%+q", name)
		}
	}
	assert.Equal(t, "has U+202E, which changes the direction of the text around it: leave it out", display.NameFault("Ann\u202e"))
}

func TestLinesHaveNoControlsThatReachOverOthers(t *testing.T) {
	for _, text := range append(names(), "", " ", "a\nb\r\n\tc", "\u200b", "שלום\u200f!", "\u200ea", "\u061ca", "\ufffe", "a\u2028b") {
		assert.Emptyf(t, display.LinesFault(text), "%+q", text)
	}
	for _, text := range []string{"a\x00", "\x1b[2J", "a\u0085", "\u202ea", "a\u202c", "\u2066a\u2069", "\u2068", "\x7f"} {
		assert.Containsf(t, display.LinesFault(text), "leave it out", "%+q", text)
	}
}

func TestAnImageURLShowsWhereItLeads(t *testing.T) {
	const most = 60
	for _, value := range []string{
		"", "https://example.com/a.png", "HTTP://x", "http://[::1]:8080/a?b=c#d", "https://bücher.example/ü", "https://\u4f8bえ.jp/", "https://x/%E2%80%AE", "https://x/" + strings.Repeat("a", most-10),
	} {
		assert.Emptyf(t, display.ImageURLFault(value, most), "%+q", value)
	}
	for value, fault := range map[string]string{
		"https://x/" + strings.Repeat("a", most-9): "characters", "https://x/\xff": "UTF-8",
		"ftp://x/y": "is not an http", "javascript:alert(1)": "is not an http", "//x/y": "is not an http", "https://": "is not an http", "x": "is not an http", "https://a\\b/": "is not an http",
		"https://u:p@x/": "user name", "https://u@x": "user name",
		"https://x/a b": "percent-encode", "https://x/\"": "percent-encode", "https://x/<": "percent-encode", "https://x/\u00a0": "percent-encode", "https://x/\u2028": "percent-encode",
		"https://x\u202e/": "direction", "https://x/\u202egnp.exe": "direction", "https://x/\u200f": "direction", "https://x%E2%80%AE/": "direction", "https://[fe80::1%25\u202e]/": "direction",
		"https://x\u200b/": "cannot be seen", "https://x%E2%80%8B/": "cannot be seen", "https://x/\u200d": "cannot be seen", "https://x/\ufe0f": "cannot be seen", "https://\u3164/": "cannot be seen",
		"https://x%C2%A0/": "cannot be seen", "https://x/\ufffe": "is no character",
	} {
		assert.Containsf(t, display.ImageURLFault(value, most), fault, "%+q", value)
	}
}

// A name without a fault has none of the characters that every name refuses. The name keeps a visible
// character even if a program removes invisible characters. Two names without a fault have no fault
// side by side.
func FuzzNameFault(f *testing.F) {
	for _, name := range append(names(), "Ann\u202e", "A\u200dnn", "\x00", "🏴\U000e0067", "م\u200c") {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if !utf8.ValidString(name) || display.NameFault(name) != "" {
			return
		}
		ignorable := []*unicode.RangeTable{unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.White_Space}
		left := strings.Map(func(r rune) rune {
			if unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control, unicode.Noncharacter_Code_Point) {
				t.Errorf("%+q has %U", name, r)
			}
			if unicode.In(r, ignorable...) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r) {
				return -1
			}
			return r
		}, name)
		if left == "" || display.NameFault(left) != "" {
			t.Errorf("%+q shows %+q, which has a fault: %s", name, left, display.NameFault(left))
		}
		for _, beside := range []string{name + " " + name, "by " + name, name + " likes it"} {
			if fault := display.NameFault(beside); fault != "" {
				t.Errorf("%+q has a fault that %+q has not: %s", beside, name, fault)
			}
		}
		if fault := display.LinesFault(name); fault != "" {
			t.Errorf("a name %+q is no line: %s", name, fault)
		}
		for i := range name { // i is the start of a character, so no character is cut
			_ = display.NameFault(name[i:]) // any answer is right, but no part of a name may panic
		}
	})
}

// A URL that ImageURLFault accepts begins with http or https, and has no invisible character and no
// quotation mark.
func FuzzImageURLFault(f *testing.F) {
	for _, value := range []string{"https://example.com/a.png", "https://x\u202e/", "http://[::1%25a]/", "https://x%E2%80%AE/", "https://u@x/"} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		if value == "" || display.ImageURLFault(value, 2048) != "" {
			return
		}
		lower := strings.ToLower(value)
		if !strings.HasPrefix(lower, "http://") && !strings.HasPrefix(lower, "https://") {
			t.Errorf("%+q is accepted", value)
		}
		for _, r := range value {
			if unicode.IsControl(r) || unicode.IsSpace(r) || strings.ContainsRune("\"'`<>", r) || unicode.In(r, unicode.Cf, unicode.Bidi_Control) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r) {
				t.Errorf("%+q has %U", value, r)
			}
		}
	})
}
