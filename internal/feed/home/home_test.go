package home

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"fanfare/internal/page"
)

func TestTheZeroValueOfASettingIsItsDefault(t *testing.T) {
	for _, zero := range []int{0, -1} {
		c := Config{HeadBytes: zero, StreamPart: zero, RemoveFrom: zero}.withDefaults()
		assert.Equal(t, 16<<20, c.HeadBytes)
		assert.Equal(t, page.DefaultLimit, c.StreamPart)
		assert.Equal(t, 100, c.RemoveFrom)
		c.HeadsHeld(1)
	}
}

func TestASettingThatIsGivenStays(t *testing.T) {
	held := 0
	c := Config{HeadBytes: 1, StreamPart: 1, RemoveFrom: 1, HeadsHeld: func(bytes int) { held = bytes }}.withDefaults()
	assert.Equal(t, []int{1, 1, 1}, []int{c.HeadBytes, c.StreamPart, c.RemoveFrom})
	c.HeadsHeld(7)
	assert.Equal(t, 7, held)
}
