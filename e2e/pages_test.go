//go:build e2e && slow

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"fanfare/internal/config"
	"fanfare/internal/porttest"
)

// block is a fenced block of a page.
type block struct{ language, text string }

// blocksOf returns the fenced blocks of a page, in order.
func blocksOf(t *testing.T, page string) []block {
	t.Helper()
	var all []block
	for _, m := range regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		all = append(all, block{m[1], m[2]})
	}
	require.Equal(t, strings.Count(page, "```"), 2*len(all), "a fence is not at the start of its line")
	return all
}

// commandLine matches a line of a shell.
var commandLine = regexp.MustCompile(`(?m)^\s*(\$ |([A-Z_]+=\S+ )*(\./|bin/|scripts/|(fanfare|make|go|git|docker|helm|kubectl|aws|curl|export [A-Z_]+=.*|cd|npm|pip|python3?|bash|sh|sudo)( |$)))`)

// reader is the part of a page that the page leaves to its reader. It belongs to the block that begins
// with begins: before and after are lines of a shell around the block, and further words replace words of
// the page.
type reader struct {
	begins, before, after string
	words                 []string
	// notRun is the reason for which no machine of the tests can run the block. Its commands of Fanfare
	// and of make exist nevertheless (TestThePagesNameCommandsThatExist).
	notRun string
}

func readers() []reader {
	return []reader{
		{begins: "VERSION=v", notRun: "TestTwoBuildsAreEqual in release/ runs the files that it has built"},
		{begins: "docker load", notRun: "docker: TestTwoBuildsAreEqual in release/ reads the image"},
		{begins: "helm install feed ./", notRun: "TestTwoBuildsAreEqual in release/ runs it"},
		{begins: "make up\n", notRun: "as in the next block of this kind"},
		{begins: "make up\n", notRun: "the test runs it first of all, because it ends with Ctrl-C only"},
		{begins: "make up-aws\n", notRun: "TestUpAWSRunsThreeDaemonsAndStopsThemTogether runs its script, which ends with Ctrl-C only"},
		{begins: "export FANFARE_DEV_SECRET=", notRun: "docker: the tests of docker-compose.yml read it"},
		{begins: "make image DIGEST=", notRun: "docker: TestTheImageIsSmallAndRunsEachDaemonByItsName takes its steps"},
		{begins: "aws cloudformation deploy --stack-name fanfare-data --template-file deploy/cloudformation/data.yaml --parameter-overrides BillingMode", notRun: "the AWS CLI: TestTheStackMakesTheTableThatTheCommandWants deploys the file"},
		{begins: "aws cloudformation deploy --stack-name fanfare-data", notRun: "the AWS CLI: TestTheDeployedStackRunsTheSystemExactly deploys the file to LocalStack"},
		{begins: "aws cloudformation deploy --region us-east-1 --stack-name fanfare-budget", notRun: "budgets of a real account: cfn-lint reads the file"},
		{begins: "aws cloudformation deploy --stack-name fanfare ", notRun: "ECS of a real account"},
		{begins: "aws cloudformation deploy --stack-name fanfare-alarms", notRun: "CloudWatch of a real account: TestTheAlarmsOfTheStackFireWhenAndOnlyWhenSomethingIsWrong computes the alarms"},
		{begins: "FANFARE_ARCHIVE=s3://", notRun: "a bucket of a real account: TestALostMachineLosesASecond has an archive in a directory"},
		{begins: "fanfare archive ls --from s3://", notRun: "as the block before"},
		{begins: "aws dynamodb scan", notRun: "the AWS CLI: TestTheScansOfARestoreFindRemovalsAndBlocks makes both scans"},
		{begins: "aws sqs create-queue", notRun: "the AWS CLI: TestEventsReachTheirQueue makes such a queue"},
		{begins: "export FANFARE_ENGINE=aws AWS_REGION=eu-central-1\n", notRun: "a user pool of a real account"},
		{begins: "TOKEN=$(aws cognito-idp", notRun: "a user pool of a real account"},
		{ // a cluster would get these manifests
			begins: "helm install",
			before: "sed -n '/^```yaml/,/^```/{/^```/d;p}' docs/DEPLOY.md >values.yaml",
			words:  []string{"helm install", "scripts/helm.sh run template --kube-version 1.34"},
			after:  "rm values.yaml",
		},
		{ // the whole graph takes a minute, and the last of two equal flags counts
			begins: "bin/fanfare replay",
			words:  []string{"bin/fanfare", "env $CALM bin/fanfare", "--likes 20000", "--likes 20000 --max-users 30 --posts 30 --likes 100"},
		},
		{
			begins: "go mod edit",
			before: "mkdir ../yours && cd ../yours && go mod init example.org/yours\n" +
				`printf 'package main\nimport ("fanfare/client"; "fanfare/messages")\nvar _, _ = client.New, messages.Decode\nfunc main() {}\n' >main.go`,
			after: "go build -o yours",
		},
		{
			begins: "curl http://127.0.0.1:8080/v1/home",
			before: "SERVICE_TOKEN=$(bin/fanfare token --act backend)\n" +
				`as() { bin/fanfare token "$1"; }` + "\n" +
				`curl -sSf -X PUT http://127.0.0.1:8080/v1/me -H "Authorization: Bearer $(as 'auth0|5f7c8ec7c33c6c004bbafe82')" -H 'Content-Type: application/json' -d '{"name":"A"}'`,
			words: []string{"curl ", "curl -sS --fail-with-body "},
		},
		{
			begins: "SERVICE_TOKEN=$(bin/fanfare token --act backend) go run",
			before: "go build -C examples/backend -o ../../bin/backend",
			words:  []string{"go run -C examples/backend .", "bin/backend -addr 127.0.0.1:3000 -api http://127.0.0.1:8080 & trap \"kill $!; wait\" EXIT"},
			after:  "until curl -so /dev/null http://127.0.0.1:3000/; do sleep 0.1; done",
		},
		{
			begins: "fanfare import users.jsonl",
			before: "mkdir ../network && cd ../network\n" +
				`of() { grep '^{"type":"'"$1" ../fanfare/'docs/IMPORT.md'; }` + "\n" +
				"of user >users.jsonl; of follow >follows.jsonl; { of post; of repost; of comment; } >posts.jsonl; of like >likes.jsonl",
		},
		{
			begins: "fanfare export > network.jsonl",
			before: `export FANFARE_TABLE=pages-$$` + "\n" +
				"FANFARE_ENGINE=aws fanfare table create",
			after: `test "$(wc -l <network.jsonl)" = 8; FANFARE_ENGINE=aws fanfare export | cmp - network.jsonl`,
		},
	}
}

// shell is a bash that runs one command after another.
type shell struct {
	in  io.Writer
	out *bufio.Reader
	// addresses are pairs: an address that pages name, and the address that the test uses instead.
	addresses []string
}

func newShell(t *testing.T, dir string, env []string, addresses ...string) *shell {
	t.Helper()
	// The end of its input ends the shell. The end of a context would kill it before the shell has stopped what it began.
	bash := exec.Command("bash", "-eu")
	bash.Dir, bash.Env = dir, env
	in, err := bash.StdinPipe()
	require.NoError(t, err)
	out, err := bash.StdoutPipe()
	require.NoError(t, err)
	bash.Stderr = bash.Stdout
	require.NoError(t, bash.Start())
	t.Cleanup(func() {
		assert.NoError(t, in.Close())
		_ = bash.Wait() // run has checked that the commands succeeded
	})
	return &shell{in, bufio.NewReader(out), addresses}
}

// run runs a command and returns the output. The command has to succeed.
func (s *shell) run(t *testing.T, command string) string {
	t.Helper()
	command = strings.NewReplacer(s.addresses...).Replace(command)
	_, err := fmt.Fprintf(s.in, "{ %s\n} </dev/null\nprintf '\\001'\n", command)
	require.NoError(t, err)
	out, err := s.out.ReadString('\x01')
	require.NoErrorf(t, err, "%s\n%s", command, out)
	return strings.TrimSuffix(out, "\x01")
}

// tour runs a console block, and compares the output of each command. It repeats a command after a sleep
// until the output is right, because the machine of a test may be busy.
func (s *shell) tour(t *testing.T, text string) {
	t.Helper()
	slept := false
	for part := range strings.SplitSeq(strings.TrimPrefix(text, "$ "), "\n$ ") {
		command, want, _ := strings.Cut(part, "\n")
		if strings.HasPrefix(command, "sleep ") {
			slept = true
			continue
		}
		got := s.run(t, command)
		for end := time.Now().Add(patience); slept && shape(got) != shape(want) && time.Now().Before(end); {
			got = s.run(t, "sleep 0.1; "+command)
		}
		assert.Equal(t, shape(want), shape(got), command)
		slept = false
	}
}

// play runs a block of commands as its reader would.
func (s *shell) play(t *testing.T, text string, as reader) {
	t.Helper()
	played := strings.NewReplacer(as.words...).Replace(text)
	require.Equal(t, len(as.words) > 0, played != text, "the words of the page have changed: %s", text)
	for _, commands := range []string{as.before, played, as.after} {
		if commands != "" {
			s.run(t, commands)
		}
	}
}

// freshCopy copies the files that git tracks or would add, and returns the folder of the copy.
func freshCopy(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "fanfare")
	require.NoError(t, os.Mkdir(dir, 0o750))
	c := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c",
		`git ls-files -coz --exclude-standard | xargs -0 ls -d 2>/dev/null | tar -cT - | tar -xC "$0"`, dir)
	c.Dir = ".."
	out, err := c.CombinedOutput()
	require.NoErrorf(t, err, "%s", out)
	return dir
}

// makeUp runs the commands of `make up` one by one in a fresh copy of the tree. If make ran the commands,
// the last command would continue after the test is killed.
func makeUp(t *testing.T, dir string, env []string, admin string) *process {
	t.Helper()
	list := exec.CommandContext(t.Context(), "make", "--no-print-directory", "-n", "up")
	list.Dir = dir
	out, err := list.Output()
	require.NoError(t, err)
	build, up, ok := strings.Cut(strings.TrimSpace(string(out)), "\n")
	require.True(t, ok && strings.HasPrefix(up, "./bin/fanfare up"), "make up does\n%s", out)
	newShell(t, dir, env).run(t, build)
	p := startBinary(t, env, "/bin/bash", "-c", `cd "$0" && exec `+up, dir)
	p.ready(t, admin)
	return p
}

// TestEveryCommandOfThePagesRuns follows the README, each page and each example as a newcomer does,
// beside one `make up` in a fresh copy of the tree. It runs the commands of a page in order, in one
// shell, and compares the output with the output on the page. Ids and times differ from run to run, but
// their form does not.
func TestEveryCommandOfThePagesRuns(t *testing.T) {
	t.Parallel()
	require.NotEmpty(t, os.Getenv("AWS_ENDPOINT_URL"), "run this with scripts/with-emulators.sh")
	dir, addr, admin := freshCopy(t), porttest.Free(t), porttest.Free(t)
	calm := newUp(t) // a process without the demo
	calmProcess := calm.start(t)
	env := environment("FANFARE_HTTP_ADDR="+addr, "FANFARE_ADMIN_ADDR="+admin, "FANFARE_LOG_LEVEL=warn",
		"PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "CALM=FANFARE_HTTP_ADDR="+calm.http+" FANFARE_ADMIN_ADDR="+calm.admin)
	p := makeUp(t, dir, env, admin)
	left, toured := readers(), 0
	t.Run("pages", func(t *testing.T) {
		for _, name := range pagesOf(t, dir) {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			blocks := blocksOf(t, string(text))
			// Each block of commands is run, or has a reader with the reason.
			roles := make([]reader, len(blocks))
			for i, b := range blocks {
				switch at := slices.IndexFunc(left, func(r reader) bool { return strings.HasPrefix(b.text, r.begins) }); {
				case b.language == "console":
					toured++
				case b.language == "sh" && at >= 0:
					roles[i] = left[at]
					left = slices.Delete(left, at, at+1)
				case b.language != "sh":
					assert.Containsf(t, []string{"text", "json", "yaml", "go", "ts"}, b.language, "%s: the language of\n%s", name, b.text)
					assert.NotRegexpf(t, commandLine, b.text, "%s: a command in a block of %s, which nobody runs", name, b.language)
				}
			}
			t.Run(filepath.Base(name), func(t *testing.T) {
				t.Parallel()
				follow(t, newShell(t, dir, env, "127.0.0.1:8080", addr, "127.0.0.1:3000", porttest.Free(t)), blocks, roles)
			})
		}
	})
	assert.Empty(t, left, "no page has these blocks")
	assert.GreaterOrEqual(t, toured, 7)
	calmProcess.stop(t)
	p.stop(t)
}

// pagesOf returns the pages whose commands the test runs.
func pagesOf(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"README.md", "docs/*.md", "examples/*.md", "examples/*/*.md"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(t, err)
		all = append(all, names...)
	}
	return all
}

// follow runs the blocks of a page.
func follow(t *testing.T, s *shell, blocks []block, roles []reader) {
	t.Helper()
	for i, b := range blocks {
		switch {
		case b.language == "console":
			s.tour(t, b.text)
		case b.language == "sh" && roles[i].notRun == "":
			s.play(t, b.text, roles[i])
		case b.language == "sh":
			acceptSettings(t, b.text)
		}
	}
}

// acceptSettings checks the settings of a block that the test does not run because the block starts a
// daemon.
func acceptSettings(t *testing.T, text string) {
	t.Helper()
	if !strings.Contains(text, "\napi\n") {
		return
	}
	_, err := config.Load(regexp.MustCompile(`\b[A-Z_]+=\S+`).FindAllString(text, -1), config.API)
	assert.NoError(t, err, text)
}

// shape replaces ids and times, because they differ from run to run.
func shape(s string) string {
	s = regexp.MustCompile(`\b[0-9A-HJKMNP-TV-Z]{26}\b`).ReplaceAllString(strings.TrimSpace(s), "ULID")
	return regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`).ReplaceAllString(s, "TIME")
}
