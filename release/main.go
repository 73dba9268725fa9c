// Command release makes the files of a release. For each platform it makes an archive and a list of the
// modules (CycloneDX), and for Linux an image (OCI). It also makes the packages of the chart and of the
// TypeScript client, the provenance, the checksums, and the page of changes. The same tree and the same
// Go make the same bytes, in any folder, on any machine and at any time.
//
// The command must never sign, tag or publish anything.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

const usage = `usage:
  release [-root DIR] [-out DIR] [-platforms LIST] build VERSION
  release [-root DIR] changes VERSION

build makes the archives of VERSION (vMAJOR.MINOR.PATCH) for linux and darwin on amd64 and
arm64 with an SBOM each, the images for linux, the Helm chart, the TypeScript client, a statement
of provenance, and SHA256SUMS. changes moves the fragments in changes/ to CHANGELOG.md, below a
heading of VERSION, and has docs/INSTALL.md name VERSION.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(flags.Output(), usage) }
	root := flags.String("root", "..", "the repository")
	out := flags.String("out", "../bin/release", "the directory for the files")
	platforms := flags.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "GOOS/GOARCH, ...")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 2 {
		return errors.New("give build or changes, and a version: see release -help")
	}
	version := flags.Arg(1)
	if !semver.IsValid(version) || semver.Canonical(version) != version {
		return fmt.Errorf("%q is no version: give vMAJOR.MINOR.PATCH, such as v0.2.0", version)
	}
	switch flags.Arg(0) {
	case "build":
		commit, at, err := source(ctx, *root)
		if err != nil {
			return err
		}
		r := release{root: *root, out: *out, version: version, commit: commit, at: at}
		return r.build(ctx, strings.Split(*platforms, ","))
	case "changes":
		return join(*root, version, time.Now())
	}
	return fmt.Errorf("there is no command %q: see release -help", flags.Arg(0))
}

// source returns the commit of a tree and the time of the commit, which all files of the release get.
// SOURCE_DATE_EPOCH overrides the time, and is necessary without git.
func source(ctx context.Context, root string) (commit string, at time.Time, err error) {
	commit = "unknown"
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	text, err := git(ctx, root, "log", "-1", "--format=%H %ct")
	if err == nil {
		var seconds string
		commit, seconds, _ = strings.Cut(text, " ") // the format has exactly one space
		if epoch == "" {
			epoch = seconds
		}
		if changed, err := git(ctx, root, "status", "--porcelain"); err != nil || changed != "" {
			commit += " with changes"
		}
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return "", at, errors.New("the tree has no commit: set SOURCE_DATE_EPOCH to the time of the release")
	}
	return commit, time.Unix(seconds, 0).UTC(), nil
}

// git runs git and returns the output without the last newline.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, "git", args...)
	c.Dir = dir
	text, err := c.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	return strings.TrimSuffix(string(text), "\n"), err
}

// join adds a version to the page of changes (see changes.go).
func join(root, version string, now time.Time) error {
	page := filepath.Join(root, "CHANGELOG.md")
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	fragments, err := readFragments(filepath.Join(root, "changes"))
	if err != nil {
		return err
	}
	joined, err := joinChanges(string(text), fragments, version, now)
	if err != nil {
		return err
	}
	if err := os.WriteFile(page, []byte(joined), 0o644); err != nil { //nolint:gosec // a page to read
		return err
	}
	if err := installs(filepath.Join(root, "docs", "INSTALL.md"), version); err != nil {
		return err
	}
	for _, f := range fragments {
		if err := os.Remove(f.path); err != nil {
			return err
		}
	}
	return nil
}

// installs writes version into the page in place of the version that the page installs.
func installs(page, version string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	former := regexp.MustCompile(`(?m)^VERSION=v(\S+) `).FindSubmatch(text)
	if former == nil {
		return fmt.Errorf("%s has no line VERSION=v…", page)
	}
	return os.WriteFile(page, bytes.ReplaceAll(text, former[1], []byte(version[1:])), 0o644) //nolint:gosec // a page to read
}
