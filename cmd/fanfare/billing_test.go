package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// An impossible ceiling or capacity is a usage error. The command finds the error without a connection,
// and the error names the remedy.
func TestTableCreateRefusesImpossibleUnits(t *testing.T) {
	t.Parallel()
	provisioned := "--billing provisioned --write-units 500-10000 --read-units 1000-30000 --index-write-units 50-1000"
	for flags, want := range map[string]string{
		"--max-write -1":                                              "--max-write: -1 is not from 1 to 9999999, or 0 for no ceiling",
		"--max-read 10000000":                                         "--max-read: 10000000 is not from 1 to 9999999",
		"--max-read 1e4":                                              "invalid argument",
		"--billing PROVISIONED":                                       `"PROVISIONED" is not on-demand or provisioned`,
		"--billing provisioned":                                       "--billing provisioned needs --write-units, the least and the most units a second, such as 500-10000",
		provisioned:                                                   "needs --index-read-units",
		provisioned + " --index-read-units 20":                        `--index-read-units: "20" is not the least and the most units a second, such as 500-10000`,
		provisioned + " --index-read-units 0-1000":                    `"0-1000" is not between 1 and 9999999`,
		provisioned + " --index-read-units 1-10000000":                "is not between 1 and 9999999",
		provisioned + " --index-read-units -1-10":                     "is not the least and the most",
		provisioned + " --index-read-units 30-20":                     "the least units, 30, are above the most, 20: write the smaller number first",
		provisioned + " --index-read-units 20-1000 --max-write 10000": "--max-write is for a table on demand: with provisioned capacity the end of --write-units is the ceiling, so leave --max-write out",
		provisioned + " --index-read-units 20-1000 --max-read 0":      "so leave --max-read out",
		"--write-units 500-10000":                                     "--write-units is for --billing provisioned: add that, or set a ceiling by --max-write and --max-read",
		"--billing on-demand --read-units 500-10000":                  "--read-units is for --billing provisioned",
	} {
		code, stdout, stderr := result(t, nil, "fanfare", append([]string{"table", "create"}, strings.Fields(flags)...)...)
		assert.Equal(t, 2, code, "%s: %s", flags, stderr)
		assert.Empty(t, stdout, flags)
		assert.Contains(t, stderr, want, flags)
	}
}
