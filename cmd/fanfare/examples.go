package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// examples are the calls in the help of the commands, one a line.
const examples = `
fanfare up --demo
fanfare up --data-dir /var/lib/fanfare --http :8080
fanfare status
fanfare status --admin 10.0.0.5:9090 --json
fanfare doctor --data-dir /var/lib/fanfare
FANFARE_ENGINE=aws fanfare doctor --daemon api
fanfare health --url http://127.0.0.1:9090/readyz
fanfare explain ann
fanfare explain ann 01M7YGFBNN83Z6WZ0H17A54H5N
fanfare delivery 01M7YGFBNN83Z6WZ0H17A54H5N --watch
fanfare dlq ls --newer 1h
fanfare dlq show posts 01M7YGFBNN83Z6WZ0H17A54H5N
fanfare dlq redrive posts --all --older 10m
fanfare dlq drop likes 01M7YGFBNN83Z6WZ0H17A54H5N
fanfare reconcile --since 2026-11-20
fanfare verify
fanfare verify --repair --after-restore 2026-11-22T08:00:00Z
fanfare takedown 01M7YGFBNN83Z6WZ0H17A54H5N --reason spam
fanfare forget ann
fanfare forget ann --admin 127.0.0.1:9090
fanfare import users.jsonl follows.jsonl posts.jsonl
fanfare export > network.jsonl
fanfare export --admin 127.0.0.1:9090 > network.jsonl
fanfare export --user ann
fanfare backup /backup/monday
fanfare restore /backup/monday --data-dir /var/lib/fanfare
fanfare restore --from s3://my-bucket/fanfare --at 2026-11-22T08:00:00Z --data-dir rehearsal
fanfare archive ls --from s3://my-bucket/fanfare
fanfare archive gaps --from s3://my-bucket/fanfare
fanfare archive verify --from s3://my-bucket/fanfare --deep
fanfare archive take --data-dir /var/lib/fanfare
fanfare pair keys new-keys
fanfare pair status
fanfare pair move --to s3://other-bucket/pair
fanfare pair begin --data-dir /var/lib/fanfare
fanfare promote
fanfare unpair --data-dir /var/lib/fanfare --standby-is-gone
FANFARE_ENGINE=aws fanfare api
FANFARE_ENGINE=aws fanfare fanout
FANFARE_ENGINE=aws fanfare likeagg
fanfare table create
fanfare table create --billing provisioned --write-units 500-10000
fanfare table describe
fanfare table model > fanfare.json
fanfare queues create
fanfare queues describe
fanfare iam policy --daemon api --region eu-central-1 --account 123456789012
fanfare capacity --users 1e6 --followers 100 --billing provisioned
fanfare token ann
fanfare token --act importer --ttl 1h
fanfare replay --graph testdata/graphs/socfb-Reed98.edges --posts 2000 --likes 20000
fanfare version --json
`

// showExamples gives each command its examples.
func showExamples(root *cobra.Command) {
	for line := range strings.Lines(strings.TrimPrefix(examples, "\n")) {
		_, call, _ := strings.Cut(line, "fanfare ")
		c, _, err := root.Find(strings.Fields(call))
		if err == nil {
			c.Example += "  " + line
		}
	}
	for c := range below(root) {
		c.Example = strings.TrimSuffix(c.Example, "\n")
	}
}

// below returns all commands below c.
func below(c *cobra.Command) func(yield func(*cobra.Command) bool) {
	return func(yield func(*cobra.Command) bool) {
		for _, sub := range c.Commands() {
			if !yield(sub) {
				return
			}
			for further := range below(sub) {
				if !yield(further) {
					return
				}
			}
		}
	}
}
