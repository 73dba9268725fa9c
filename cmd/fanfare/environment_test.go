package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Each program that reads the environment refuses a misspelled variable. The service links of Kubernetes do
// not change the answers of a program.
func TestServiceLinksChangeNoAnswer(t *testing.T) {
	t.Parallel()
	links := []string{
		"FANFARE_SERVICE_HOST=10.0.0.1", "FANFARE_SERVICE_PORT=80", "FANFARE_SERVICE_PORT_HTTP=80", "FANFARE_PORT=tcp://10.0.0.1:80",
		"FANFARE_PORT_80_TCP=tcp://10.0.0.1:80", "FANFARE_PORT_80_TCP_PROTO=tcp", "FANFARE_PORT_80_TCP_PORT=80", "FANFARE_PORT_80_TCP_ADDR=10.0.0.1",
		"FANFARE_API_SERVICE_HOST=fd00::1", "FANFARE_API_PORT=tcp://[fd00::1]:80",
	}
	nobody := " --admin 127.0.0.1:1"
	for _, line := range []string{
		"api", "fanout", "likeagg", "fanfare api", "fanfare up --http here", "fanfare token ann", "fanfare table describe", "fanfare table create",
		"fanfare queues describe", "fanfare queues create", "fanfare dlq ls" + nobody, "fanfare explain ann" + nobody,
		"fanfare delivery 01ARZ3NDEKTSV4RRFFQ69G5FAV" + nobody, "fanfare reconcile" + nobody, "fanfare verify" + nobody, "fanfare import nowhere",
		"fanfare export", "fanfare backup there" + nobody, "fanfare restore nowhere", "fanfare forget ann --yes", "fanfare replay --graph nowhere",
		"fanfare doctor --data-dir nowhere", "fanfare iam policy --daemon api", "fanfare health",
	} {
		t.Run(strings.ReplaceAll(line, " ", "_"), func(t *testing.T) {
			t.Parallel()
			args := strings.Fields(line)
			answer := func(env ...string) string {
				code, stdout, stderr := result(t, append(env, "FANFARE_ADMIN_ADDR=127.0.0.1:1"), args[0], args[1:]...)
				return fmt.Sprint("exit code ", code, ": ", stdout, stderr)
			}
			assert.Regexp(t, "^exit code [12]: (.|\n)*FANFARE_API_PORT is unknown", answer("FANFARE_API_PORT=8080"))
			assert.Equal(t, answer(), answer(links...))
		})
	}
}
