// Command api serves Fanfare's HTTP API, on DynamoDB and SQS.
package main

import (
	"context"
	"os"

	"fanfare/internal/daemon"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := daemon.Signals(context.Background())
	defer stop()
	return daemon.Main(ctx, "api", daemon.Roles{API: true}, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
}
