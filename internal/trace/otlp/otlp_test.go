package otlp

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTracesAreOffUnlessACollectorIsNamed(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318"
	for environ, test := range map[string]struct {
		on     bool
		faults string
	}{
		"":                             {false, ""},
		"PATH=x":                       {false, ""},
		"OTEL_SERVICE_NAME=x":          {false, ""},
		"OTEL_TRACES_SAMPLER=no":       {false, ""},
		endpoint:                       {true, ""},
		"OTEL_TRACES_EXPORTER=otlp":    {true, ""},
		"OTEL_EXPORTER_OTLP_ENDPOINT=": {false, ""},
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://collect.example/v1":                        {true, ""},
		"OTEL_TRACES_EXPORTER=zipkin":                                                          {false, "OTEL_TRACES_EXPORTER"},
		"OTEL_EXPORTER_OTLP_ENDPOINT=localhost:4318":                                           {true, "OTEL_EXPORTER_OTLP_ENDPOINT"},
		endpoint + " OTEL_TRACES_EXPORTER=none":                                                {false, ""},
		endpoint + " OTEL_SDK_DISABLED=True":                                                   {false, ""},
		endpoint + " OTEL_EXPORTER_OTLP_PROTOCOL=grpc":                                         {true, "OTEL_EXPORTER_OTLP_PROTOCOL"},
		endpoint + " OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/json":                             {true, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"},
		endpoint + " OTEL_TRACES_SAMPLER=some":                                                 {true, "OTEL_TRACES_SAMPLER"},
		endpoint + " OTEL_TRACES_SAMPLER=always_off":                                           {true, ""},
		endpoint + " OTEL_TRACES_SAMPLER=traceidratio":                                         {true, ""},
		endpoint + " OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=0.1":             {true, ""},
		endpoint + " OTEL_TRACES_SAMPLER=parentbased_traceidratio OTEL_TRACES_SAMPLER_ARG=10%": {true, "OTEL_TRACES_SAMPLER_ARG"},
	} {
		on, err := check(variables(strings.Split(environ, " ")))
		assert.Equal(t, test.on, on, environ)
		if test.faults == "" {
			assert.NoError(t, err, environ)
			continue
		}
		assert.ErrorContains(t, err, test.faults, environ)
	}
	_, err := check(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "user:secret@x"})
	assert.NotContains(t, err.Error(), "secret")
}
