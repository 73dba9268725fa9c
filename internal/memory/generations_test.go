package memory

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAForgetEndsTheGenerationOfItsKey(t *testing.T) {
	t.Parallel()
	g := new(Generations)
	ann := g.Of("ann")
	assert.NotZero(t, ann, "a read without a generation is never kept")
	assert.Equal(t, ann, g.Of("ann"))
	g.Raise("ann")
	assert.NotEqual(t, ann, g.Of("ann"))
}
