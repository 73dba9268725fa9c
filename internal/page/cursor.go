package page

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"fanfare/internal/fault"
	"fanfare/internal/id"
)

// Scope names the list that a cursor belongs to: its kind, the user or post that owns the
// list, and the filter. A cursor is the position of the last shown item, with a checksum
// of the position and the scope. It holds no secret and grants no access. Because of the
// checksum, a changed cursor, or a cursor of another list, is refused and not read as a
// position in this list.
type Scope struct {
	List, Owner, Filter string
	// Valid reports whether a string can be a position in this list.
	Valid func(string) bool
}

// Cursor layout: one byte of version, the checksum, the position; in base64url.
const (
	cursorVersion = 1
	checksumBytes = 8
	// maxCursor is the length of the longest cursor: a home by pull has gathered 100
	// posts and reached a user id of 64 bytes.
	maxCursor = (1 + checksumBytes + 1 + 64 + (2+MaxLimit)*id.PackedLen + 2) / 3 * 4
)

// ListByID makes the scope of a list in the order of ULIDs.
func ListByID(list, owner, filter string) Scope { return Scope{list, owner, filter, id.Valid} }

// ListByUser makes the scope of a list in the order of user ids.
func ListByUser(list, owner string) Scope { return Scope{list, owner, "", id.ValidUser} }

// Cursor returns the cursor that continues just after the item at position.
func (s Scope) Cursor(position string) string {
	raw := make([]byte, 0, 1+checksumBytes+len(position))
	raw = append(raw, cursorVersion)
	raw = append(raw, s.checksum(position)...)
	raw = append(raw, position...)
	return base64.RawURLEncoding.EncodeToString(raw)
}

// Position is the reverse of cursor. Both are "" at the start of the list.
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
	// Base64 can spell the same bytes in two ways. The comparison of the whole text
	// refuses the second spelling.
	if !s.Valid(position) || s.Cursor(position) != cursor {
		return "", malformed
	}
	return position, nil
}

func (s Scope) checksum(position string) []byte {
	var raw []byte
	for _, part := range []string{s.List, s.Owner, s.Filter, position} {
		raw = binary.AppendUvarint(raw, uint64(len(part))) // so that no two lists of parts give the same bytes
		raw = append(raw, part...)
	}
	sum := sha256.Sum256(raw)
	return sum[:checksumBytes]
}
