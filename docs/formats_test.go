package docs

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// formats is the set of all formats. Each line describes one part of a format.
type formats map[string]bool

// free is the name of custom data. The data belongs to the application, which may put anything into it.
const free = "data"

// add adds a line for each field of a value. The line has the JSON kind of the field.
func (f formats) add(of string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, field := range v {
			if name == free {
				f[of+" "+name] = true
				continue
			}
			f.add(of+" "+name, field)
		}
	case []any:
		for _, element := range v {
			f.add(of+" []", element)
		}
	default:
		f[of+" "+strings.NewReplacer("float64", "number", "<nil>", "null").Replace(fmt.Sprintf("%T", v))] = true
	}
}

// golden adds the lines of files that have one JSON value in each line. Each value has its type and its
// version.
func (f formats) golden(t *testing.T, of, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		var value map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &value), line)
		name := fmt.Sprint(of, " ", value["type"])
		if version, is := value["version"]; is {
			name = fmt.Sprint(name, " ", version)
		}
		f.add(name, value)
	}
}

// table adds the keys and attributes of each kind of item. The prefix of an index key is part of the
// format.
func (f formats) table(t *testing.T) {
	t.Helper()
	var book struct {
		DataModel []struct {
			TableFacets []struct {
				KeyAttributeAlias struct{ PartitionKeyAlias, SortKeyAlias string }
				TableData         []map[string]map[string]any
			}
		}
	}
	readJSON(t, "workbench.json", &book)
	for _, facet := range book.DataModel[0].TableFacets {
		for _, item := range facet.TableData {
			for name, value := range item {
				form := slices.Collect(maps.Keys(value))[0]
				if begin, _, keyed := strings.Cut(fmt.Sprint(value[form]), "#"); strings.HasPrefix(name, "GSI1") && keyed {
					form += " " + begin + "#"
				}
				f[fmt.Sprintf("item %s | %s: %s %s", facet.KeyAttributeAlias.PartitionKeyAlias, facet.KeyAttributeAlias.SortKeyAlias, name, form)] = true
			}
		}
	}
}

// http adds the calls of the API, and the fields of the bodies.
func (f formats) http(t *testing.T) {
	t.Helper()
	type schema struct {
		Type  any
		Ref   string `json:"$ref"`
		Items struct {
			Type any
			Ref  string `json:"$ref"`
		}
	}
	var api struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				In, Name string
				Ref      string `json:"$ref"`
			}
		}
		Components struct {
			Schemas map[string]struct {
				Properties map[string]schema
				Required   []string
			}
		}
	}
	readJSON(t, "openapi.json", &api)
	for path, calls := range api.Paths {
		for method, call := range calls {
			f["http "+strings.ToUpper(method)+" "+path] = true
			for _, p := range call.Parameters {
				name := strings.TrimSpace(p.In + " " + p.Name + strings.TrimPrefix(p.Ref, "#/components/parameters/"))
				f[fmt.Sprintf("http %s %s: %s", strings.ToUpper(method), path, name)] = true
			}
		}
	}
	for name, body := range api.Components.Schemas {
		for field, s := range body.Properties {
			kind := strings.TrimSpace(fmt.Sprint(s.Ref, s.Items.Ref))
			if kind == "" {
				kind = strings.TrimSuffix(fmt.Sprint(s.Type, " ", s.Items.Type), " <nil>")
			}
			if slices.Contains(body.Required, field) {
				kind += " always"
			}
			f[fmt.Sprintf("http %s: %s %s", name, field, strings.TrimPrefix(kind, "#/components/schemas/"))] = true
		}
	}
}

// archive adds the objects of an archive, and the files that archive and pair need in a data directory.
func (f formats) archive(t *testing.T) {
	t.Helper()
	for _, name := range []string{"term", "base", "state"} {
		var value map[string]any
		readJSON(t, "../internal/archive/testdata/"+name+"1.json", &value)
		f.add("archive "+name+" 1", value)
	}
	for _, name := range []string{"role", "register"} {
		var value map[string]any
		readJSON(t, "../internal/pair/testdata/"+name+"1.json", &value)
		f.add("pair "+name+" 1", value)
	}
	for _, file := range []string{"archive/testdata/segment1", "archive/testdata/seal1", "stream/testdata/frames1.hex", "stream/testdata/spool1"} {
		f[fmt.Sprintf("archive ../internal/%s %x", file, sha256.Sum256([]byte(read(t, "../internal/"+file))))] = true
	}
}

func readJSON(t *testing.T, file string, to any) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, to), file)
}

// formatsOfTheTree returns the formats that this tree writes, from its golden files.
func formatsOfTheTree(t *testing.T) formats {
	t.Helper()
	f := formats{}
	f.table(t)
	f.http(t)
	golden, err := filepath.Glob("../messages/testdata/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, golden)
	for _, file := range golden {
		f.golden(t, "message", read(t, file))
	}
	_, lines, found := strings.Cut(read(t, "IMPORT.md"), "```json\n")
	require.True(t, found)
	lines, _, _ = strings.Cut(lines, "```")
	f.golden(t, "line", lines)
	f.archive(t)
	directories, err := filepath.Glob("../internal/*/embedded/testdata/format*.zip")
	require.NoError(t, err)
	require.Len(t, directories, 2)
	for _, file := range directories {
		f[fmt.Sprintf("directory %s %x", file, sha256.Sum256([]byte(read(t, file))))] = true
	}
	return f
}

// formatsFile is the file that lists the kept formats.
const formatsFile = "formats.txt"

// compare returns the lines that f lacks, and the lines that f has in addition to kept.
func (f formats) compare(kept formats) (gone, added []string) {
	for line := range kept {
		if !f[line] {
			gone = append(gone, line)
		}
	}
	for line := range f {
		if !kept[line] {
			added = append(added, line)
		}
	}
	return gone, added
}

// demands returns the fields of added that are now required in a body that clients already send without
// them.
func demands(added []string, kept formats) []string {
	return slices.DeleteFunc(slices.Clone(added), func(line string) bool {
		body, _, _ := strings.Cut(line, ": ")
		known := slices.ContainsFunc(slices.Collect(maps.Keys(kept)), func(old string) bool { return strings.HasPrefix(old, body+": ") })
		return !known || !strings.HasSuffix(body, "Input") || !strings.HasSuffix(line, " always")
	})
}

// The flag -update adds lines and removes none: FORMATS.md has the rule for the removal of a line.
func TestFormatsAreKept(t *testing.T) {
	now, kept := formatsOfTheTree(t), formats{}
	for line := range strings.Lines(read(t, formatsFile)) {
		kept[strings.TrimSpace(line)] = true
	}
	gone, added := now.compare(kept)
	assert.Empty(t, demands(added, kept), "clients of former releases do not send these: make them optional")
	assert.Emptyf(t, gone, "a release beside this one, or stored data, has these: bring them back, or follow \"Expand, then contract\" of FORMATS.md")
	if *update {
		lines := slices.Sorted(maps.Keys(kept))
		lines = append(lines, added...)
		slices.Sort(lines)
		require.NoError(t, os.WriteFile(formatsFile, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
		return
	}
	assert.Emptyf(t, added, "new parts of formats: go test ./docs -run FormatsAreKept -update")
	assert.Greater(t, len(kept), 500)
}

// Each change that would break the former release removes a line. A change that only adds something
// removes no line.
func TestAChangeOfAFormatTakesALineAway(t *testing.T) {
	const former = `{"type":"Liked","version":1,"post_id":"p","shards":[16],"data":{"a":1}}`
	of := func(text string) formats {
		f := formats{}
		f.golden(t, "message", text)
		return f
	}
	require.Len(t, of(former), 5)
	for with, lines := range map[string]int{
		former: 0,
		`{"type":"Liked","version":1,"post_id":"p","shards":[16,17],"data":{"b":"c"},"by":{"id":"x"}}`: 0, // one more field
		`{"type":"Liked","version":1,"post":"p","shards":[16],"data":{}}`:                              1, // another name
		`{"type":"Liked","version":1,"post_id":7,"shards":[16],"data":{}}`:                             1, // another kind
		`{"type":"Liked","version":1,"post_id":"p","shards":16,"data":{}}`:                             1,
		`{"type":"Liked","version":2,"post_id":"p","shards":[16],"data":{}}`:                           5, // version 1 is missing
	} {
		gone, _ := of(with).compare(of(former))
		assert.Lenf(t, gone, lines, "%s: %v", with, gone)
	}
	kept := formats{"http PostInput: text string": true, "http Post: id string always": true}
	for line, demand := range map[string]int{
		"http PostInput: title string always": 1, "http PostInput: title string": 0, "http NewInput: id string always": 0, "http Post: at string always": 0,
	} {
		assert.Len(t, demands([]string{line}, kept), demand, line)
	}
}
