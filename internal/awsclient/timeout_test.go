package awsclient

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestAnEmulatorBesideTheProcessHasMoreTime(t *testing.T) {
	for host, want := range map[string]time.Duration{
		"localhost": 20 * time.Second, "localstack": 20 * time.Second, "127.0.0.1": 20 * time.Second, "::1": 20 * time.Second,
		"dynamodb.eu-west-1.amazonaws.com": 3 * time.Second, "10.0.0.7": 3 * time.Second,
	} {
		assert.Equal(t, want, timeoutOf(host), host)
	}
}
