package schema

import (
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/workbench.json")

const workbenchPage = "../../docs/workbench.json"

func TestWorkbenchModelIsThePublishedOne(t *testing.T) {
	model, err := WorkbenchModel("fanfare")
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(workbenchPage, model, 0o644))
	}
	published, err := os.ReadFile(workbenchPage)
	require.NoError(t, err)
	diff := cmp.Diff(string(published), string(model))
	assert.Empty(t, diff, "docs/workbench.json is another one (go test ./internal/schema -run Workbench -update writes it)")
}

// TestWorkbenchModelHasTheShapeThatIsImported checks the names and types of the import format.
func TestWorkbenchModelHasTheShapeThatIsImported(t *testing.T) {
	raw, err := WorkbenchModel("mine")
	require.NoError(t, err)
	var model map[string]any
	require.NoError(t, json.Unmarshal(raw, &model))
	wantKeys := func(what string, of any, names ...string) map[string]any {
		t.Helper()
		object, ok := of.(map[string]any)
		require.Truef(t, ok, "%s is no object", what)
		for _, name := range names {
			if object[name] == nil {
				t.Errorf("%s has no %s", what, name)
			}
		}
		assert.Lenf(t, object, len(names), "%s has %d members, not %v", what, len(object), names)
		return object
	}
	list := func(of any) []any {
		t.Helper()
		l, ok := of.([]any)
		if !ok || len(l) == 0 {
			t.Fatalf("%v is no list with something in it", of)
		}
		return l
	}
	text := func(of any) string {
		t.Helper()
		s, ok := of.(string)
		require.Truef(t, ok, "%v is no string", of)
		return s
	}
	wantKeys("the model", model, "ModelName", "ModelMetadata", "DataModel")
	wantKeys("ModelMetadata", model["ModelMetadata"], "Author", "DateCreated", "DateLastModified", "Description", "AWSService", "Version")
	tables := list(model["DataModel"])
	of := wantKeys("the table", tables[0], "TableName", "KeyAttributes", "NonKeyAttributes", "TableFacets", "GlobalSecondaryIndexes", "TableData", "DataAccess", "BillingMode")
	if len(tables) != 1 || of["TableName"] != "mine" || of["BillingMode"] != "PAY_PER_REQUEST" {
		t.Errorf("%d tables, the first %v, billed %v", len(tables), of["TableName"], of["BillingMode"])
	}
	key := func(of any, partition, sort string) {
		t.Helper()
		want := map[string]any{
			"PartitionKey": map[string]any{"AttributeName": partition, "AttributeType": "S"},
			"SortKey":      map[string]any{"AttributeName": sort, "AttributeType": "S"},
		}
		assert.Empty(t, cmp.Diff(any(want), of))
	}
	key(of["KeyAttributes"], "PK", "SK")
	indexes := list(of["GlobalSecondaryIndexes"])
	index := wantKeys("the index", indexes[0], "IndexName", "KeyAttributes", "Projection")
	key(index["KeyAttributes"], "GSI1PK", "GSI1SK")
	if len(indexes) != 1 || index["IndexName"] != "GSI1" || wantKeys("Projection", index["Projection"], "ProjectionType")["ProjectionType"] != "ALL" {
		t.Errorf("indexes are %v", indexes)
	}

	kinds := map[string]string{"PK": "S", "SK": "S"}
	for _, a := range list(of["NonKeyAttributes"]) {
		attribute := wantKeys("an attribute", a, "AttributeName", "AttributeType")
		kinds[text(attribute["AttributeName"])] = text(attribute["AttributeType"])
	}
	rows := list(of["TableData"])
	seen := map[string]bool{}
	for _, r := range rows {
		row, ok := r.(map[string]any)
		require.Truef(t, ok, "row %v is no object", r)
		for name, value := range row {
			text(wantKeys(name, value, kinds[name])[kinds[name]])
		}
		k := text(row["PK"].(map[string]any)["S"]) + " / " + text(row["SK"].(map[string]any)["S"])
		assert.Falsef(t, seen[k], "two rows have the key %s", k)
		seen[k] = true
	}
	inFacets := 0
	for _, f := range list(of["TableFacets"]) {
		facet := wantKeys("a facet", f, "FacetName", "KeyAttributeAlias", "TableData", "NonKeyAttributes", "DataAccess")
		wantKeys("KeyAttributeAlias", facet["KeyAttributeAlias"], "PartitionKeyAlias", "SortKeyAlias")
		for _, name := range list(facet["NonKeyAttributes"]) {
			assert.NotEmptyf(t, kinds[text(name)], "%s of %s is no attribute of the table", name, facet["FacetName"])
		}
		inFacets += len(list(facet["TableData"]))
	}
	assert.Equalf(t, len(rows), inFacets, "%d rows, %d of them in facets", len(rows), inFacets)
}

// TestEveryKeyIsInTheWorkbenchModel compares the facets with the source, because a new kind of key
// needs a facet.
func TestEveryKeyIsInTheWorkbenchModel(t *testing.T) {
	files := token.NewFileSet()
	keys, err := parser.ParseFile(files, "keys.go", nil, 0)
	require.NoError(t, err)
	source, err := os.ReadFile("workbench.go")
	require.NoError(t, err)
	found := 0
	for _, d := range keys.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Type.Results == nil || len(f.Type.Results.List) != 1 {
			continue
		}
		if result, ok := f.Type.Results.List[0].Type.(*ast.SelectorExpr); !ok || result.Sel.Name != "Key" {
			continue
		}
		found++
		assert.Containsf(t, string(source), f.Name.Name+"(", "no facet is made by %s", f.Name.Name)
	}
	assert.GreaterOrEqualf(t, found, 14, "only %d keys were found in keys.go", found)
}

// TestSamplesOfAFacetHaveItsKey compares each row with the names of its facet.
func TestSamplesOfAFacetHaveItsKey(t *testing.T) {
	value := regexp.MustCompile(`[A-Z]{3,}`)
	fits := func(alias, is string) bool {
		var parts []string
		for _, fixed := range value.Split(alias, -1) {
			parts = append(parts, regexp.QuoteMeta(fixed))
		}
		return regexp.MustCompile("^" + strings.Join(parts, "[^#]*") + "$").MatchString(is)
	}
	for _, f := range facets() {
		for _, it := range f.samples {
			if !fits(f.key.PK, it.Key.PK) || !fits(f.key.SK, it.Key.SK) {
				t.Errorf("%s: %v does not fit %v", f.name, it.Key, f.key)
			}
			others := slices.DeleteFunc(facets(), func(o facet) bool {
				return !fits(o.key.PK, it.Key.PK) || !fits(o.key.SK, it.Key.SK)
			})
			assert.Lenf(t, others, 1, "%s: %v fits %d facets", f.name, it.Key, len(others))
			assert.NoError(t, it.Validate(), f.name)
		}
	}
}
