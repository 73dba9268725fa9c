package docs

import (
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDependenciesOfEachFolderAreUpdated compares .github/dependabot.yml with the folders that name dependencies.
func TestDependenciesOfEachFolderAreUpdated(t *testing.T) {
	manifests := map[string]*regexp.Regexp{
		"gomod":          regexp.MustCompile(`^go\.mod$`),
		"npm":            regexp.MustCompile(`^package\.json$`),
		"pip":            regexp.MustCompile(`^(requirements|deploy-lint|localstack|localstack-source|schemathesis)\.txt$`),
		"docker":         regexp.MustCompile(`^Dockerfile$`),
		"docker-compose": regexp.MustCompile(`^docker-compose\.yml$`),
	}
	named := map[string][]string{}
	for _, m := range regexp.MustCompile(`package-ecosystem: (\S+)\n\s+directories: \[(.+)\]`).FindAllStringSubmatch(read(t, "../.github/dependabot.yml"), -1) {
		named[m[1]] = strings.Split(m[2], ", ")
	}
	used := map[string]bool{}
	err := filepath.WalkDir("..", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := entry.Name(); entry.IsDir() && file != ".." && (slices.Contains([]string{"bin", "node_modules", "testdata"}, name) || strings.HasPrefix(name, ".")) {
			return filepath.SkipDir
		}
		folder := path.Join("/", strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), ".."))
		for ecosystem, manifest := range manifests {
			if entry.IsDir() || !manifest.MatchString(entry.Name()) {
				continue
			}
			at := slices.IndexFunc(named[ecosystem], func(pattern string) bool {
				match, err := path.Match(pattern, folder)
				return err == nil && match
			})
			if assert.GreaterOrEqualf(t, at, 0, ".github/dependabot.yml has no %s of %s", ecosystem, folder) {
				used[ecosystem+" "+named[ecosystem][at]] = true
			}
		}
		return nil
	})
	require.NoError(t, err)
	for ecosystem := range manifests {
		for _, pattern := range named[ecosystem] {
			assert.Truef(t, used[ecosystem+" "+pattern], ".github/dependabot.yml names %s of %s, and no such file is there", ecosystem, pattern)
		}
	}
}
