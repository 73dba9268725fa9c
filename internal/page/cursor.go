package page

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"fanfare/internal/fault"
	"fanfare/internal/id"
)

// Scope names the list that a cursor belongs to: the kind of the list, the user or post that owns the
// list, and the filter. A cursor is the position of the last shown item, with a checksum of the
// position and the scope. A cursor contains no secret and grants no access. Because of the checksum,
// Position refuses a changed cursor, or a cursor of another list, and does not read such a cursor as a
// position in this list.
type Scope struct {
	List, Owner, Filter string
	// Valid reports whether a string can be a position in this list.
	Valid func(string) bool
}

// A cursor has one byte of version, the checksum, and the position, in base64url.
const (
	cursorVersion = 1
	checksumBytes = 8
	// maxCursor is the length of the longest cursor: the cursor of a home by pull that has gathered 100
	// posts, reached a user id of 64 bytes, and remembers 64 originals of reposts.
	maxCursor = (1 + checksumBytes + 1 + 64 + (2+MaxLimit+1+64)*id.PackedLen + 2) / 3 * 4
)

// ListByID returns the scope of a list in the order of ULIDs.
func ListByID(list, owner, filter string) Scope { return Scope{list, owner, filter, id.Valid} }

// ListByUser returns the scope of a list in the order of user ids.
func ListByUser(list, owner string) Scope { return Scope{list, owner, "", id.ValidUser} }

// Cursor returns the cursor that continues just after the item at position.
func (s Scope) Cursor(position string) string {
	raw := make([]byte, 0, 1+checksumBytes+len(position))
	raw = append(raw, cursorVersion)
	raw = append(raw, s.checksum(position)...)
	raw = append(raw, position...)
	return base64.RawURLEncoding.EncodeToString(raw)
}

// Position is the reverse of Cursor. The start of a list has the cursor "" and the position "".
func (s Scope) Position(cursor string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	malformed := &fault.Error{Kind: fault.Malformed, Detail: "the cursor does not belong to this list: start again without a cursor"}
	if len(cursor) > maxCursor {
		return "", malformed
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(raw) <= 1+checksumBytes || raw[0] != cursorVersion {
		return "", malformed
	}
	position := string(raw[1+checksumBytes:])
	// Base64 can spell the same bytes in two ways. The comparison of the whole text refuses the second
	// spelling.
	if !s.Valid(position) || s.Cursor(position) != cursor {
		return "", malformed
	}
	return position, nil
}

func (s Scope) checksum(position string) []byte {
	var raw []byte
	for _, part := range []string{s.List, s.Owner, s.Filter, position} {
		raw = binary.AppendUvarint(raw, uint64(len(part))) // the length prevents that two lists of parts give the same bytes
		raw = append(raw, part...)
	}
	sum := sha256.Sum256(raw)
	return sum[:checksumBytes]
}
