//go:build slow

package deploy

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// go vet compiles all packages and their tests, and links nothing.
func TestTheRenamedModuleIsBuiltAndUsed(t *testing.T) {
	t.Parallel()
	dir := renamedTree(t)
	command(t, dir, cached("-trimpath"), "go", "vet", "./...")
	useFromAnotherModule(t, dir)
}

// cached returns an environment for Go commands in which the next copy of this tree reuses compiled
// packages. With -trimpath the packages do not depend on the folder of the copy. Without cgo the packages
// equal the packages of the image and the release.
func cached(flags string) []string {
	return []string{"GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false " + flags}
}

// useFromAnotherModule builds and runs a program that uses client and messages, as the README shows.
func useFromAnotherModule(t *testing.T, dir string) {
	t.Helper()
	other := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.org/other\n\ngo 1.26.8\n\nrequire " + renamed + " v0.0.0\n\nreplace " + renamed + " => " + dir + "\n",
		"main.go": `package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"time"

	"` + renamed + `/client"
	"` + renamed + `/client/clienttest"
	"` + renamed + `/messages"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func main() {
	ctx := context.Background()
	server := httptest.NewServer(clienttest.New())
	defer server.Close()
	c := must(client.New(server.URL))
	ann := c.AsToken(must(c.DevToken(ctx, "ann", time.Hour)).Token)
	must(ann.PutMe(ctx, client.ProfileInput{Name: "Ann"}))
	post := must(ann.CreatePost(ctx, client.PostInput{Text: "hello"}))
	event := &messages.PostCreated{
		Header: messages.Header{EventID: post.ID, Time: time.Now()}, PostID: post.ID, AuthorID: "ann", Content: messages.Content{Text: post.Text},
	}
	fmt.Println(messages.KindOf(must(messages.Decode(must(messages.Encode(event))))), post.Text)
}
`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(other, name), []byte(text), 0o600))
	}
	sums, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err == nil {
		err = os.WriteFile(filepath.Join(other, "go.sum"), sums, 0o600)
	}
	require.NoError(t, err)
	out := command(t, other, cached("-trimpath -mod=mod"), "go", "run", ".")
	assert.Equal(t, "PostCreated hello\n", out, "the program printed")
}
