package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// client is the folder of the TypeScript client. docs/BROWSER.md explains the client.
const client = "client/typescript"

// typescript returns the package of the TypeScript client, in the form that npm install accepts. It
// builds the client in a separate folder, so that the package has no other files of the tree.
func (r release) typescript(ctx context.Context) ([]byte, error) {
	dir, err := os.MkdirTemp("", "fanfare-typescript-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory that remains is harmless
	if err := r.buildClient(ctx, dir); err != nil {
		return nil, err
	}
	manifest, err := os.ReadFile(filepath.Join(dir, client, "package.json"))
	if err != nil {
		return nil, err
	}
	unreleased := regexp.MustCompile(`"version": "0\.0\.0",\s*"private": true`) // npm refuses to publish it
	if !unreleased.Match(manifest) {
		return nil, fmt.Errorf("%s/package.json has no %s", client, unreleased)
	}
	guide, err := os.ReadFile(filepath.Join(r.root, "docs", "BROWSER.md"))
	if err != nil {
		return nil, err
	}
	license, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	return r.zipped(func(a *archive) error {
		add := func(name string, text []byte) { a.file(path.Join("package", name), text) }
		add("package.json", unreleased.ReplaceAll(manifest, []byte(`"version": "`+r.version[1:]+`"`)))
		add("LICENSE", license)
		add("README.md", regexp.MustCompile(`\[([^\]]+)\]\([^)]+\)`).ReplaceAll(guide, []byte("$1"))) // the links lead into the tree
		built := os.DirFS(filepath.Join(dir, client))
		return fs.WalkDir(built, "dist/src", func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := fs.ReadFile(built, name)
			add(name, text)
			return err
		})
	})
}

// buildClient builds the client in dir, with the programs that scripts/node-tools.sh has installed.
func (r release) buildClient(ctx context.Context, dir string) error {
	for _, part := range []string{"docs/openapi.json", client + "/package.json", client + "/tsconfig.json", client + "/src"} {
		to := filepath.Join(dir, filepath.FromSlash(part))
		if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
			return err
		}
		if err := copyInto(to, filepath.Join(r.root, filepath.FromSlash(part))); err != nil {
			return err
		}
	}
	// An earlier build in the tree may have made this file.
	if err := os.RemoveAll(filepath.Join(dir, client, "src", "openapi.ts")); err != nil {
		return err
	}
	modules, err := exec.CommandContext(ctx, filepath.Join(r.root, "scripts", "node-tools.sh"), "path", client).Output()
	if err != nil {
		return fmt.Errorf("scripts/node-tools.sh install %s has to come first: %w", client, err)
	}
	if err := os.Symlink(strings.TrimSpace(string(modules)), filepath.Join(dir, client, "node_modules")); err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "npm", "run", "build")
	build.Dir, build.Env = filepath.Join(dir, client), append(os.Environ(), "NPM_CONFIG_UPDATE_NOTIFIER=false")
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", client, err, text)
	}
	return nil
}

// copyInto copies a file, or a folder of files.
func copyInto(to, from string) error {
	about, err := os.Stat(from)
	if err != nil {
		return err
	}
	if about.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}
