package main

import (
	"encoding/json"
	"maps"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// provenance returns an in-toto statement, version 1, with SLSA's provenance, version 1. The statement
// names files by their SHA-256 sums. It has no signature: the publisher of the files signs it.
func (r release) provenance(sums map[string]string) ([]byte, error) {
	type object = map[string]any
	var files []object
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		files = append(files, object{"name": name, "digest": object{"sha256": sums[name]}})
	}
	sources := []object{{"uri": "pkg:golang/std@" + strings.TrimPrefix(runtime.Version(), "go")}}
	if regexp.MustCompile(`^[0-9a-f]{40}$`).MatchString(r.commit) {
		sources = append(sources, object{"name": "source", "digest": object{"gitCommit": r.commit}})
	}
	return json.MarshalIndent(object{
		"_type": "https://in-toto.io/Statement/v1", "subject": files,
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": object{
			"buildDefinition": object{
				"buildType": "urn:fanfare:make-release:1", "externalParameters": object{"version": r.version}, "resolvedDependencies": sources,
			},
			"runDetails": object{"builder": object{"id": "urn:fanfare:make-release"}},
		},
	}, "", "  ")
}
