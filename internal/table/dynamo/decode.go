package dynamo

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"fanfare/internal/table"
)

// The JSON of the replies to BatchWriteItem and Query. The reader is stricter than the
// SDK: it refuses each reply that it does not expect, and the SDK then makes the call.
// It must never read a reply in another way than the SDK, and it accepts only replies
// that fit their request: about the same table, with as many items as Count says, and
// all of the partition that was asked for.

// errUnreadable refuses a reply. The SDK is to make the call.
var errUnreadable = errors.New("the SDK has to read this reply")

// batchReply is the content of a reply to BatchWriteItem.
type batchReply struct {
	units float64
	// left are the keys of the writes that were not done.
	left []table.Key
	// refused is the number of tries before this reply that were refused for lack of capacity.
	refused int
}

// decodeBatchWrite reads a reply to BatchWriteItem for the table name.
func decodeBatchWrite(text, name string) (reply batchReply, err error) {
	var seen members
	r := reader{text: text}
	for n := 0; r.more(n, '{', '}'); n++ {
		switch r.name() {
		case "ConsumedCapacity":
			r.first(&seen, 1)
			for i := 0; r.more(i, '[', ']'); i++ {
				reply.units += r.capacity(name)
			}
		case "UnprocessedItems":
			r.first(&seen, 2)
			for i := 0; r.more(i, '{', '}'); i++ {
				r.accept(r.name() == name && i == 0)
				reply.left = r.unprocessed()
			}
		case "ItemCollectionMetrics": // not asked for, but some engines say {}
			r.accept(!r.more(0, '{', '}'))
		default:
			r.skip()
		}
	}
	return reply, r.end()
}

// queryReply is the content of a reply to Query.
type queryReply struct {
	items []table.Item
	// last is the end of the page, nil if no page follows.
	last  *table.Item
	units float64
}

// decodeQuery reads a reply to q on the table name. The strings of its items share
// the memory of text.
func decodeQuery(text, name string, q table.Query) (reply queryReply, err error) {
	var seen members
	var count int
	r := reader{text: text}
	for n := 0; r.more(n, '{', '}'); n++ {
		switch r.name() {
		case "ConsumedCapacity":
			r.first(&seen, 1)
			reply.units = r.capacity(name)
		case "Count":
			r.first(&seen, 2)
			r.number(&count)
		case "Items":
			r.first(&seen, 4)
			reply.items = r.items(q, count)
		case "LastEvaluatedKey":
			r.first(&seen, 8)
			var attrs []table.Attr
			if last := r.item(&attrs); last.Key != (table.Key{}) || len(last.Attrs) > 0 {
				r.accept(of(last, q))
				reply.last = &last
			}
		default:
			r.skip()
		}
	}
	r.accept(count == len(reply.items) || q.EndsOnly && seen&4 == 0) // which asks for the count alone
	return reply, r.end()
}

// of reports whether an item is of the partition that q reads. An item of the index
// says so only if q asks for all attributes.
func of(it table.Item, q table.Query) bool {
	if !q.Index {
		return it.Key.PK == q.PK
	}
	return q.Project != nil || it.Str(table.AttrGSI1PK) == q.PK
}

// reader reads JSON from the front. When it refuses the text it goes to the end and stays
// there, so only loops and end look at failed.
type reader struct {
	text   string
	i      int
	failed bool
}

// accept refuses the text unless ok.
func (r *reader) accept(ok bool) {
	if !ok {
		r.failed, r.i = true, len(r.text)
	}
}

// end returns an error unless the text was accepted and nothing follows.
func (r *reader) end() error {
	if r.peek() != 0 || r.i < len(r.text) || r.failed {
		return errUnreadable
	}
	return nil
}

// peek returns the next byte that is not white space, 0 at the end.
func (r *reader) peek() byte {
	for ; r.i < len(r.text); r.i++ {
		switch c := r.text[r.i]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

func (r *reader) expect(c byte) {
	if r.i < len(r.text) && r.text[r.i] == c || r.peek() == c { // there is rarely a space
		r.i++
		return
	}
	r.accept(false)
}

// more reports whether an object or array has another part after n of them.
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

// first refuses a member that the object had before.
func (r *reader) first(seen *members, member members) {
	r.accept(*seen&member == 0)
	*seen |= member
}

// name reads the name of a member.
func (r *reader) name() string {
	name := r.str()
	r.expect(':')
	return name
}

// str reads a string. One without escapes is a part of the text.
func (r *reader) str() string {
	r.expect('"')
	rest, escaped := r.text[r.i:], false
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case c > '"' && c != '\\': // most bytes
		case c == '\\':
			escaped = true
			i++
		case c == '"':
			r.i += i + 1
			if escaped {
				return r.unescape(rest[:i])
			}
			return rest[:i]
		case c < ' ':
			r.accept(false)
			return ""
		}
	}
	r.accept(false)
	return ""
}

func (r *reader) unescape(s string) (out string) {
	r.accept(json.Unmarshal([]byte(`"`+s+`"`), &out) == nil)
	return out
}

// number reads a number into v, which points to an int or a float64.
func (r *reader) number(v any) {
	r.peek()
	rest := r.text[r.i:]
	digits := rest[:len(rest)-len(strings.TrimLeft(rest, "+-.0123456789Ee"))]
	r.i += len(digits)
	r.accept(json.Unmarshal([]byte(digits), v) == nil)
}

// skip passes over any value.
func (r *reader) skip() {
	var value json.RawMessage
	decoder := json.NewDecoder(strings.NewReader(r.text[r.i:]))
	r.accept(decoder.Decode(&value) == nil)
	r.i = min(len(r.text), r.i+int(decoder.InputOffset()))
}

// capacity reads a ConsumedCapacity of the table name. Its parts are not asked for.
func (r *reader) capacity(name string) (units float64) {
	var seen members
	for n := 0; r.more(n, '{', '}'); n++ {
		switch r.name() {
		case "CapacityUnits":
			r.first(&seen, 1)
			r.number(&units)
		case "TableName":
			r.accept(r.str() == name)
		case "Table", "GlobalSecondaryIndexes", "LocalSecondaryIndexes", "VectorIndexes":
			r.accept(false)
		default:
			r.skip()
		}
	}
	return units
}

// items reads a list of about count items, which are the answer to q.
func (r *reader) items(q table.Query, count int) []table.Item {
	// A wrong count must not cost more memory than the text.
	out := make([]table.Item, 0, max(0, min(count, len(r.text)/16)))
	var attrs []table.Attr
	for n := 0; r.more(n, '[', ']'); n++ {
		it := r.item(&attrs)
		r.accept(of(it, q))
		out = append(out, it)
	}
	return out
}

// item reads an item. It sorts the attributes by name and appends them to attrs, where
// the items of a page share memory.
func (r *reader) item(attrs *[]table.Attr) (it table.Item) {
	var seen members
	start := len(*attrs)
	for n := 0; r.more(n, '{', '}'); n++ {
		switch name := r.name(); name {
		case table.AttrPK:
			r.first(&seen, 1)
			it.Key.PK = r.keyPart()
		case table.AttrSK:
			r.first(&seen, 2)
			it.Key.SK = r.keyPart()
		default:
			*attrs = append(*attrs, table.Attr{Name: name, Value: r.attribute()})
		}
	}
	// The capacity is cut so that nobody can append to the next item's attributes.
	it.Attrs = (*attrs)[start:len(*attrs):len(*attrs)]
	if len(it.Attrs) > 1 {
		slices.SortFunc(it.Attrs, func(a, b table.Attr) int { return cmp.Compare(a.Name, b.Name) })
	}
	for i := 1; i < len(it.Attrs); i++ {
		r.accept(it.Attrs[i-1].Name != it.Attrs[i].Name)
	}
	return it
}

// keyPart reads a value that must be a string.
func (r *reader) keyPart() string {
	v := r.attribute()
	r.accept(v.Kind() == table.KindString)
	return v.Str()
}

// attribute reads the value of an attribute.
func (r *reader) attribute() (v table.Value) {
	r.expect('{')
	switch r.name() {
	case "S":
		v = table.S(r.str())
	case "N":
		n, err := strconv.ParseInt(r.str(), 10, 64)
		r.accept(err == nil)
		v = table.N(n)
	default:
		r.accept(false)
	}
	r.expect('}')
	return v
}

// unprocessed reads the keys of a list of write requests.
func (r *reader) unprocessed() (keys []table.Key) {
	for n := 0; r.more(n, '[', ']'); n++ {
		r.expect('{')
		inner := "Key"
		switch r.name() {
		case "PutRequest":
			inner = "Item"
		case "DeleteRequest":
		default:
			r.accept(false)
		}
		r.expect('{')
		r.accept(r.name() == inner)
		var attrs []table.Attr
		keys = append(keys, r.item(&attrs).Key)
		r.expect('}')
		r.expect('}')
	}
	return keys
}
