// Command likeagg counts likes, on DynamoDB and SQS.
package main

import (
	"os"

	"fanfare/internal/daemon"
)

func main() { os.Exit(daemon.Execute(daemon.Roles{Likes: true})) }
