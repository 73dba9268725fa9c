package obs

import (
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	// sampleEvery is the least time between two lines of a message.
	sampleEvery = time.Second
	// mostMessages bounds the messages that a sampled log tells apart (I9). Further ones count as one.
	mostMessages = 64
)

// Sampled returns log with at most one line a second of each message, for messages that strangers or an
// outage cause at any rate. The field unlogged of a line counts the lines that were left out before it.
func Sampled(log *zap.Logger) *zap.Logger {
	return log.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return &sampled{core, &samples{messages: map[string]*sample{}}}
	}))
}

// sampled is a core that leaves lines out. All cores that With makes of it share its samples.
type sampled struct {
	zapcore.Core

	samples *samples
}

// With implements zapcore.Core.
func (s *sampled) With(fields []zapcore.Field) zapcore.Core {
	return &sampled{s.Core.With(fields), s.samples}
}

// Check implements zapcore.Core.
func (s *sampled) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !s.Enabled(e.Level) {
		return ce
	}
	unlogged, ok := s.samples.take(e)
	if !ok {
		return ce
	}
	core := s.Core
	if unlogged > 0 {
		core = core.With([]zapcore.Field{zap.Int("unlogged", unlogged)})
	}
	return ce.AddCore(e, core)
}

// sample is the last line of a message and the number of lines left out since.
type sample struct {
	logged   time.Time
	unlogged int
}

type samples struct {
	mu       sync.Mutex
	messages map[string]*sample
}

// take reports whether an entry is to be logged, and how many of its message were left out before it.
func (s *samples) take(e zapcore.Entry) (unlogged int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	message := e.Message
	last, known := s.messages[message]
	if !known && len(s.messages) >= mostMessages {
		message = ""
		last, known = s.messages[message]
	}
	if !known {
		last = &sample{}
		s.messages[message] = last
	}
	if age := e.Time.Sub(last.logged); age >= 0 && age < sampleEvery { // below 0, the clock was set back
		last.unlogged++
		return 0, false
	}
	unlogged = last.unlogged
	*last = sample{logged: e.Time}
	return unlogged, true
}
