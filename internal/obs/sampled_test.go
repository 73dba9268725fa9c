package obs_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"fanfare/internal/obs"
)

func TestASampledLogHasEachMessageOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zap.InfoLevel)
		log := obs.Sampled(zap.New(core))
		for range 1000 {
			log.Named("n").With(zap.String("a", "b")).Warn("refused", zap.Int("i", 1))
		}
		log.Warn("other")
		log.Debug("not enabled")
		<-time.After(time.Second)
		log.Warn("refused")
		<-time.After(time.Second)
		log.Warn("refused")
		var got []string
		for _, line := range lines.TakeAll() {
			got = append(got, fmt.Sprint(line.Message, line.ContextMap()))
		}
		assert.Equal(t, []string{"refusedmap[a:b i:1]", "othermap[]", "refusedmap[unlogged:999]", "refusedmap[]"}, got)
	})
}

// A stranger may put text of its own into a message.
func TestASampledLogIsBoundedWhateverItsMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zap.InfoLevel)
		log := obs.Sampled(zap.New(core))
		for i := range 10_000 {
			log.Warn(fmt.Sprint("from port ", i))
		}
		assert.Equal(t, 65, lines.Len())
	})
}
