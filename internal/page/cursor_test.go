package page

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/fault"
	"fanfare/internal/id"
)

func TestCursorsBelongToOneList(t *testing.T) {
	scopes := []Scope{
		ListByID("home", "ann", ""), ListByID("home", "bob", ""), ListByID("posts", "ann", ""), ListByID("posts", "ann", "x"),
		ListByID("posts", "an", "nx"), ListByUser("followers", "ann"), ListByUser("following", "ann"), ListByUser("friends", "ann"),
	}
	for i, from := range scopes {
		position := "auth0|5f7c.@:-_"
		if !from.Valid("ann") || from.List == "home" || from.List == "posts" {
			position = id.Max
		}
		cursor := from.Cursor(position)
		for j, to := range scopes {
			got, err := to.Position(cursor)
			if i == j {
				assert.NoErrorf(t, err, "%+v", to)
				assert.Equalf(t, position, got, "%+v", to)
				continue
			}
			if e, ok := errors.AsType[*fault.Error](err); !ok || e.Kind != fault.Malformed {
				t.Errorf("a cursor of %+v in %+v: %q, %v", from, to, got, err)
			}
		}
	}
	if got, err := scopes[0].Position(""); got != "" || err != nil {
		t.Errorf("no cursor: %q, %v", got, err)
	}
}

func TestChangedCursorsAreRefused(t *testing.T) {
	s := ListByID("home", "ann", "")
	cursor := s.Cursor(id.Min)
	changed := []string{
		" ", cursor + "A", cursor + "=", cursor + "\n", cursor[1:], cursor[:len(cursor)-1], strings.ToUpper(cursor),
		strings.Repeat("A", 1<<16), base64.RawURLEncoding.EncodeToString([]byte{cursorVersion}),
	}
	for i := range len(cursor) {
		for _, c := range []byte("AZ_-") {
			if cursor[i] != c {
				changed = append(changed, cursor[:i]+string(c)+cursor[i+1:])
			}
		}
	}
	for _, c := range changed {
		got, err := s.Position(c)
		assert.Errorf(t, err, "%q is read as %q", c, got)
	}
}

// The cursors of this test have the right checksum, but a position that their list cannot have.
func TestPositionsAreIDs(t *testing.T) {
	for _, s := range []Scope{ListByID("home", "ann", ""), ListByUser("friends", "ann")} {
		for _, position := range []string{"", "p#x", "a b", "é", "..", ".a", "a~", strings.Repeat("x", 65)} {
			got, err := s.Position(s.Cursor(position))
			assert.Errorf(t, err, "%q is read as %q", position, got)
		}
	}
}

// FuzzCursor checks that no cursor panics, and that an accepted cursor equals the cursor that
// Scope.Cursor returns for the position.
func FuzzCursor(f *testing.F) {
	f.Add("ann", ListByID("home", "ann", "").Cursor(id.Max))
	f.Add("bob", ListByID("home", "ann", "").Cursor(id.Min))
	f.Add("auth0|5f7c", ListByUser("friends", "auth0|5f7c").Cursor("auth0|5f7c.0456"))
	f.Add("", "")
	f.Fuzz(func(t *testing.T, owner, cursor string) {
		for _, s := range []Scope{ListByID("home", owner, ""), ListByUser("friends", owner)} {
			position, err := s.Position(cursor)
			if err != nil {
				if e, ok := errors.AsType[*fault.Error](err); !ok || e.Kind != fault.Malformed {
					t.Fatal(err)
				}
				continue
			}
			if cursor != "" && (s.Cursor(position) != cursor || !s.Valid(position)) {
				t.Fatalf("%q is read as %q", cursor, position)
			}
		}
	})
}
