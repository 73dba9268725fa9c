// Command fanout delivers posts to the homes of followers, on DynamoDB and SQS.
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
	return daemon.Main(ctx, "fanout", daemon.Roles{Fanout: true}, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
}
