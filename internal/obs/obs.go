// Package obs is what a process shows of itself: its log, its metrics, the admin
// handler, and the request ids that tie log lines and events together.
//
// It keeps no global state: a registry and a logger are made by who starts the
// process and handed down. It never logs payloads or tokens. It knows no feed.
package obs

import (
	"io"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// NewLogger writes lines of JSON to w, one an event. With console it writes for
// people instead.
func NewLogger(w io.Writer, level zapcore.Level, console bool) *zap.Logger {
	cfg := zap.NewProductionEncoderConfig()
	cfg.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	cfg.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder(cfg)
	if console {
		cfg.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		cfg.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(cfg)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), level))
}
