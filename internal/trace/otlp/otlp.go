// Package otlp makes spans and sends them to a collector (OTLP over HTTP), if the standard
// variables OTEL_* enable that. It must never delay the work that it traces: spans that the
// collector does not take in time are dropped, and the memory for spans is bounded. It does
// not log headers for the collector, because they may contain a token.
package otlp

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
)

// flushTime is the timeout of the last send when a process stops.
const flushTime = time.Second

// Traces are the spans of a process.
type Traces struct {
	provider *sdk.TracerProvider
	log      *zap.Logger
}

// Open returns nil unless environ enables traces: environ names a collector in
// OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, or OTEL_TRACES_EXPORTER is
// otlp. If traces are enabled, Open starts the sender. service and version name the process, unless
// OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES do.
//
// The SDK reads all other variables from the environment of the process. Open refuses bad
// values of the variables that decide about traces as a whole. The SDK would ignore these
// values.
func Open(ctx context.Context, environ []string, service, version string, log *zap.Logger) (*Traces, error) {
	vars := variables(environ)
	if on, err := check(vars); err != nil || !on {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	described, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", service), attribute.String("service.version", version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("traces: OTEL_RESOURCE_ATTRIBUTES: %w", err), exporter.Shutdown(ctx))
	}
	return &Traces{sdk.NewTracerProvider(sdk.WithBatcher(&logged{SpanExporter: exporter, log: log}), sdk.WithResource(described)), log}, nil
}

// Tracer returns the source of spans, nil if traces are off.
func (t *Traces) Tracer() trace.Tracer {
	if t == nil {
		return nil
	}
	return t.provider.Tracer("fanfare")
}

// Close sends the remaining spans, for a second at most. If spans are lost, Close logs a line, and
// the process does not fail.
func (t *Traces) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Warn("the last traces were not sent", zap.Error(err))
	}
	return nil
}

// logged logs when the collector stops taking spans, and when it takes spans again. Without logged
// the SDK would print each failure outside of the log.
type logged struct {
	sdk.SpanExporter
	log    *zap.Logger
	failed atomic.Bool
}

// ExportSpans implements sdk.SpanExporter.
func (l *logged) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := l.SpanExporter.ExportSpans(ctx, spans)
	switch was := l.failed.Swap(err != nil); {
	case err != nil && !was:
		l.log.Warn("traces are not sent and get lost: see OTEL_EXPORTER_OTLP_ENDPOINT", zap.Error(err))
	case err == nil && was:
		l.log.Info("traces are sent again")
	}
	return nil
}

// variables returns the variables OTEL_* that have a value.
func variables(environ []string) map[string]string {
	vars := map[string]string{}
	for _, entry := range environ {
		if name, value, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "OTEL_") && strings.TrimSpace(value) != "" {
			vars[name] = strings.TrimSpace(value)
		}
	}
	return vars
}

// check reports whether vars enable traces. Its error names the variables with bad
// values.
func check(vars map[string]string) (on bool, err error) {
	endpoints := []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"}
	exporter := vars["OTEL_TRACES_EXPORTER"]
	on = exporter == "otlp" || exporter == "" && (vars[endpoints[0]] != "" || vars[endpoints[1]] != "")
	if strings.EqualFold(vars["OTEL_SDK_DISABLED"], "true") {
		return false, nil
	}
	var faults []string
	if !slices.Contains([]string{"", "none", "otlp"}, exporter) {
		faults = append(faults, fmt.Sprintf("OTEL_TRACES_EXPORTER: %q is neither otlp nor none", exporter))
	}
	if !on {
		return false, joined(faults)
	}
	for _, name := range endpoints {
		// The URL may have a password, so the fault does not quote it.
		if u, err := url.Parse(vars[name]); vars[name] != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
			faults = append(faults, name+" is not a URL such as http://127.0.0.1:4318")
		}
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"} {
		if v := vars[name]; v != "" && v != "http/protobuf" {
			faults = append(faults, fmt.Sprintf("%s: %q is not http/protobuf, the only protocol: port 4318 of most collectors", name, v))
		}
	}
	sampler, arg := strings.ToLower(vars["OTEL_TRACES_SAMPLER"]), vars["OTEL_TRACES_SAMPLER_ARG"]
	switch sampler {
	case "", "always_on", "always_off", "parentbased_always_on", "parentbased_always_off":
	case "traceidratio", "parentbased_traceidratio":
		if ratio, err := strconv.ParseFloat(arg, 64); arg != "" && (err != nil || ratio < 0 || ratio > 1) {
			faults = append(faults, fmt.Sprintf("OTEL_TRACES_SAMPLER_ARG: %q is not a number between 0 and 1", arg))
		}
	default:
		faults = append(faults, fmt.Sprintf("OTEL_TRACES_SAMPLER: %q is not a sampler: use parentbased_traceidratio, or another of docs/CONFIGURATION.md", sampler))
	}
	return true, joined(faults)
}

func joined(faults []string) error {
	if len(faults) == 0 {
		return nil
	}
	return errors.New("environment: " + strings.Join(faults, "; "))
}
