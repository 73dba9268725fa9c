package daemon

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// A user who posts and deletes again and again does not write the log.
func TestTheWorkOfAUserDoesNotFillTheLog(t *testing.T) {
	t.Parallel()
	core, logged := observer.New(zap.DebugLevel)
	log := workLog(zap.New(core))
	for range 1000 {
		log.Info("not delivered: the post was deleted or has ended, or its author was removed")
	}
	assert.LessOrEqual(t, logged.Len(), 2)
}
