package home

import (
	"slices"

	"fanfare/internal/feed"
	"fanfare/internal/id"
	"fanfare/internal/page"
)

// onceScope is the scope of a home's cursors. A cursor has the last examined post, and the originals of the reposts that
// the paging showed last (I16).
type onceScope struct {
	page.Scope
	once *feed.Once
}

func homeScope(viewer, after string) onceScope {
	return onceScope{Scope: page.Scope{List: "home", Owner: viewer, Filter: after, Valid: func(p string) bool { _, _, ok := decodePosition(p); return ok }}}
}

// Cursor returns a cursor that continues after a post.
func (s onceScope) Cursor(last string) string {
	return s.Scope.Cursor(last + packed(s.once.Originals()))
}

// decodePosition returns the post of a position in a home, and the remembered originals.
func decodePosition(p string) (before string, once []string, ok bool) {
	if len(p) < len(id.Min) || !id.Valid(p[:len(id.Min)]) {
		return "", nil, false
	}
	once, ok = unpacked(p[len(id.Min):], feed.MostOnce)
	return p[:len(id.Min)], once, ok && !slices.Contains(once, "")
}

// packed encodes ids in 16 bytes each. The 16 bytes are zero for the id "".
func packed(ids []string) string {
	var raw []byte
	for _, post := range ids {
		raw = append(raw, id.Pack(post)...)
	}
	return string(raw)
}

// unpacked is the reverse of packed, for most ids at most.
func unpacked(raw string, most int) (ids []string, ok bool) {
	if len(raw)%id.PackedLen != 0 || len(raw) > most*id.PackedLen {
		return nil, false
	}
	for one := range slices.Chunk([]byte(raw), id.PackedLen) {
		ids = append(ids, id.Unpack(one))
	}
	return ids, true
}
