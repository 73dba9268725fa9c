package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/client"
)

// room is disk space of a data directory that a test can use up.
type room struct {
	dir        string
	take, give func(t *testing.T, p *process)
	// lasts is true if the lack of room outlives the process.
	lasts bool
}

// rooms returns the ways to use up room that this machine allows. A user who may mount file systems gets
// a small disk, which the test fills to the last byte. Every user can forbid a process to write to files;
// the process then gets another error. Neither way harms other processes.
func rooms(t *testing.T) map[string]room {
	t.Helper()
	found := map[string]room{"a limit on files": {dir: t.TempDir(), take: limitFiles(0), give: limitFiles(unlimited)}}
	if dir := t.TempDir(); mounted(t, "tmpfs", dir, "tmpfs", 0, "size=120m,mode=0700") {
		ballast := filepath.Join(dir, "ballast")
		found["a small disk"] = room{
			dir: dir, lasts: true,
			take: func(t *testing.T, _ *process) { t.Helper(); fill(t, ballast) },
			give: func(t *testing.T, _ *process) {
				t.Helper()
				require.NoError(t, os.Remove(ballast))
			},
		}
	}
	return found
}

// mounted mounts a file system and reports whether the mount succeeded. The end of the test unmounts it.
func mounted(t *testing.T, source, target, kind string, flags uintptr, data string) bool {
	t.Helper()
	err := syscall.Mount(source, target, kind, flags, data)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		t.Logf("this user may not mount: %v", err)
		return false
	}
	require.NoErrorf(t, err, "mount %s", target)
	t.Cleanup(func() {
		assert.NoErrorf(t, syscall.Unmount(target, syscall.MNT_DETACH), "unmount %s", target)
	})
	return true
}

// fill makes a file that uses all free space.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(t, err)
	for size := 1 << 20; size > 0; {
		if _, err = f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
	require.NoError(t, f.Close())
}

const unlimited = ^uint64(0)

// limitFiles limits the size of the files that a process can write.
func limitFiles(most uint64) func(*testing.T, *process) {
	return func(t *testing.T, p *process) {
		t.Helper()
		limit := syscall.Rlimit{Cur: most, Max: unlimited}
		_, _, errno := syscall.Syscall6(syscall.SYS_PRLIMIT64, uintptr(p.pid), syscall.RLIMIT_FSIZE, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
		if errno != 0 && p.running() {
			t.Fatalf("limit the files of %s: %v", p.name, errno)
		}
	}
}

// TestUpOnAFullDiskRefusesAndLosesNothing uses up the disk of `fanfare up` under load. The server refuses
// writes with the reason, and continues when the disk has room again. Then the test kills the server
// while the disk is full. No answered write is ever lost.
func TestUpOnAFullDiskRefusesAndLosesNothing(t *testing.T) {
	t.Parallel()
	for name, room := range rooms(t) {
		t.Run(name, func(t *testing.T) {
			u := newUp(t)
			u.data = filepath.Join(room.dir, "data")
			p := u.start(t)
			written := &shelf{author: signUp(t, connect(t, u.http), "hoarder")}
			var journals []string
			check := func() {
				for _, journal := range journals {
					stdout, stderr, err := fanfare(t, u.env, u.replay("--check", journal)...)
					verdict(t, stdout, stderr, err)
				}
				written.check(t)
			}
			for _, at := range []int{500, 2500} { // first among the follows, then among posts and likes
				journal := filepath.Join(t.TempDir(), "journal")
				journals = append(journals, journal)
				player := start(t, u.env, "fanfare", u.replay("--graph", graph, "--max-users", "40", "--posts", "200", "--likes", "1000",
					"--rate", "300", "--journal", journal)...)
				player.plays(t, journal, at)
				u.refuses(t, p, room, written)
				room.give(t, p)
				p.ready(t, u.admin)
				await(t, "it takes posts again", func() bool { return written.post(t) == nil })
				await(t, "the replay ends", func() bool { return !player.running() })
				if player.err != nil { // the replay may have liked a post that no worker has written yet
					t.Logf("the replay ended with %v\n%s", player.err, tail(player.log))
				}
				check()
			}
			u.refuses(t, p, room, written)
			p.kill(t)
			if room.lasts {
				p = u.startWithoutRoom(t)
				p.signal(t, syscall.SIGTERM)
				await(t, "a start without room ends with a stop", func() bool { return !p.running() })
				ended := p
				p = u.startWithoutRoom(t)
				room.give(t, p)
				p.ready(t, u.admin)
				for _, p := range []*process{ended, p} {
					log := tail(p.log)
					assert.LessOrEqualf(t, strings.Count(log, "\n"), 6, "a start without room logs\n%s", log)
				}
			} else {
				room.give(t, p)
				p = u.start(t) // this start has no limit
			}
			check()
			p.stop(t)
		})
	}
}

// startWithoutRoom starts the process on a full disk. The process must not end, and must report that it
// waits for room.
func (u *upright) startWithoutRoom(t *testing.T) *process {
	t.Helper()
	p := start(t, u.env, "fanfare", "up", "--data-dir", u.data, "--http", u.http, "--admin", u.admin)
	await(t, "it says that the disk is full", func() bool {
		if !p.running() {
			t.Fatalf("it ended: %v\n%s", p.err, tail(p.log))
		}
		return strings.Contains(tail(p.log), "the disk is full")
	})
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusServiceUnavailable} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+u.admin+path, http.NoBody)
		require.NoError(t, err)
		resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
		require.NoError(t, err)
		if err := resp.Body.Close(); err != nil || resp.StatusCode != want {
			t.Errorf("%s without room answered %s, %v", path, resp.Status, err)
		}
	}
	return p
}

// refuses uses up the disk and posts until the server refuses a post for lack of room and /readyz names
// the failing stores. A store that removes old files makes room and continues, so each attempt uses up
// the disk again.
func (u *upright) refuses(t *testing.T, p *process, room room, s *shelf) {
	t.Helper()
	await(t, "a post is refused and /readyz names the failing stores", func() bool {
		room.take(t, p)
		return s.isRefused(t) && u.namesFailing(t)
	})
}

// namesFailing reports whether /readyz names failing stores.
func (u *upright) namesFailing(t *testing.T) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+u.admin+"/readyz", http.NoBody)
	require.NoError(t, err)
	resp, err := (&http.Client{Timeout: time.Minute}).Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	var health struct {
		Status  string
		Failing []string
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&health))
	return resp.StatusCode == http.StatusServiceUnavailable && len(health.Failing) > 0
}

// shelf holds the posts of one author for which the server has answered.
type shelf struct {
	author *client.Client

	mu   sync.Mutex
	kept []string
}

// post makes a large post, in one attempt.
func (s *shelf) post(t *testing.T) error {
	t.Helper()
	post, err := s.author.CreatePost(t.Context(), client.PostInput{Text: strings.Repeat("𝄞", 5000)})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, post.ID)
	return nil
}

// isRefused posts from sixteen writers at once, and reports whether the server refused a post for lack of
// room. The log has reserved room, so the posts have 20 KB each to use it up.
func (s *shelf) isRefused(t *testing.T) bool {
	t.Helper()
	var writing sync.WaitGroup
	var refused atomic.Pointer[client.Problem]
	for range 16 {
		writing.Go(func() {
			err := s.post(t)
			if problem, ok := errors.AsType[*client.Problem](err); ok {
				refused.Store(problem)
			} else if err != nil {
				t.Errorf("a post without room: %v", err)
			}
		})
	}
	writing.Wait()
	problem := refused.Load()
	if problem != nil && (problem.Status != http.StatusServiceUnavailable || problem.Detail == "" || problem.RetryAfter == 0) {
		t.Errorf("a post without room is refused with %+v", problem)
	}
	return problem != nil
}

// check fails the test unless every answered post exists.
func (s *shelf) check(t *testing.T) {
	t.Helper()
	lost := 0
	for _, id := range s.kept {
		if _, err := s.author.Post(t.Context(), id); err != nil {
			t.Logf("post %s: %v", id, err)
			lost++
		}
	}
	assert.LessOrEqualf(t, lost, 0, "%d of %d posts are lost", lost, len(s.kept))
	t.Logf("%d posts are there", len(s.kept))
}

// TestUpOnAReadOnlyDirectoryDoesNotStart makes a used data directory and its parent read-only. If this
// user may mount, a mount does so; for a user other than root, permissions do so.
func TestUpOnAReadOnlyDirectoryDoesNotStart(t *testing.T) {
	t.Parallel()
	u := newUp(t)
	u.start(t).stop(t)
	dir := filepath.Dir(u.data)
	refuses := func(t *testing.T, as *syscall.Credential) {
		t.Helper()
		for name, path := range map[string]string{"used": u.data, "new": filepath.Join(dir, "new")} {
			var problems bytes.Buffer
			command := exec.CommandContext(t.Context(), filepath.Join(binaries, "fanfare"),
				"up", "--data-dir", path, "--http", u.http, "--admin", u.admin)
			command.Env, command.Stderr, command.SysProcAttr = u.env, &problems, &syscall.SysProcAttr{Credential: as}
			err := command.Run()
			said := strings.TrimSpace(problems.String())
			if code(err) != 1 || !strings.Contains(said, path) || strings.Contains(said, "\n") {
				t.Errorf("%s directory: ended with %v: %s", name, err, said)
			}
			t.Log(said)
		}
	}
	t.Run("mount", func(t *testing.T) {
		if mounted(t, dir, dir, "", syscall.MS_BIND, "") {
			require.NoError(t, syscall.Mount("", dir, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
			refuses(t, nil)
		}
	})
	t.Run("permissions", func(t *testing.T) {
		var as *syscall.Credential
		if os.Getuid() == 0 { // permissions do not restrict root
			as = &syscall.Credential{Uid: 65534, Gid: 65534}
			for _, path := range []string{binaries, filepath.Dir(dir)} {
				require.NoError(t, os.Chmod(path, 0o755))
			}
		}
		require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return errors.Join(err, os.Chmod(path, 0o444))
			}
			t.Cleanup(func() {
				assert.NoError(t, os.Chmod(path, 0o700))
			})
			return os.Chmod(path, 0o555)
		}))
		refuses(t, as)
	})
}
