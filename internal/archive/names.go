// Package archive keeps the stream of a data directory in a store of objects, so that the loss
// of the machine loses at most a second of answered writes. docs/decisions/0054-archive.md has
// the protocol, and spec/Archive.tla is the model.
//
// The package owns the names and formats of the objects, the chain of terms, and the fence that
// ends an old writer. The package must never make a write wait, and never read a frame of the
// stream: segments hold bytes.
package archive

import (
	"fmt"
	"strconv"
	"strings"
)

// The names of the objects. Numbers are hexadecimal and have a fixed length, so that the order
// of names is the order of numbers.
const (
	termsPrefix = "t/"
	basesPrefix = "b/"
	filesPrefix = "f/"
	gapsPrefix  = "g/"

	termDigits    = 16
	segmentDigits = 12
	// maxSegment is the highest number of a segment.
	maxSegment = 1<<(4*segmentDigits) - 1
)

// termDir returns the prefix of the names of a term.
func termDir(term uint64) string { return fmt.Sprintf("%s%0*x/", termsPrefix, termDigits, term) }

// termName returns the name of the object that creates a term.
func termName(term uint64) string { return termDir(term) + "term.json" }

// segmentsPrefix returns the prefix of the names of a term's segments.
func segmentsPrefix(term uint64) string { return termDir(term) + "s/" }

// segmentName returns the name of a segment.
func segmentName(term, n uint64) string {
	return fmt.Sprintf("%s%0*x", segmentsPrefix(term), segmentDigits, n)
}

// BaseName returns the name of the list of a base whose first segment is n.
func BaseName(term, n uint64) string {
	return fmt.Sprintf("%s%0*x-%0*x.json", basesPrefix, termDigits, term, segmentDigits, n)
}

// gapName returns the name of the empty object that marks a segment behind a gap. Segment 0 stands
// for the prefix of the term's marks. Without marks, a
// reader would have to read all segments to find the gaps.
func gapName(term, n uint64) string {
	if n == 0 {
		return fmt.Sprintf("%s%0*x-", gapsPrefix, termDigits, term)
	}
	return fmt.Sprintf("%s%0*x-%0*x", gapsPrefix, termDigits, term, segmentDigits, n)
}

// FileName returns the name of a file of a base. The name is the hash of the content, so bases
// share the files that did not change.
func FileName(sha256 string) string { return filesPrefix + sha256 }

// pairAt reads the term and the segment in the name of a base or of the mark of a gap.
func pairAt(name, prefix string) (term, n uint64, err error) {
	if term, err = numberAt(name, prefix, termDigits); err == nil {
		n, err = numberAt(name, fmt.Sprintf("%s%0*x-", prefix, termDigits, term), segmentDigits)
	}
	return term, n, err
}

// numberAt reads the number that follows the prefix of a name.
func numberAt(name, prefix string, digits int) (uint64, error) {
	text, ok := strings.CutPrefix(name, prefix)
	if ok && len(text) >= digits && text == strings.ToLower(text) {
		if n, err := strconv.ParseUint(text[:digits], 16, 64); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("the archive has an object %s, which no fanfare made: give it a bucket or a prefix of its own", name)
}
