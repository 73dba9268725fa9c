package feed

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"fanfare/internal/id"
)

// scope is what a cursor is bound to: a list, the user or post that owns it, and
// the filter. A cursor is the position of the last item shown and a checksum over
// it and its scope. There is no secret in it: it names a place, it grants nothing.
// The checksum is so that a cursor that was changed, or belongs to another list, is
// refused instead of read as something else.
type scope struct {
	list, owner, filter string
	// valid tells what can be a position in this list.
	valid func(string) bool
}

// Cursor layout: one byte of version, the checksum, the position; in base64url.
const (
	cursorVersion = 1
	checksumBytes = 8
	// maxCursor is above the length of every cursor: a user id has 64 bytes.
	maxCursor = 128
)

// byID is the scope of a list in the order of ULIDs, byUser of one by user id.
func byID(list, owner, filter string) scope { return scope{list, owner, filter, id.Valid} }
func byUser(list, owner string) scope       { return scope{list, owner, "", id.ValidUser} }

// cursor returns the cursor behind the item at position.
func (s scope) cursor(position string) string {
	raw := make([]byte, 0, 1+checksumBytes+len(position))
	raw = append(raw, cursorVersion)
	raw = append(raw, s.checksum(position)...)
	raw = append(raw, position...)
	return base64.RawURLEncoding.EncodeToString(raw)
}

// position is the reverse of cursor; "" stands for the start of the list.
func (s scope) position(cursor string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	malformed := &Error{Kind: Malformed, Detail: "the cursor is not one of this list: start again without one"}
	if len(cursor) > maxCursor {
		return "", malformed
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(raw) <= 1+checksumBytes || raw[0] != cursorVersion {
		return "", malformed
	}
	position := string(raw[1+checksumBytes:])
	// The comparison of the whole text also refuses a second spelling of the same
	// bytes, which base64 has.
	if !s.valid(position) || s.cursor(position) != cursor {
		return "", malformed
	}
	return position, nil
}

func (s scope) checksum(position string) []byte {
	var raw []byte
	for _, part := range []string{s.list, s.owner, s.filter, position} {
		raw = binary.AppendUvarint(raw, uint64(len(part))) // no two lists of parts look the same
		raw = append(raw, part...)
	}
	sum := sha256.Sum256(raw)
	return sum[:checksumBytes]
}
