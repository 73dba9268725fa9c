// Package obs makes a process observable: it has the log, the metrics, the build, and the
// request ids that connect log lines and events.
//
// Package obs must never log a payload or a token, and never keep global state: the start
// of a process makes the registry and the logger and passes them to the parts. Package obs
// does not depend on the feed.
package obs

import (
	"io"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"fanfare/internal/terminal"
)

// NewLogger returns a logger that writes one line of JSON to w for each event. If console
// is true, the line is for people on a terminal instead.
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
