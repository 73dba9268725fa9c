package obs

import (
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	// SampleTime is the time in which a sampled logger writes at most one line of a kind.
	SampleTime = 10 * time.Second
	// mostKinds is the maximum number of kinds of a sampled logger (I9), because a text may
	// contain a stranger's address. All lines beyond this number share one kind.
	mostKinds = 128
)

// Sampled returns a logger for the work of messages and requests. In an outage all of this work
// fails, and strangers may send any number of requests, so one line for each failure would be
// gigabytes. Lines of one kind have the same logger, level, text and topic. The first line of a kind
// is written at once, and then the last line after each SampleTime. The field "lines" is the number
// of lines since the previous written line, including this line, so a metric can add the numbers up.
// Lines below the level least are not sampled. Sync writes the waiting lines.
func Sampled(log *zap.Logger, least zapcore.Level) *zap.Logger {
	return SampledEvery(log, least, SampleTime)
}

// SampledEvery returns a logger as Sampled does, but with the time every instead of SampleTime.
func SampledEvery(log *zap.Logger, least zapcore.Level, every time.Duration) *zap.Logger {
	s := &sampler{least: least, every: every, kinds: map[kind]*burst{}}
	return log.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core { return sampledCore{core, s, ""} }))
}

type kind struct {
	logger, text, topic string
	level               zapcore.Level
}

// burst has the held lines of one kind.
type burst struct {
	// until is the end of the sample time that began with the last written line. lines
	// counts the lines since the last written line, and last is the newest of them.
	until time.Time
	lines int
	last  heldLine
	end   *time.Timer
}

type heldLine struct {
	core   zapcore.Core
	entry  zapcore.Entry
	fields []zapcore.Field
}

// sampler has the bursts of all kinds.
type sampler struct {
	least zapcore.Level
	every time.Duration

	mu    sync.Mutex
	kinds map[kind]*burst
}

type sampledCore struct {
	zapcore.Core
	*sampler
	topic string
}

// With implements zapcore.Core.
func (c sampledCore) With(fields []zapcore.Field) zapcore.Core {
	return sampledCore{c.Core.With(fields), c.sampler, topicOf(fields, c.topic)}
}

func topicOf(fields []zapcore.Field, otherwise string) string {
	for i := range fields {
		if fields[i].Key == "topic" && fields[i].Type == zapcore.StringType {
			return fields[i].String
		}
	}
	return otherwise
}

// Check implements zapcore.Core.
func (c sampledCore) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return checked.AddCore(e, c)
	}
	return checked
}

// Write implements zapcore.Core.
func (c sampledCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	if e.Level < c.least {
		return c.Core.Write(e, fields)
	}
	if c.hold(e, fields) {
		return nil
	}
	return c.Core.Write(e, counted(fields, 1))
}

// counted returns the fields of a line that stands for a number of lines.
func counted(fields []zapcore.Field, lines int) []zapcore.Field {
	return append(slices.Clone(fields), zap.Int("lines", lines))
}

// hold reports whether a line has to wait for the end of the sample time of its kind.
func (c sampledCore) hold(e zapcore.Entry, fields []zapcore.Field) bool {
	k := kind{e.LoggerName, e.Message, topicOf(fields, c.topic), e.Level}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.kinds[k]
	if b == nil && len(c.kinds) >= mostKinds {
		k = kind{}
		b = c.kinds[k]
	}
	if b == nil {
		b = &burst{}
		c.kinds[k] = b
	}
	if b.lines == 0 && !now.Before(b.until) {
		b.until = now.Add(c.every)
		return false
	}
	b.lines++
	b.last = heldLine{c.Core, e, slices.Clone(fields)}
	if b.lines == 1 {
		b.end = time.AfterFunc(b.until.Sub(now), func() { _ = c.write(b) }) // the error has no reader
	}
	return true
}

// write writes the last held line of a kind.
func (s *sampler) write(b *burst) error {
	s.mu.Lock()
	lines, last := b.lines, b.last
	b.lines, b.last, b.until = 0, heldLine{}, time.Now().Add(s.every)
	s.mu.Unlock()
	if lines == 0 {
		return nil
	}
	return last.core.Write(last.entry, counted(last.fields, lines))
}

// Sync implements zapcore.Core.
func (c sampledCore) Sync() error {
	c.mu.Lock()
	var held []*burst
	for _, b := range c.kinds {
		if b.lines > 0 && b.end.Stop() {
			held = append(held, b)
		}
	}
	c.mu.Unlock()
	for _, b := range held {
		if err := c.write(b); err != nil {
			return err
		}
	}
	return c.Core.Sync()
}
