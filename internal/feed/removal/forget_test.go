package removal

import (
	"os"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/feed"
)

// A removal ends each sort of own things: otherwise the things would outlive their user.
func TestARemovalEndsAllOwnThings(t *testing.T) {
	text, err := os.ReadFile("forget.go")
	require.NoError(t, err)
	of, own := reflect.TypeFor[*feed.Service](), reflect.TypeFor[feed.Own]()
	sorts := 0
	for i := range of.NumMethod() {
		if m := of.Method(i); m.Type.NumOut() == 1 && m.Type.Out(0) == own {
			sorts++
			assert.Containsf(t, string(text), "sw.own(sw.r.feed."+m.Name+")", "forget.go has no place for %s", m.Name)
		}
	}
	assert.NotZero(t, sorts)
}
