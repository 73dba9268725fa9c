package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/daemon"
)

// on runs a command of fanfare on a data directory.
func on(dir string, args ...string) (stdout, stderr string, code int) {
	var out, problems bytes.Buffer
	code = run(append([]string{"fanfare"}, args...), []string{"FANFARE_DATA_DIR=" + dir, "FANFARE_LIKE_WINDOW=10ms"}, &out, &problems)
	return out.String(), problems.String(), code
}

const smallNetwork = `{"type":"user","id":"ann","name":"Ann","time":"2024-01-31T12:00:00Z"}
{"type":"user","id":"bob","name":"Bob","time":"2024-01-31T12:00:00Z"}
{"type":"post","id":"01HNFR7SM00000000000000000","author_id":"ann","text":"Hello","time":"2024-01-31T12:34:56.256Z"}
{"type":"like","post_id":"01HNFR7SM00000000000000000","user_id":"bob","time":"2024-02-02T10:06:00Z"}
{"type":"follow","author_id":"ann","follower_id":"bob","time":"2024-02-01T08:30:00.25Z"}
`

func TestANetworkMovesFromOneDataDirectoryToAnother(t *testing.T) {
	t.Parallel()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "network.jsonl")
	_, stderr, code := on(filepath.Join(dir, "none"), "export")
	assert.Equal(t, daemon.ExitFailure, code)
	assert.Contains(t, stderr, "there is no data directory")
	assert.NoDirExists(t, filepath.Join(dir, "none"))

	_, stderr, code = on(filepath.Join(dir, "none"), "import", "/dev/null")
	assert.Equal(t, daemon.ExitFailure, code)
	assert.Contains(t, stderr, "/dev/null is no regular file")
	_, stderr, code = on(filepath.Join(dir, "none"), "import", file)
	assert.Equal(t, daemon.ExitFailure, code)
	assert.Contains(t, stderr, "no such file")
	assert.NoDirExists(t, filepath.Join(dir, "none"))
	require.NoError(t, os.WriteFile(file, []byte("\n"), 0o600))
	_, stderr, code = on(filepath.Join(dir, "a"), "import", file)
	assert.Equal(t, daemon.ExitFailure, code)
	assert.Contains(t, stderr, "no records")

	require.NoError(t, os.WriteFile(file, []byte(smallNetwork+`{"type":"like","post_id":"7","user_id":"ann","time":"2024-02-02T10:06:00Z"}`), 0o600))
	_, stderr, code = on(filepath.Join(dir, "a"), "import", file)
	assert.Equal(t, daemon.ExitFailure, code)
	assert.Equal(t, file+`:6: post_id: "7" is not the id of a post of the files`+"\nfanfare: 1 faults in the files, nothing was imported: mend them and run the command again\n", stderr)

	require.NoError(t, os.WriteFile(file, []byte(smallNetwork), 0o600))
	stdout, stderr, code := on(filepath.Join(dir, "a"), "import", file)
	require.Equal(t, daemon.ExitOK, code, stderr)
	assert.Contains(t, stdout, "imported 2 users, 1 follows, 0 mutes, 0 blocks, 1 posts, 0 reposts, 0 comments, 1 likes, 0 bookmarks and 0 markers")
	assert.Contains(t, stderr, "likes: 1 of 1\n")
	first, _, code := on(filepath.Join(dir, "a"), "export")
	require.Equal(t, daemon.ExitOK, code)
	require.NoError(t, os.WriteFile(file, []byte(first), 0o600))
	_, stderr, code = on(filepath.Join(dir, "b"), "import", file)
	require.Equal(t, daemon.ExitOK, code, stderr)
	second, _, code := on(filepath.Join(dir, "b"), "export")
	require.Equal(t, daemon.ExitOK, code)
	assert.Equal(t, first, second)
	sameLines(t, smallNetwork, second) // smallNetwork has the order of an export
	own, _, code := on(filepath.Join(dir, "b"), "export", "--user", "bob")
	require.Equal(t, daemon.ExitOK, code)
	assert.NotContains(t, own, "Hello")
	assert.Contains(t, own, `"type":"like"`)
	var rest, problems bytes.Buffer
	code = run([]string{"fanfare", "export", "--user", "bob"}, []string{"FANFARE_DATA_DIR=" + filepath.Join(dir, "b"), "FANFARE_LIKES_BY_USER=off"}, &rest, &problems)
	assert.Equal(t, daemon.ExitFailure, code, "the likes are missing")
	assert.Contains(t, rest.String(), `"type":"follow"`)
	_, stderr, code = on(filepath.Join(dir, "b"), "export", "--user", "b ob")
	assert.Equal(t, daemon.ExitUsage, code)
	assert.Contains(t, stderr, "b ob is no user id")
}

// The process that has the data reads the files, and its faults and its progress reach the command.
func TestANetworkMovesIntoAndOutOfARunningUp(t *testing.T) {
	t.Parallel()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "network.jsonl")
	p := up(t, dir)
	for _, command := range []string{"export", "import " + file} {
		_, stderr, code := on(dir, strings.Fields(command)...)
		assert.Equal(t, daemon.ExitFailure, code)
		assert.Contains(t, stderr, map[bool]string{true: "is in use by another process: name its admin address", false: "no such file"}[command == "export"])
	}
	bad := `{"type":"like","post_id":"7","user_id":"ann","time":"2024-02-02T10:06:00Z"}`
	require.NoError(t, os.WriteFile(file, []byte(smallNetwork+bad), 0o600))
	_, stderr, code := on(dir, "import", file, "--admin", p.admin)
	assert.Equal(t, daemon.ExitFailure, code)
	assert.Equal(t, file+`:6: post_id: "7" is not the id of a post of the files`+"\nfanfare: 1 faults in the files, nothing was imported: mend them and run the command again\n", stderr)
	_, stderr, code = on(dir, "import", file, "--admin", p.admin, "--rate", "-1")
	assert.Equal(t, daemon.ExitUsage, code)
	assert.Contains(t, stderr, "--rate must be at least 0")

	require.NoError(t, os.WriteFile(file, []byte(smallNetwork), 0o600))
	for range 2 {
		stdout, stderr, code := on(dir, "import", file, "--admin", p.admin)
		require.Equal(t, daemon.ExitOK, code, stderr)
		assert.Contains(t, stdout, "imported 2 users, 1 follows, 0 mutes, 0 blocks, 1 posts, 0 reposts, 0 comments, 1 likes, 0 bookmarks and 0 markers")
		assert.Contains(t, stderr, "likes: 1 of 1\n")
	}
	out, stderr, code := on(dir, "import", "--json", file, "--admin", p.admin)
	require.Equal(t, daemon.ExitOK, code, stderr)
	assert.Contains(t, out, `"users":2`)
	whole, stderr, code := on(dir, "export", "--admin", p.admin)
	require.Equal(t, daemon.ExitOK, code, stderr)
	sameLines(t, smallNetwork, whole)
	own, _, code := on(dir, "export", "--user", "bob", "--admin", p.admin)
	require.Equal(t, daemon.ExitOK, code)
	assert.NotContains(t, own, "Hello")
	assert.Contains(t, own, `"type":"like"`)
	_, stderr, code = on(dir, "export", "--user", "nobody", "--admin", p.admin)
	assert.Equal(t, daemon.ExitFailure, code)
	assert.Contains(t, stderr, "nothing was written")
	require.Equal(t, daemon.ExitOK, p.stop(t, os.Interrupt))
	assert.Equal(t, 3, strings.Count(fmt.Sprint(p.Stderr), `"action":"import"`), "the process logs each import that writes")
	sameLines(t, whole, exported(t, dir))
}

// A moderator ends a post and a user of a running fanfare up by its admin address, and the process logs both. The data directory
// alone would name another process, so a removal needs the address.
func TestAModeratorEndsAPostAndAUserOfARunningUp(t *testing.T) {
	t.Parallel()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "network.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(smallNetwork), 0o600))
	_, stderr, code := on(dir, "import", file)
	require.Equal(t, daemon.ExitOK, code, stderr)
	p := up(t, dir)
	const post = "01HNFR7SM00000000000000000"
	for _, refused := range []struct{ args, want string }{
		{"forget ann --yes", "is in use by another process: name its admin address, such as --admin 127.0.0.1:9090"},
		{"forget ann --yes --admin " + p.admin + " --data-dir " + dir, "[admin data-dir]"},
		{"forget anne --yes --admin " + p.admin, "there is no user anne, and none was removed"},
		{"forget ann --admin " + p.admin, "nothing was changed"},
		{"takedown " + post + " --yes --admin " + p.admin, "reason has 0 characters: it must have 1 to 500"},
		{"takedown x --reason spam --yes --admin " + p.admin, "x is no post id"},
		{"takedown 01HNFR7SM00000000000000001 --reason spam --yes --admin " + p.admin, "there is no post"},
		{"takedown " + post + " --reason spam --admin " + p.admin, "The post of ann will be deleted for good: Hello"},
	} {
		_, stderr, code := on(dir, strings.Fields(refused.args)...)
		assert.NotEqual(t, daemon.ExitOK, code, refused.args)
		assert.Contains(t, stderr, refused.want, refused.args)
	}
	for range 2 {
		out, stderr, code := on(dir, "takedown", post, "--reason", "Forged shoes", "--yes", "--admin", p.admin)
		require.Equal(t, daemon.ExitOK, code, stderr)
		assert.Regexp(t, "^operator took the post down at .*Z: Forged shoes\n$", out)
	}
	for _, text := range []string{"removed ann and", "ann was removed before"} {
		out, stderr, code := on(dir, "forget", "ann", "--yes", "--admin", p.admin)
		require.Equal(t, daemon.ExitOK, code, stderr)
		assert.Contains(t, out, text)
	}
	require.Equal(t, daemon.ExitOK, p.stop(t, os.Interrupt))
	log := fmt.Sprint(p.Stderr)
	assert.Equal(t, []int{2, 2}, []int{strings.Count(log, `"action":"takedown"`), strings.Count(log, `"action":"forget"`)}, log)
	assert.NotContains(t, log, "Forged shoes")
	sameLines(t, `{"type":"user","id":"bob","name":"Bob","time":"2024-01-31T12:00:00Z"}`+"\n", exported(t, dir))
}

// sameLines compares two exports byte for byte, because the order of fields and lines is part of an export.
func sameLines(t *testing.T, want, got string) {
	t.Helper()
	assert.Equal(t, want, got)
}

// exported returns the export of a data directory.
func exported(t *testing.T, dir string) string {
	t.Helper()
	out, stderr, code := on(dir, "export")
	require.Equal(t, daemon.ExitOK, code, stderr)
	return out
}

func TestForgetSaysWhetherLikesStay(t *testing.T) {
	t.Parallel()
	for index, stay := range map[string]bool{"on": false, "off": true} {
		dir, file := t.TempDir(), filepath.Join(t.TempDir(), "network.jsonl")
		require.NoError(t, os.WriteFile(file, []byte(smallNetwork), 0o600))
		with := func(args ...string) (string, string) {
			var out, problems bytes.Buffer
			code := run(append([]string{"fanfare"}, args...), []string{"FANFARE_DATA_DIR=" + dir, "FANFARE_LIKES_BY_USER=" + index}, &out, &problems)
			require.Equal(t, daemon.ExitOK, code, problems.String())
			return out.String(), problems.String()
		}
		with("import", file)
		stdout, stderr := with("forget", "bob", "--yes", "--json")
		assert.Contains(t, stdout, fmt.Sprintf(`"likes_stay":%t`, stay))
		assert.Equal(t, stay, strings.Contains(stderr, "Likes of bob stay and count"), stderr)
	}
}

func TestForgetAsksAndMayBeRepeated(t *testing.T) {
	t.Parallel()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "network.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(smallNetwork), 0o600))
	_, stderr, code := on(dir, "import", file)
	require.Equal(t, daemon.ExitOK, code, stderr)
	_, stderr, code = on(dir, "forget", "ann")
	assert.Equal(t, daemon.ExitUsage, code, "nobody types the id")
	assert.Contains(t, stderr, "Type the user's id to go on: \nfanfare: nothing was changed")
	sameLines(t, smallNetwork, exported(t, dir))
	for _, text := range []string{"removed ann and", "ann was removed before"} {
		var out string
		out, stderr, code = on(dir, "forget", "ann", "--yes")
		assert.Contains(t, out, text)
		require.Equal(t, daemon.ExitOK, code, stderr)
		sameLines(t, `{"type":"user","id":"bob","name":"Bob","time":"2024-01-31T12:00:00Z"}`+"\n", exported(t, dir))
	}
}

// A mistyped id in a request to erase or to export a user must not look like a success.
func TestAnUnknownUserIsAnError(t *testing.T) {
	t.Parallel()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "network.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(smallNetwork), 0o600))
	_, stderr, code := on(dir, "import", file)
	require.Equal(t, daemon.ExitOK, code, stderr)
	for range 2 { // a refused request must not make the user known
		for _, args := range [][]string{{"forget", "anne"}, {"forget", "anne", "--yes", "--json"}, {"export", "--user", "anne"}} {
			stdout, stderr, code := on(dir, args...)
			assert.Equal(t, daemon.ExitFailure, code, args)
			assert.Empty(t, stdout)
			assert.Regexp(t, "^fanfare: there is no user anne[,:].* check the id", stderr)
		}
	}
	stdout, stderr, code := on(dir, "forget", "anne", "--yes", "--unknown-ok")
	assert.Equal(t, daemon.ExitOK, code, stderr)
	assert.Contains(t, stdout, "there was no user anne; removed 0 things")
	sameLines(t, smallNetwork, exported(t, dir))

	p := up(t, dir)
	for args, want := range map[string]string{
		"explain anne": "there is no user anne", "explain anne 01HNFR7SM00000000000000000": "there is no user anne",
		"delivery 01HNFR7SM00000000000000001": "there is no post 01HNFR7SM00000000000000001",
	} {
		code, stdout, stderr := result(t, nil, "fanfare", append(strings.Fields(args), "--admin", p.admin)...)
		assert.Equal(t, daemon.ExitFailure, code, args)
		assert.Empty(t, stdout, args)
		assert.Contains(t, stderr, want, args)
	}
}
