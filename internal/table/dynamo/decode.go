package dynamo

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"fanfare/internal/table"
)

// The replies to BatchWriteItem and Query, read by hand. The reader is strict
// beyond the SDK: what it does not expect is errUnusual, and the SDK then makes the
// call and judges. So it knows no error replies and no attributes of foreign
// writers. What it must never do is make something else of a reply than the SDK.

// errUnusual says that a reply is for the SDK to judge.
var errUnusual = errors.New("not a reply that is read by hand")

// batchReply is what a reply to BatchWriteItem says.
type batchReply struct {
	units float64
	// left are the keys of the writes that were not done.
	left []table.Key
}

// parseBatchWrite reads a reply to BatchWriteItem for the table name.
func parseBatchWrite(text []byte, name string) (batchReply, error) {
	var out batchReply
	var seen members
	r := reader{s: text}
	for n := 0; r.more(n, '{', '}'); n++ {
		switch string(r.name()) {
		case "ConsumedCapacity":
			r.once(&seen, 1)
			for i := 0; r.more(i, '[', ']'); i++ {
				out.units += r.capacity()
			}
		case "UnprocessedItems":
			r.once(&seen, 2)
			for i := 0; r.more(i, '{', '}'); i++ {
				if string(r.name()) != name || i > 0 {
					r.fail()
				}
				out.left = r.unprocessed()
			}
		case "ItemCollectionMetrics": // not asked for, but some say {}
			if r.more(0, '{', '}') {
				r.fail()
			}
		default:
			r.skip(0)
		}
	}
	return out, r.end()
}

// queryReply is what a reply to Query says.
type queryReply struct {
	items []table.Item
	// last is where the page ended, nil if it was the last.
	last  *table.Item
	units float64
}

// parseQuery reads a reply to Query. Its items share memory, but not that of text.
func parseQuery(text []byte) (queryReply, error) {
	var out queryReply
	var seen members
	var count int
	r := reader{s: text}
	for n := 0; r.more(n, '{', '}'); n++ {
		switch string(r.name()) {
		case "ConsumedCapacity":
			r.once(&seen, 1)
			out.units = r.capacity()
		case "Count":
			r.once(&seen, 2)
			count = r.count()
		case "ScannedCount":
			r.once(&seen, 4)
			r.count()
		case "Items":
			r.once(&seen, 8)
			out.items = r.items(count)
		case "LastEvaluatedKey":
			r.once(&seen, 16)
			var attrs []table.Attr
			if last := r.item(&attrs); last.Key != (table.Key{}) || len(last.Attrs) > 0 {
				out.last = &last
			}
		default:
			r.skip(0)
		}
	}
	return out, r.end()
}

// reader reads JSON from the front. After something unusual it is at its end and
// stays failed, so only loops and the end look at that.
type reader struct {
	s      []byte
	i      int
	failed bool
	// pk is the partition key of the last item, names are names of attributes:
	// most are the same again.
	pk    string
	names []string
	// arena is where strings are kept.
	arena strings.Builder
}

func (r *reader) fail() { r.failed, r.i = true, len(r.s) }

// end tells whether all was as expected, with nothing behind it.
func (r *reader) end() error {
	if r.peek() != 0 || r.i < len(r.s) || r.failed {
		return errUnusual
	}
	return nil
}

// peek returns the next byte that is not white space, 0 at the end.
func (r *reader) peek() byte {
	for ; r.i < len(r.s); r.i++ {
		switch c := r.s[r.i]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

func (r *reader) expect(c byte) {
	if r.i < len(r.s) && r.s[r.i] == c || r.peek() == c { // mostly there is no space
		r.i++
		return
	}
	r.fail()
}

// more tells whether an object or array has a part behind its first n.
func (r *reader) more(n int, begin, end byte) bool {
	if n == 0 {
		r.expect(begin)
	}
	switch {
	case r.peek() == end:
		r.i++
		return false
	case n > 0:
		r.expect(',')
	}
	return !r.failed
}

// members is the set of members that an object had so far.
type members uint8

// once fails on a member that comes again.
func (r *reader) once(seen *members, member members) {
	if *seen&member != 0 {
		r.fail()
	}
	*seen |= member
}

// name reads the name of a member.
func (r *reader) name() []byte {
	name := r.str()
	r.expect(':')
	return name
}

// str reads a string. Without escapes it is a part of the text, be it UTF-8 or not.
func (r *reader) str() []byte {
	r.expect('"')
	escaped := false
	rest := r.s[r.i:]
	for i := 0; i < len(rest); i++ {
		c := rest[i]
		if c > '"' && c != '\\' {
			continue
		}
		switch {
		case c == '"':
			if escaped {
				rest = r.unescape(r.s[r.i-1 : r.i+i+1])
				r.i += i + 1
				return rest
			}
			r.i += i + 1
			return rest[:i]
		case c == '\\':
			escaped = true
			i++
		case c < ' ':
			r.fail()
			return nil
		}
	}
	r.fail()
	return nil
}

// unescape is rare, and the library's because the SDK's is a copy of it.
func (r *reader) unescape(quoted []byte) []byte {
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		r.fail()
	}
	return []byte(s)
}

// arenaBytes is how much memory strings share.
const arenaBytes = 8 << 10

// keep returns b as a string. A builder never moves what it has given out as long
// as it does not grow.
func (r *reader) keep(b []byte) string {
	if len(b) > arenaBytes/4 {
		return string(b)
	}
	if r.arena.Cap()-r.arena.Len() < len(b) {
		r.arena.Reset()
		r.arena.Grow(min(arenaBytes, len(r.s)-r.i+2*len(b)))
	}
	from := r.arena.Len()
	r.arena.Write(b)
	return r.arena.String()[from:]
}

// attrName returns the name of an attribute, each of a reply once in memory.
func (r *reader) attrName(b []byte) string {
	for _, known := range r.names {
		if known == string(b) {
			return known
		}
	}
	name := r.keep(b)
	if len(r.names) < 16 {
		r.names = append(r.names, name)
	}
	return name
}

// number reads a number as it is written.
func (r *reader) number() []byte {
	r.peek()
	start := r.i
	r.take('-', '-')
	zero := r.take('0', '0')
	if !zero && !r.digits() {
		r.fail()
	}
	if r.take('.', '.') && !r.digits() {
		r.fail()
	}
	if r.take('e', 'e') || r.take('E', 'E') {
		if !r.take('+', '+') {
			r.take('-', '-')
		}
		if !r.digits() {
			r.fail()
		}
	}
	return r.s[start:r.i]
}

func (r *reader) digits() bool {
	if !r.take('0', '9') {
		return false
	}
	for r.take('0', '9') {
	}
	return true
}

func (r *reader) take(from, to byte) bool {
	if r.i < len(r.s) && from <= r.s[r.i] && r.s[r.i] <= to {
		r.i++
		return true
	}
	return false
}

func (r *reader) count() int {
	n, err := strconv.ParseInt(string(r.number()), 10, 32)
	if err != nil {
		r.fail()
	}
	return int(n)
}

func (r *reader) float() float64 {
	f, err := strconv.ParseFloat(string(r.number()), 64)
	if err != nil {
		r.fail()
	}
	return f
}

// capacity reads a ConsumedCapacity. The parts of it are not asked for.
func (r *reader) capacity() float64 {
	var units float64
	var seen members
	for n := 0; r.more(n, '{', '}'); n++ {
		switch string(r.name()) {
		case "CapacityUnits":
			r.once(&seen, 1)
			units = r.float()
		case "ReadCapacityUnits", "WriteCapacityUnits":
			r.float()
		case "TableName":
			r.str()
		case "Table", "GlobalSecondaryIndexes", "LocalSecondaryIndexes", "VectorIndexes":
			r.fail()
		default:
			r.skip(0)
		}
	}
	return units
}

// items reads a list of items; count is how many there may be.
func (r *reader) items(count int) []table.Item {
	// A wrong count must not cost more memory than the text.
	out := make([]table.Item, 0, max(0, min(count, len(r.s)/16)))
	var attrs []table.Attr
	var key bareKey
	for n := 0; r.more(n, '[', ']'); n++ {
		if it, ok := r.like(key); ok {
			out = append(out, it)
			continue
		}
		from := r.i
		out = append(out, r.item(&attrs))
		if !r.failed {
			key = bareKeyOf(r.s[from:r.i], out[n])
		}
	}
	return out
}

// bareKey is how an item is written that has nothing but its key: the text before and
// behind the sort key. The items of a page of followers differ in that alone, and most
// writers write all items alike.
type bareKey struct {
	pk             string
	before, behind []byte
}

// bareKeyOf tells how it, whose text this is, is written; the zero value if it has more
// than its key.
func bareKeyOf(text []byte, it table.Item) bareKey {
	if len(it.Attrs) > 0 || it.Key.SK == "" {
		return bareKey{}
	}
	quoted := `"` + it.Key.SK + `"`
	if bytes.Count(text, []byte(quoted)) != 1 { // it is written in another way, or the partition key is the same
		return bareKey{}
	}
	before, behind, _ := bytes.Cut(text, []byte(quoted))
	return bareKey{it.Key.PK, text[:len(before)+1], text[len(text)-len(behind)-1:]}
}

// like reads an item that is written like the last one, up to its sort key.
func (r *reader) like(key bareKey) (table.Item, bool) {
	if key.before == nil || !bytes.HasPrefix(r.s[r.i:], key.before) {
		return table.Item{}, false
	}
	rest := r.s[r.i+len(key.before):]
	end := bytes.IndexByte(rest, '"')
	if end <= 0 || !bytes.HasPrefix(rest[end:], key.behind) {
		return table.Item{}, false
	}
	for _, c := range rest[:end] {
		if c == '\\' || c < ' ' {
			return table.Item{}, false
		}
	}
	r.i += len(key.before) + end + len(key.behind)
	return table.Item{Key: table.Key{PK: key.pk, SK: r.keep(rest[:end])}}, true
}

// item reads an item, its attributes sorted by name and kept in attrs.
func (r *reader) item(attrs *[]table.Attr) table.Item {
	var it table.Item
	var seen members
	from := len(*attrs)
	for n := 0; r.more(n, '{', '}'); n++ {
		switch name := r.name(); string(name) {
		case table.AttrPK:
			r.once(&seen, 1)
			if pk := r.keyPart(); string(pk) != r.pk {
				r.pk = r.keep(pk)
			}
			it.Key.PK = r.pk
		case table.AttrSK:
			r.once(&seen, 2)
			it.Key.SK = r.keep(r.keyPart())
		default:
			*attrs = append(*attrs, table.Attr{Name: r.attrName(name), Value: r.value()})
		}
	}
	// With its capacity cut, appending to one item does not change the next.
	it.Attrs = (*attrs)[from:len(*attrs):len(*attrs)]
	if len(it.Attrs) > 1 {
		slices.SortFunc(it.Attrs, func(a, b table.Attr) int { return cmp.Compare(a.Name, b.Name) })
		for i := range it.Attrs[1:] {
			if it.Attrs[i].Name == it.Attrs[i+1].Name {
				r.fail()
			}
		}
	}
	return it
}

// keyPart reads a value that must be a string.
func (r *reader) keyPart() []byte {
	r.expect('{')
	if string(r.name()) != "S" {
		r.fail()
	}
	b := r.str()
	r.expect('}')
	return b
}

// value reads an attribute's value.
func (r *reader) value() (v table.Value) {
	r.expect('{')
	switch string(r.name()) {
	case "S":
		v = table.S(r.keep(r.str()))
	case "N":
		n, err := strconv.ParseInt(string(r.str()), 10, 64)
		if err != nil {
			r.fail()
		}
		v = table.N(n)
	default:
		r.fail()
	}
	r.expect('}')
	return v
}

// unprocessed reads the keys of a list of write requests.
func (r *reader) unprocessed() (keys []table.Key) {
	for n := 0; r.more(n, '[', ']'); n++ {
		r.expect('{')
		inner := "Key"
		switch string(r.name()) {
		case "PutRequest":
			inner = "Item"
		case "DeleteRequest":
		default:
			r.fail()
		}
		r.expect('{')
		if string(r.name()) != inner {
			r.fail()
		}
		var attrs []table.Attr
		keys = append(keys, r.item(&attrs).Key)
		r.expect('}')
		r.expect('}')
	}
	return keys
}

// maxDepth is far beyond what DynamoDB nests.
const maxDepth = 64

// skip reads a value of a member that is not known.
func (r *reader) skip(depth int) {
	if depth > maxDepth {
		r.fail()
		return
	}
	switch c := r.peek(); c {
	case '{':
		for n := 0; r.more(n, '{', '}'); n++ {
			r.name()
			r.skip(depth + 1)
		}
	case '[':
		for n := 0; r.more(n, '[', ']'); n++ {
			r.skip(depth + 1)
		}
	case '"':
		r.str()
	case 't':
		r.literal("true")
	case 'f':
		r.literal("false")
	case 'n':
		r.literal("null")
	default:
		r.number()
	}
}

func (r *reader) literal(word string) {
	if len(r.s)-r.i < len(word) || string(r.s[r.i:r.i+len(word)]) != word {
		r.fail()
		return
	}
	r.i += len(word)
}
