package obs

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Build identifies the program.
type Build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
}

// The linker sets these variables in the binaries of a release (release/build.go).
var (
	releaseVersion string //nolint:gochecknoglobals // set by -ldflags=-X alone
	releaseCommit  string //nolint:gochecknoglobals // set by -ldflags=-X alone
)

// ReadBuild returns the Build that the linker has written into the binary.
func ReadBuild() Build {
	b := Build{Version: "devel", Commit: "unknown"}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Go = info.GoVersion
	if releaseVersion != "" {
		b.Version, b.Commit = releaseVersion, releaseCommit
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	modified := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			modified = s.Value == "true"
		}
	}
	if modified {
		b.Commit += " with changes"
	}
	return b
}

// String formats b for people.
func (b Build) String() string {
	return fmt.Sprintf("%s, commit %s, %s %s/%s", b.Version, b.Commit, b.Go, runtime.GOOS, runtime.GOARCH)
}
