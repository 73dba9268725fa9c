// Command likeagg counts likes. It uses DynamoDB and SQS.
package main

import (
	"os"

	"fanfare/internal/daemon"
)

func main() { os.Exit(daemon.Execute(daemon.Roles{Likes: true})) }
