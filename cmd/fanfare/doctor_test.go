package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/ops/doctor"
)

func TestDoctorExitsByItsWorstFinding(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, row := range map[string]struct {
		env  []string
		args []string
		code int
		want string
	}{
		"sound":                    {args: []string{"--data-dir", dir}, want: `(?s)^ok +configuration +all settings are valid.*\nok +data directory`},
		"a warning":                {env: []string{"FANFARE_ADMIN_ADDR=:9090"}, args: []string{"--data-dir", dir}, want: `(?m)^warning +configuration .*\n +mend: set FANFARE_METRICS_ADDR`},
		"a bad setting":            {env: []string{"FANFARE_WORKERS=1", "FANFARE_LIKE_WINDOW=x"}, code: 1, want: `(?s)^fault +configuration +FANFARE_LIKE_WINDOW.*\nfault +configuration +FANFARE_WORKERS.*\nok +data directory`},
		"no credentials":           {env: []string{"FANFARE_ENGINE=aws", "AWS_REGION=eu-central-1", "AWS_EC2_METADATA_DISABLED=true"}, args: []string{"--daemon", "fanout"}, code: 1, want: `(?m)^fault +AWS +.*set AWS_PROFILE`},
		"an operator":              {args: []string{"--data-dir", dir, "--daemon", "operator"}, want: `(?m)^ok +data directory`},
		"no such daemon":           {args: []string{"--daemon", "mail"}, code: 2, want: "^$"},
		"a daemon and an operator": {args: []string{"--daemon", "api,operator"}, code: 2, want: "^$"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := result(t, row.env, "fanfare", append([]string{"doctor"}, row.args...)...)
			assert.Equal(t, row.code, code, errs)
			assert.Regexp(t, row.want, out)
			if row.code == 2 {
				return
			}
			code, out, errs = result(t, row.env, "fanfare", append([]string{"doctor", "--json"}, row.args...)...)
			assert.Equal(t, row.code, code, errs)
			var found struct {
				Findings         []doctor.Finding
				Faults, Warnings int
			}
			require.NoError(t, json.Unmarshal([]byte(out), &found))
			assert.NotEmpty(t, found.Findings)
			assert.Equal(t, row.code == 1, found.Faults > 0)
		})
	}
}
