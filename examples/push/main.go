// Program push sends a push notification for each notification of a user, to an endpoint such as the one of FCM:
//
//	push URL https://fcm.googleapis.com/v1/projects/PROJECT/messages:send FILE
//
// SERVICE_TOKEN is a service's token (docs/TOKENS.md), PUSH_TOKEN the endpoint's. FILE has the position of the last event
// that is done, at which the program continues after a failed push and a new start.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"fanfare/client"
	"fanfare/messages"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: push URL ENDPOINT FILE")
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, "push:", run(context.Background(), os.Args[1], os.Args[2], os.Args[3]))
	os.Exit(1)
}

func run(ctx context.Context, url, endpoint, file string) error {
	service, err := client.New(url, client.WithToken(os.Getenv("SERVICE_TOKEN")))
	after, _ := os.ReadFile(file) // at first there is no file
	read := client.EventPage{Next: string(after)}
	for err == nil {
		read, err = service.Events(ctx, read.Next, 100, 20*time.Second)
		for i := 0; i < len(read.Events) && err == nil; i++ {
			if err = push(ctx, endpoint, read.Events[i]); err == nil {
				err = os.WriteFile(file, []byte(read.Events[i].Position), 0o600)
			}
		}
	}
	return err // client.ErrEventsGone: remove FILE; the pushes of the removed events are lost
}

// push sends a message to the devices that subscribe to the topic of the user. A device drops an event_id that it has.
func push(ctx context.Context, endpoint string, e client.Event) error {
	event, _ := messages.Decode(e.Event) // nil for a kind of a newer version
	n, ok := event.(*messages.Notified)
	if !ok {
		return nil
	}
	body := fmt.Sprintf(`{"message":{"topic":%q,"data":{"event_id":%q,"kind":%q,"actor_id":%q}}}`, n.UserID, n.EventID, n.NoticeKind, n.ActorID)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+os.Getenv("PUSH_TOKEN"))
	answer, err := (&http.Client{Timeout: 10 * time.Second}).Do(req)
	if err != nil {
		return err
	}
	if err = answer.Body.Close(); answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("the endpoint answers %s", answer.Status)
	}
	return err
}
