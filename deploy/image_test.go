// Package deploy tests the container image, and the module from which the image is built.
package deploy

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// dockerfile returns the instructions of the two stages of the Dockerfile, each instruction on one line.
func dockerfile(t *testing.T) (build, image []string) {
	t.Helper()
	text, err := os.ReadFile("Dockerfile")
	require.NoError(t, err)
	joined := strings.ReplaceAll(string(text), "\\\n", " ")
	stages := [][]string{nil}
	for line := range strings.Lines(joined) {
		switch line = strings.Join(strings.Fields(line), " "); {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "FROM "):
			stages = append(stages, []string{line})
		default:
			stages[len(stages)-1] = append(stages[len(stages)-1], line)
		}
	}
	stages = stages[1:] // drops the arguments before the first stage
	require.Lenf(t, stages, 2, "the Dockerfile has %d stages", len(stages))
	return stages[0], stages[1]
}

func TestTheImageIsPinnedStaticAndNotRoot(t *testing.T) {
	build, image := dockerfile(t)
	text := strings.Join(append(build, image...), "\n")
	for _, want := range []string{
		`(?m)^FROM golang:1\.26\.\d+-\w+\$\{DIGEST:\+@\$\{DIGEST\}\} AS build$`, `(?m)^FROM scratch$`, `(?m)^USER [1-9]\d*:[1-9]\d*$`,
		`CGO_ENABLED=0 go build -tags grpcnotrace -trimpath`, `ca-certificates\.crt`, `(?m)^COPY LICENSE /LICENSE$`,
		`(?m)^VOLUME /data$`, `(?m)^EXPOSE 8080$`, `(?m)^HEALTHCHECK .* CMD \["fanfare", "health"\]$`,
	} {
		assert.Truef(t, regexp.MustCompile(want).MatchString(text), "the Dockerfile has nothing like %s", want)
	}
	assert.NotContains(t, text, ":latest", "an image is not pinned")
}
