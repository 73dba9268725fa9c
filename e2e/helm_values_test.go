//go:build e2e && slow

package e2e

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/config"
)

// everyBinary starts a real process for every environment that the chart renders. By default the test
// starts a few.
var everyBinary = flag.Bool("every-binary", false, "start the binaries with every rendered environment")

// written is a line of testdata/chart_values.txt.
type written struct {
	line, values                    string
	variable, daemon, text, refused string
}

func writtenValues(t *testing.T) []written {
	t.Helper()
	file, err := os.ReadFile("testdata/chart_values.txt")
	require.NoError(t, err)
	var all []written
	for line := range strings.Lines(string(file)) {
		line = strings.TrimSuffix(line, "\n")
		values, want, isRow := strings.Cut(line, " => ")
		if !isRow || strings.HasPrefix(line, "#") {
			continue
		}
		w := written{line: line, values: values}
		var isRefused bool
		if w.refused, isRefused = strings.CutPrefix(want, "refused "); !isRefused {
			w.refused = ""
			w.variable, w.text, _ = strings.Cut(want, "=")
			w.variable, w.daemon, _ = strings.Cut(w.variable, "@")
			if strings.HasPrefix(w.text, `"`) {
				w.text, err = strconv.Unquote(w.text)
				require.NoError(t, err, line)
			}
		}
		all = append(all, w)
	}
	return all
}

// bounds returns a row for the least and the greatest value of each number and duration that people write, and for a value
// beyond each.
func bounds(t *testing.T) (all []written) {
	t.Helper()
	_, names := chartSchema(t)
	row := func(f config.Field, text, refused string) {
		w := written{values: fmt.Sprintf("settings: {%s: %s}", f.Name, text), variable: f.Name, text: text, refused: refused}
		if f.Embedded {
			w.values = "engine: embedded, " + w.values
		}
		w.line = w.values
		all = append(all, w)
	}
	for _, f := range config.Fields() {
		if names[f.Name] {
			continue
		}
		for bound, step := range map[string]int64{f.Low: -1, f.High: 1} {
			switch {
			case bound == "":
			case f.Kind == "whole":
				n, err := strconv.ParseInt(bound, 10, 64)
				require.NoError(t, err)
				row(f, bound, "")
				row(f, strconv.FormatInt(n+step, 10), f.Name)
			case f.Kind == "duration":
				d, err := time.ParseDuration(bound)
				require.NoError(t, err)
				row(f, bound, "")
				row(f, (d + time.Duration(step)*time.Millisecond).String(), f.Name)
			}
		}
		switch {
		case f.Zero == "":
		case f.Kind == "duration":
			row(f, "0s", "")
		default:
			row(f, "0", "")
		}
	}
	return all
}

// install renders a release with values in the form in which a person writes them: YAML, or flags.
func install(t *testing.T, release, values string, flags ...string) (map[string]map[string]any, error) {
	t.Helper()
	if strings.HasPrefix(values, "--") {
		flags, values = append(flags, strings.SplitN(values, " ", 2)...), ""
	}
	file := filepath.Join(t.TempDir(), "written.yaml")
	require.NoError(t, os.WriteFile(file, []byte(values), 0o600))
	args := append([]string{"template", release, "--namespace", "social", "--kube-version", "1.34", "-f", file}, flags...)
	manifests, err := helm(t, needed(), args...)
	if err != nil {
		return nil, err
	}
	return objects(t, manifests), nil
}

// deployments returns the Deployments of the chart, with the role of each Deployment.
func deployments() map[string]config.Role {
	all := daemons()
	all["canary"] = config.API
	return all
}

// podOf returns the spec of the pods of a Deployment or a StatefulSet.
func podOf(t *testing.T, all map[string]map[string]any, name string) any {
	t.Helper()
	kind := "Deployment "
	if all[kind+name] == nil {
		kind = "StatefulSet "
	}
	return at(t, all[kind+name], "spec", "template", "spec")
}

func containerOf(t *testing.T, all map[string]map[string]any, name string) any {
	t.Helper()
	return at(t, podOf(t, all, name), "containers", 0)
}

// environmentIn returns the environment that the kubelet gives to a daemon of a release. The kubelet
// reads $$ as $, and replaces $(NAME) by the value of an earlier variable.
func environmentIn(t *testing.T, all map[string]map[string]any, name string) map[string]string {
	t.Helper()
	env := map[string]string{}
	reference := regexp.MustCompile(`\$\$|\$\([^)]*\)`)
	for _, v := range at(t, containerOf(t, all, name), "env").([]any) {
		variable := fmt.Sprint(at(t, v, "name"))
		require.NotContains(t, env, variable, "server-side apply refuses a name twice")
		if v.(map[string]any)["valueFrom"] != nil {
			continue
		}
		value, isText := v.(map[string]any)["value"].(string)
		require.True(t, isText, "%s is no text: the API server refuses it", variable)
		require.NotEmpty(t, value, "%s is empty: leave it out", variable)
		env[variable] = reference.ReplaceAllStringFunc(value, func(s string) string {
			if s == "$$" {
				return "$"
			}
			if known, ok := env[s[2:len(s)-1]]; ok {
				return known
			}
			return s
		})
	}
	return env
}

// Each value reaches each daemon unchanged, and the daemon starts with the value. Otherwise the chart
// refuses the value, and the error names it.
func TestTheChartTakesWhatPeopleWriteOrRefusesIt(t *testing.T) {
	t.Parallel()
	rows := append(writtenValues(t), bounds(t)...)
	var taken, refused int
	for i, w := range rows {
		if w.refused != "" {
			refused++
		} else {
			taken++
		}
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			values := w.values
			if !strings.HasPrefix(values, "--") && !strings.HasPrefix(values, "{") {
				values = "{" + values + "}"
			}
			all, err := install(t, "fanfare", values)
			if w.refused != "" {
				require.Error(t, err, w.line)
				assert.ErrorContains(t, err, w.refused, w.line)
				assert.NotContains(t, err.Error(), "nil pointer", w.line)
				assert.NotContains(t, err.Error(), "HUSH", w.line)
				return
			}
			require.NoError(t, err, w.line)
			isTaken(t, w, all, *everyBinary || i%20 == 0)
		})
	}
	require.GreaterOrEqual(t, taken, 60)
	require.GreaterOrEqual(t, refused, 60)
	t.Logf("%d rendered environments of %d daemons, %d refused values", taken, len(deployments()), refused)
}

// isTaken checks the settings of the daemons of a release. If start is true, it also starts the daemons.
func isTaken(t *testing.T, w written, all map[string]map[string]any, start bool) {
	t.Helper()
	programs := deployments()
	if all["StatefulSet fanfare-one"] != nil { // TestTheChartRunsOneMachine starts it
		programs, start = map[string]config.Role{"one": config.API}, false
	}
	for name, role := range programs {
		env := environmentIn(t, all, "fanfare-"+name)
		got := env[w.variable]
		if w.variable == "image" {
			got = fmt.Sprint(at(t, containerOf(t, all, "fanfare-"+name), "image"))
		}
		if w.daemon == "" || w.daemon == name {
			assert.Equal(t, w.text, got, "%s: %s", name, w.line)
		}
		var environ []string
		for key, value := range env {
			environ = append(environ, key+"="+value)
		}
		_, err := config.Load(environ, role)
		require.NoError(t, err, "%s: %s", name, w.line)
		if start {
			program := fmt.Sprint(at(t, containerOf(t, all, "fanfare-"+name), "command", 0))
			starts(t, program, env)
		}
	}
}

// starts runs a daemon with the environment of a pod until the daemon has called the table and the queues
// of that environment. The daemon listens on free ports of this machine.
func starts(t *testing.T, program string, env map[string]string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	wanted := map[string]string{
		"DynamoDB":  fmt.Sprintf("%q:%q", "TableName", env["FANFARE_TABLE"]),
		"AmazonSQS": env["FANFARE_QUEUE_PREFIX"] + "-",
	}
	seen := awsThatIsAway(t, wanted, env["AWS_REGION"])
	environ := maps.Clone(env)
	maps.Copy(environ, map[string]string{
		"AWS_ENDPOINT_URL": seen.url, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key",
		"FANFARE_HTTP_ADDR": "127.0.0.1:0", "FANFARE_ADMIN_ADDR": "127.0.0.1:0", "FANFARE_METRICS_ADDR": "127.0.0.1:0",
	})
	command := exec.CommandContext(ctx, filepath.Join(binaries, program))
	for key, value := range environ {
		command.Env = append(command.Env, key+"="+value)
	}
	var problems bytes.Buffer
	command.Stderr = &problems
	require.NoError(t, command.Start())
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	select {
	case <-seen.all:
		stop()
		<-ended
	case err := <-ended:
		t.Errorf("%s did not start: %v: %s", program, err, &problems)
	}
}

// sightings records the calls of a process to an AWS endpoint that does not work.
type sightings struct {
	url string
	all chan struct{}
}

// awsThatIsAway answers 503 to every call until each service has received a call in the region with each
// wanted text.
func awsThatIsAway(t *testing.T, wanted map[string]string, region string) sightings {
	t.Helper()
	seen := sightings{all: make(chan struct{})}
	missing := maps.Clone(wanted)
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusServiceUnavailable)
		service, _, _ := strings.Cut(r.Header.Get("X-Amz-Target"), "_20120810")
		service, _, _ = strings.Cut(service, ".")
		mu.Lock()
		defer mu.Unlock()
		text, isMissing := missing[service]
		if err != nil || !isMissing || !bytes.Contains(body, []byte(text)) || !strings.Contains(r.Header.Get("Authorization"), "/"+region+"/") {
			return
		}
		if delete(missing, service); len(missing) == 0 {
			close(seen.all)
		}
	}))
	t.Cleanup(server.Close)
	seen.url = server.URL
	return seen
}
