package display

import (
	"slices"
	"unicode"
)

// These constants are the characters that this package names.
const (
	nonJoiner, joiner                = '\u200c', '\u200d'
	arabicMark, leftMark, rightMark  = '\u061c', '\u200e', '\u200f'
	textStyle, emojiStyle            = '\ufe0e', '\ufe0f'
	keycap, information              = '\u20e3', '\u2139'
	blackFlag, firstTag, endTag      = '\U0001f3f4', '\U000e0020', '\U000e007f'
	firstPictograph, lastPictograph  = '\U0001f000', '\U0001faff'
	mongolianSeparator               = '\u180e'
	brailleBlank, musicalBlank       = '\u2800', '\U0001d159'
	firstMongolianForm, mongolianEnd = '\u180b', '\u180f'
)

// invisible reports whether a character has no shape: Unicode's default ignorable characters, and
// format characters without a glyph (the format character U+06DD has a glyph).
func invisible(r rune) bool {
	return unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) &&
		!unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

// hasInk reports whether a character by itself is visible. A character that Unicode had not assigned
// when Go's tables were made counts as visible, because such a character may be a new letter or emoji.
func hasInk(r rune) bool {
	return !unicode.In(r, unicode.Z, unicode.M, unicode.Cc, unicode.Cf, unicode.Co, unicode.Other_Default_Ignorable_Code_Point) && r != brailleBlank && r != musicalBlank ||
		unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

// needed reports whether the spelling of the neighbours of the invisible character at i needs that
// character.
func needed(runes []rune, i int) bool {
	var next rune
	if i+1 < len(runes) {
		next = runes[i+1]
	}
	before := i - 1
	for before > 0 && unicode.In(runes[before], unicode.Inherited) && unicode.Is(unicode.Mn, runes[before]) && !invisible(runes[before]) {
		before-- // for example, skip the vowel sign of an Arabic letter
	}
	if before < 0 {
		return false
	}
	last := runes[before]
	switch r := runes[i]; {
	case r == nonJoiner || r == joiner:
		return joins(last, next) || r == joiner && (pictograph(runes[i-1]) || runes[i-1] == emojiStyle) && pictograph(next)
	case r == textStyle || r == emojiStyle:
		return styled(last) || (last >= '0' && last <= '9' || last == '#' || last == '*') && next == keycap
	case r >= firstTag && r <= endTag:
		return tagged(runes, i)
	case r >= firstMongolianForm && r <= mongolianEnd:
		return unicode.Is(unicode.Mongolian, last) && (r != mongolianSeparator || unicode.Is(unicode.Mongolian, next))
	case unicode.Is(unicode.Variation_Selector, r):
		return unicode.In(last, unicode.Han, unicode.Myanmar, unicode.Phags_Pa) || styled(last)
	default:
		return false
	}
}

// joins reports whether a joiner between two characters changes the shapes of the characters. In some
// scripts, a joiner decides whether letters join. In Indic scripts, a joiner may follow a sign at the
// end of a word.
func joins(last, next rune) bool {
	return joining(last) && (unicode.Is(unicode.M, last) || joining(next))
}

func joining(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M) && unicode.In(r,
		unicode.Arabic, unicode.Syriac, unicode.Mandaic, unicode.Mongolian, unicode.Nko, unicode.Phags_Pa, unicode.Adlam, unicode.Hanifi_Rohingya,
		unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi, unicode.Gujarati, unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada,
		unicode.Malayalam, unicode.Sinhala, unicode.Khmer, unicode.Myanmar, unicode.Tibetan, unicode.Balinese, unicode.Javanese, unicode.Sundanese,
		unicode.Tai_Tham, unicode.Meetei_Mayek, unicode.Chakma, unicode.Grantha, unicode.Tirhuta, unicode.Newa, unicode.Sharada, unicode.Saurashtra)
}

// pictograph reports whether a character may be a part of an emoji. Every character from
// firstPictograph to lastPictograph counts, because Unicode adds emoji to this range each year.
func pictograph(r rune) bool {
	return unicode.In(r, unicode.So, unicode.Sm) && r > unicode.MaxLatin1 || r >= firstPictograph && r <= lastPictograph
}

// styled reports whether a character has a text form and an emoji form.
func styled(r rune) bool {
	return r > unicode.MaxASCII && unicode.In(r, unicode.S, unicode.P) || pictograph(r) || r == information
}

// tagged reports whether the tag at i is in the name of a flag. Such a name is a black flag, tags, and
// the end tag.
func tagged(runes []rune, i int) bool {
	tag := func(r rune) bool { return r >= firstTag && r < endTag }
	first := i
	for first > 0 && tag(runes[first-1]) {
		first--
	}
	end := slices.IndexFunc(runes[i:], func(r rune) bool { return !tag(r) })
	return first > 0 && runes[first-1] == blackFlag && end >= 0 && runes[i+end] == endTag && i+end > first
}
