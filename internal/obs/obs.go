// Package obs makes a process observable: its log, its metrics, its build, and the request
// ids that connect log lines and events.
//
// It must never log a payload or a token, and never keep global state: the start of a
// process makes the registry and the logger and passes them on. It knows no feed.
package obs

import (
	"io"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"fanfare/internal/terminal"
)

// NewLogger returns a logger that writes one line of JSON to w for each event, or, with
// console, a line for people on a terminal.
func NewLogger(w io.Writer, level zapcore.Level, console bool) *zap.Logger {
	cfg := zap.NewProductionEncoderConfig()
	cfg.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	cfg.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder(cfg)
	if console {
		cfg.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		cfg.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(cfg)
		w = terminal.Writer(w)
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), level))
}
