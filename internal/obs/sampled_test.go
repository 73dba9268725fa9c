package obs_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"fanfare/internal/obs"
	"fanfare/internal/queue"
)

// The test has an outage of two minutes, in which 10,000 receives of each of two topics fail.
func TestTheLinesOfAnOutageAreOneAKindAndTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zapcore.DebugLevel)
		log := obs.Sampled(zap.New(core).Named("fanout"), zap.WarnLevel)
		const receives, topics, outage = 10_000, 2, 2 * time.Minute
		fail := func(i int) {
			for _, topic := range []string{queue.TopicPosts, queue.TopicChunks}[:topics] {
				msg := message.NewMessage(fmt.Sprint(topic, i), nil)
				queue.Answerer{Topic: topic, Log: log}.Answer(t.Context(), msg, &queue.UnavailableError{Op: "read", Err: errors.New("no")}, false)
			}
		}
		fail(0)
		require.Equal(t, topics, logged.Len(), "the first line of each kind is written at once")
		for i := 1; i < receives; i++ {
			pass(outage / receives)
			fail(i)
		}
		pass(obs.SampleTime)
		lines := logged.FilterMessage("failed, the message is redelivered").All()
		assert.LessOrEqual(t, len(lines), topics*(1+int(outage/obs.SampleTime)+1))
		stand, last := map[any]int64{}, map[any]any{}
		for i := range lines {
			fields := lines[i].ContextMap()
			stand[fields["topic"]] += fields["lines"].(int64)
			last[fields["topic"]] = fields["message_id"]
			assert.Equal(t, "fanout", lines[i].LoggerName)
			assert.NotEmpty(t, fields["error"])
		}
		assert.Equal(t, map[any]int64{queue.TopicPosts: receives, queue.TopicChunks: receives}, stand, "the lines that the written ones stand for")
		assert.Equal(t, map[any]any{queue.TopicPosts: fmt.Sprint("posts", receives-1), queue.TopicChunks: fmt.Sprint("chunks", receives-1)}, last)

		pass(time.Hour)
		written := logged.Len()
		fail(receives)
		assert.Equal(t, written+topics, logged.Len(), "a line after an hour is written at once")
	})
}

func TestOnlyWarningsAndErrorsOfOneKindAreSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zapcore.DebugLevel)
		log := obs.Sampled(zap.New(core), zap.WarnLevel)
		for i := range 3 {
			log.Info("ended", zap.Int("i", i))
			log.Debug("ended", zap.Int("i", i))
			log.With(zap.String("topic", "a")).Warn("failed", zap.Int("i", i))
			log.Warn("failed", zap.String("topic", "b"), zap.Int("i", i))
			log.Error("failed", zap.Int("i", i))
			log.Named("other").Error("failed", zap.Int("i", i))
		}
		require.Equal(t, 2*3+4, logged.Len())
		require.NoError(t, log.Sync())
		assert.Equal(t, 2*3+4+4, logged.Len(), "Sync writes the held lines")
		held := logged.All()[10:]
		for i := range held {
			assert.Equal(t, map[string]any{"i": int64(2), "lines": int64(2)}, without(held[i].ContextMap(), "topic"))
		}
		require.NoError(t, log.Sync())
		pass(time.Hour)
		assert.Equal(t, 14, logged.Len(), "no line is written twice")
	})
}

// A stranger may put its own text into a line.
func TestASampledLogIsBoundedWhateverItsTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logged := observer.New(zapcore.DebugLevel)
		log := obs.Sampled(zap.New(core), zap.InfoLevel)
		for i := range 10_000 {
			log.Info(fmt.Sprint("from port ", i))
		}
		assert.Equal(t, 129, logged.Len())
		require.NoError(t, log.Sync())
		assert.Equal(t, 130, logged.Len())
	})
}

func without(fields map[string]any, key string) map[string]any {
	delete(fields, key)
	return fields
}
