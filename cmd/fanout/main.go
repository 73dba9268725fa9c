// Command fanout delivers posts to the homes of followers. It uses DynamoDB and SQS.
package main

import (
	"os"

	"fanfare/internal/daemon"
)

func main() { os.Exit(daemon.Execute(daemon.Roles{Fanout: true})) }
