// Command api serves Fanfare's HTTP API. It uses DynamoDB and SQS.
package main

import (
	"os"

	"fanfare/internal/daemon"
)

func main() { os.Exit(daemon.Execute(daemon.Roles{API: true})) }
