package main

import (
	"testing"

	"fanfare/internal/table"
)

func TestTableModelPrintsTheDesignOfTheConfiguredTable(t *testing.T) {
	want, err := table.WorkbenchModel("other")
	if err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := result(t, []string{"FANFARE_TABLE=other"}, "fanfare", "table", "model")
	if code != 0 || stdout != string(want) || stderr != "" {
		t.Errorf("exit %d, stderr %q, stdout %.200s", code, stderr, stdout)
	}
	if code, _, stderr := result(t, nil, "fanfare", "table", "model", "more"); code != 2 || stderr == "" {
		t.Errorf("with an argument too many: exit %d, stderr %q", code, stderr)
	}
}
