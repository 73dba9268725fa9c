package embedded

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"fanfare/internal/disk"
	"fanfare/internal/table"
)

// This is the stored format. Open checks its version, and each item's value begins with its own
// version, so that the store and the items can change separately.
//
//	m"format"                              version of the store
//	i LEN PK SK                            an item: its attributes
//	x LEN GSI1PK esc(GSI1SK) 00 01 LEN PK SK   a hint that the item may be there
//
// LEN is two bytes, so a partition is one range of keys, and the ranges of partitions do
// not overlap. esc writes the byte 00 as 00 FF, so that sort keys of the index stay in
// order with other bytes after them. The keys of a partition's items are in the byte
// order of SK.

const (
	kindMeta  = 'm'
	kindItem  = 'i'
	kindIndex = 'x'

	valueVersion = 1
	tagString    = 1
	tagNumber    = 2
)

var errCorrupt = fmt.Errorf("embedded: a stored record cannot be read: %w", disk.ErrDamaged)

// keyLen returns the length of an item's key.
func keyLen(k table.Key) int { return 3 + len(k.PK) + len(k.SK) }

func appendKey(dst []byte, k table.Key) []byte {
	return append(appendPartition(dst, kindItem, k.PK), k.SK...)
}

// appendPartition appends the common prefix of all keys of a partition.
func appendPartition(dst []byte, kind byte, pk string) []byte {
	dst = append(dst, kind, byte(len(pk)>>8), byte(len(pk)))
	return append(dst, pk...)
}

// indexKey returns the key of the hint that the item k is in the index.
func indexKey(pk, sk string, k table.Key) []byte {
	dst := appendEscaped(appendPartition(nil, kindIndex, pk), sk)
	dst = append(dst, 0, 1, byte(len(k.PK)>>8), byte(len(k.PK)))
	return append(append(dst, k.PK...), k.SK...)
}

func appendEscaped(dst []byte, s string) []byte {
	for {
		i := strings.IndexByte(s, 0)
		if i < 0 {
			return append(dst, s...)
		}
		dst = append(append(dst, s[:i]...), 0, 0xff)
		s = s[i+1:]
	}
}

// parseKey reads an item's key.
func parseKey(raw []byte) (table.Key, error) {
	if len(raw) < 3 || raw[0] != kindItem {
		return table.Key{}, errCorrupt
	}
	return parseTail(raw[1:])
}

// parseTail reads the part LEN PK SK of a key.
func parseTail(raw []byte) (table.Key, error) {
	if len(raw) < 2 {
		return table.Key{}, errCorrupt
	}
	n, rest := int(raw[0])<<8|int(raw[1]), raw[2:]
	if len(rest) < n {
		return table.Key{}, errCorrupt
	}
	both := string(rest)
	return table.Key{PK: both[:n], SK: both[n:]}, nil
}

// parseIndexKey reads the key of a hint: the two keys of the index, and the item's key.
func parseIndexKey(raw []byte) (pk, sk string, k table.Key, err error) {
	if len(raw) < 3 || raw[0] != kindIndex {
		return "", "", k, errCorrupt
	}
	n, rest := int(raw[1])<<8|int(raw[2]), raw[3:]
	if len(rest) < n {
		return "", "", k, errCorrupt
	}
	pk, rest = string(rest[:n]), rest[n:]
	var b []byte
	for {
		i := slices.Index(rest, 0)
		if i < 0 || i+1 >= len(rest) {
			return "", "", k, errCorrupt
		}
		b = append(b, rest[:i]...)
		end := rest[i+1]
		rest = rest[i+2:]
		if end == 1 {
			break
		}
		if end != 0xff {
			return "", "", k, errCorrupt
		}
		b = append(b, 0)
	}
	k, err = parseTail(rest)
	return pk, string(b), k, err
}

// bounds returns the range of keys that q requests. The range is empty if lower >= upper.
func bounds(q table.Query) (lower, upper []byte) {
	kind := byte(kindItem)
	sortKey := func(dst []byte, sk string) []byte { return append(dst, sk...) }
	above := []byte{0} // ends a range after a sort key, and before every longer sort key
	if q.Index {
		kind, sortKey, above = kindIndex, appendEscaped, []byte{0, 2}
	}
	prefix := slices.Clip(appendPartition(nil, kind, q.PK))

	lower = sortKey(prefix, q.Low)
	if q.High == "" {
		upper = slices.Clone(prefix)
		upper[len(upper)-1]++ // no overflow, because UTF-8 has no byte FF
	} else {
		upper = append(sortKey(prefix, q.High), above...)
	}
	if q.After != "" {
		if after := sortKey(prefix, q.After); q.Descending {
			if slices.Compare(after, upper) < 0 {
				upper = after
			}
		} else if after = append(after, above...); slices.Compare(after, lower) > 0 {
			lower = after
		}
	}
	return lower, upper
}

// valueLen returns the length of the output of appendValue.
func valueLen(attrs []table.Attr) int {
	n := 1 + uvarintLen(uint64(len(attrs)))
	for i := range attrs {
		a := &attrs[i]
		n += uvarintLen(uint64(len(a.Name))) + len(a.Name) + 1
		if a.Value.Kind() == table.KindString {
			n += uvarintLen(uint64(len(a.Value.Str()))) + len(a.Value.Str())
		} else {
			n += uvarintLen(zigzag(a.Value.Int()))
		}
	}
	return n
}

// appendValue appends an item's attributes: the number of attributes, and then the name, kind
// and value of each attribute.
func appendValue(dst []byte, attrs []table.Attr) []byte {
	dst = append(dst, valueVersion)
	dst = binary.AppendUvarint(dst, uint64(len(attrs)))
	for i := range attrs {
		a := &attrs[i]
		dst = binary.AppendUvarint(dst, uint64(len(a.Name)))
		dst = append(dst, a.Name...)
		if s := a.Value.Str(); a.Value.Kind() == table.KindString {
			dst = append(dst, tagString)
			dst = binary.AppendUvarint(dst, uint64(len(s)))
			dst = append(dst, s...)
		} else {
			dst = append(dst, tagNumber)
			dst = binary.AppendUvarint(dst, zigzag(a.Value.Int()))
		}
	}
	return dst
}

func uvarintLen(v uint64) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

func zigzag(n int64) uint64 { return uint64(n)<<1 ^ uint64(n>>63) }

func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// reader walks over an encoded value without a copy of it, so attributes that the caller skips cost nothing.
type reader[T string | []byte] struct {
	rest T
	bad  bool
}

// open checks the version of the value and returns the number of attributes.
func (r *reader[T]) open() int {
	if len(r.rest) == 0 || r.rest[0] != valueVersion {
		r.bad = true
		return 0
	}
	r.rest = r.rest[1:]
	n := r.uvarint()
	if n > uint64(len(r.rest)) { // an attribute takes more than one byte
		r.bad = true
		return 0
	}
	return int(n)
}

func (r *reader[T]) uvarint() uint64 {
	var v uint64
	for i := 0; i < len(r.rest) && i < binary.MaxVarintLen64; i++ {
		b := r.rest[i]
		if i == binary.MaxVarintLen64-1 && b > 1 {
			break
		}
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			r.rest = r.rest[i+1:]
			return v
		}
	}
	r.bad = true
	return 0
}

func (r *reader[T]) bytes() T {
	n := r.uvarint()
	if r.bad || n > uint64(len(r.rest)) {
		r.bad = true
		return r.rest[:0]
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

// next returns the next attribute. text is the attribute's value if the value is a string. num
// is the value if the value is a number.
func (r *reader[T]) next() (name, text T, num int64, kind table.ValueKind) {
	name = r.bytes()
	if r.bad || len(r.rest) == 0 {
		r.bad = true
		return name, name, 0, table.KindNone
	}
	tag := r.rest[0]
	r.rest = r.rest[1:]
	switch tag {
	case tagString:
		return name, r.bytes(), 0, table.KindString
	case tagNumber:
		return name, name[:0], unzigzag(r.uvarint()), table.KindNumber
	}
	r.bad = true
	return name, name, 0, table.KindNone
}

// decodeAttrs returns all attributes. The attributes share the memory of value.
func decodeAttrs(value string) ([]table.Attr, error) {
	r := reader[string]{rest: value}
	n := r.open()
	var attrs []table.Attr
	if n > 0 {
		attrs = make([]table.Attr, 0, n)
	}
	for range n {
		name, text, num, kind := r.next()
		if r.bad {
			break
		}
		v := table.N(num)
		if kind == table.KindString {
			v = table.S(text)
		}
		attrs = append(attrs, table.Attr{Name: name, Value: v})
	}
	if r.bad || len(r.rest) > 0 {
		return nil, fmt.Errorf("%w (value of %d bytes)", errCorrupt, len(value))
	}
	return attrs, nil
}

// sizeOf returns the billed size of an encoded item.
func sizeOf(keyBytes int, value []byte) (int, error) {
	_, size, err := appendProjected(nil, keyBytes, value, nil)
	return size, err
}

// appendProjected appends the named attributes of an encoded item, and returns the billed size of the whole item.
func appendProjected(dst []table.Attr, keyBytes int, value []byte, names []string) ([]table.Attr, int, error) {
	size := len(table.AttrPK) + len(table.AttrSK) + keyBytes
	r := reader[[]byte]{rest: value}
	for range r.open() {
		name, text, num, kind := r.next()
		if r.bad {
			break
		}
		size += len(name)
		if kind == table.KindString {
			size += len(text)
		} else {
			size += table.SizeOfNumber(num)
		}
		switch i := slices.IndexFunc(names, func(wanted string) bool { return wanted == string(name) }); {
		case i < 0:
		case kind == table.KindString:
			dst = append(dst, table.Attr{Name: names[i], Value: table.S(string(text))})
		default:
			dst = append(dst, table.Attr{Name: names[i], Value: table.N(num)})
		}
	}
	if r.bad || len(r.rest) > 0 {
		return dst, 0, errCorrupt
	}
	return dst, size, nil
}

// ttlOf returns the second from which an encoded item is expired.
func ttlOf(value []byte) (second int64, ok bool) {
	r := reader[[]byte]{rest: value}
	for range r.open() {
		name, _, num, kind := r.next()
		if r.bad {
			return 0, false
		}
		if string(name) == table.AttrTTL {
			return num, kind == table.KindNumber
		}
	}
	return 0, false
}
