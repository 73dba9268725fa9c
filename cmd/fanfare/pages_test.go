package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/config"
)

const repository = "../.."

// pages returns the pages that show commands to people.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md", "examples/*/*.md", "bench/*.md", "changes/*.md"} {
		names, err := filepath.Glob(filepath.Join(repository, pattern))
		require.NoError(t, err)
		all = append(all, names...)
	}
	return slices.DeleteFunc(all, func(name string) bool { return filepath.Base(name) == "CHANGELOG.md" }) // history
}

// codeOf returns the commands of a page. whole has the lines of code blocks, which are complete commands.
// parts has the texts between backquotes, which may be parts of commands.
func codeOf(page string) (whole, parts []string) {
	fence := regexp.MustCompile("(?s)```[a-z]*\n(.*?)```")
	for _, block := range fence.FindAllStringSubmatch(page, -1) {
		for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", " ")) {
			whole = append(whole, strings.TrimPrefix(strings.TrimSpace(line), "$ "))
		}
	}
	for _, span := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		parts = append(parts, span[1])
	}
	return whole, parts
}

// fanfareCall matches a call of fanfare, with its arguments, in a line of a shell.
var fanfareCall = regexp.MustCompile(`(?:^|[(;&|] ?|[A-Z]=\S+ )(?:\./)?(?:bin/)?fanfare( +[a-z-][^|;&()<>]*)`)

// resolves checks that the commands of a line exist. If whole is true, the commands must
// also have all their arguments.
func resolves(line string, whole bool) (calls int, err error) {
	for _, call := range fanfareCall.FindAllStringSubmatch(line, -1) {
		calls++
		if fault := resolve(strings.Fields(call[1]), whole); fault != nil {
			err = errors.Join(err, fmt.Errorf("fanfare%s: %w", call[1], fault))
		}
	}
	return calls, err
}

func resolve(args []string, whole bool) error {
	root, _ := (&app{}).root()
	c, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	c.InitDefaultHelpFlag()
	var words []string
	for _, arg := range rest {
		name, isFlag := strings.CutPrefix(arg, "--")
		name, _, _ = strings.Cut(name, "=")
		if isFlag && c.Flag(name) == nil {
			return fmt.Errorf("%s has no flag --%s", c.CommandPath(), name)
		}
		if !isFlag {
			words = append(words, arg)
		}
	}
	if c.HasSubCommands() && len(words) > 0 {
		return fmt.Errorf("%s has no command %s", c.CommandPath(), words[0])
	}
	if !whole {
		return nil
	}
	if err := c.ParseFlags(rest); err != nil {
		return err
	}
	return c.ValidateArgs(c.Flags().Args())
}

// makes checks that a call of make names only targets and variables that exist.
func makes(line, makefile string) (calls int, err error) {
	line = regexp.MustCompile(`"[^"]*"| #.*`).ReplaceAllString(line, "")
	for _, call := range regexp.MustCompile(`(?:^|[ (;&|])make((?: +[A-Za-z][\w.-]*(?:=\S*)?)+)`).FindAllStringSubmatch(line, -1) {
		calls++
		for word := range strings.FieldsSeq(call[1]) {
			name, _, isVariable := strings.Cut(word, "=")
			if isVariable && !strings.Contains(makefile, "$("+name+")") && !strings.Contains(makefile, "# "+name+"=") {
				err = errors.Join(err, fmt.Errorf("the Makefile has no %s", name))
			}
			if !isVariable && !regexp.MustCompile(`(?m)^([\w./-]+ )*`+regexp.QuoteMeta(name)+`( [\w./-]+)*:`).MatchString(makefile) {
				err = errors.Join(err, fmt.Errorf("the Makefile has no target %s", name))
			}
		}
	}
	return calls, err
}

// tests checks that a call of go test names only folders, tests and flags that exist.
func tests(line string) (calls int, err error) {
	for _, call := range regexp.MustCompile(`(?:cd ([\w/]+) && )?go test( .*)`).FindAllStringSubmatch(line, -1) {
		calls++
		args := strings.Fields(call[2])
		at := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, ".") })
		if at < 0 || args[at] == "./..." {
			continue
		}
		folder := args[at]
		files, globErr := filepath.Glob(filepath.Join(repository, call[1], folder, "*_test.go"))
		err = errors.Join(err, globErr)
		source := ""
		for _, file := range files {
			text, readErr := os.ReadFile(file)
			err, source = errors.Join(err, readErr), source+string(text)
		}
		for i, arg := range args {
			name, isFlag := strings.CutPrefix(arg, "-")
			found := !isFlag || name == "v" || strings.Contains(source, `"`+name+`"`) // flag.Bool("update", ...)
			if name == "run" {
				found = regexp.MustCompile(`\nfunc \w*(?:` + strings.Trim(args[i+1], "'") + `)`).MatchString(source)
			}
			if name == "tags" {
				found = strings.Contains(source, "//go:build "+args[i+1])
			}
			if !found {
				err = errors.Join(err, fmt.Errorf("%s: nothing in %s has %s", call[0], folder, arg))
			}
		}
	}
	return calls, err
}

func TestThePagesNameCommandsThatExist(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	require.NoError(t, err)
	var ours, ofMake, ofGo int
	for _, name := range pages(t) {
		page, err := os.ReadFile(name)
		require.NoError(t, err)
		whole, parts := codeOf(string(page))
		for i, line := range append(whole, parts...) {
			a, err := resolves(line, i < len(whole))
			assert.NoErrorf(t, err, "%s", name)
			b, err := makes(line, string(makefile))
			assert.NoErrorf(t, err, "%s: %s", name, line)
			c, err := tests(line)
			assert.NoErrorf(t, err, "%s", name)
			ours, ofMake, ofGo = ours+a, ofMake+b, ofGo+c
			for _, m := range regexp.MustCompile(`(?:^|\s)(FANFARE_[A-Z_]+)=`).FindAllStringSubmatch(line, -1) {
				assert.Containsf(t, config.Names(), m[1], "%s: %s", name, line)
			}
		}
	}
	assert.GreaterOrEqual(t, ours, 80)
	assert.GreaterOrEqual(t, ofMake, 30)
	assert.GreaterOrEqual(t, ofGo, 5)
}

func TestACommandThatDoesNotExistIsFoundOnAPage(t *testing.T) {
	t.Parallel()
	whole, parts := codeOf("Run `fanfare tokn ann`, `fanfare`, or\n```console\n$ X=$(bin/fanfare token) \\\n  && fanfare up --no-such | fanfare dlq lst\n```\n")
	require.Len(t, whole, 1)
	require.Equal(t, []string{"fanfare tokn ann", "fanfare"}, parts)
	calls, err := resolves(whole[0], true)
	assert.Equal(t, 3, calls)
	assert.ErrorContains(t, err, "fanfare token: accepts 1 arg")
	assert.ErrorContains(t, err, "no flag --no-such")
	assert.ErrorContains(t, err, "no command lst")
	calls, err = resolves(parts[0], false)
	assert.Equal(t, 1, calls)
	assert.ErrorContains(t, err, "unknown command")
	_, err = makes("make up nothing SEEDS=1 NONE=1", "SEEDS ?= 1\nup down: x\n\techo $(SEEDS)\n")
	assert.ErrorContains(t, err, "no target nothing")
	assert.ErrorContains(t, err, "has no NONE")
	assert.NotContains(t, err.Error(), "SEEDS")
	_, err = tests("cd cmd && go test ./fanfare -run NoSuchTest -rewrite")
	assert.ErrorContains(t, err, "-run")
	assert.ErrorContains(t, err, "-rewrite")
}
