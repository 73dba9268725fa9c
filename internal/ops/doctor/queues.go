package doctor

import (
	"context"
	"strings"
	"sync"

	"fanfare/internal/awsclient"
	"fanfare/internal/daemon"
	"fanfare/internal/queue"
	"fanfare/internal/queue/sqs"
)

// queues examines all topics at the same time, because a receive takes a second.
func (e *examination) queues(ctx context.Context, broker *sqs.Broker) {
	topics := queue.Topics()
	parts := make([]examination, len(topics))
	var all sync.WaitGroup
	for i, topic := range topics {
		parts[i] = examination{cfg: e.cfg, faults: e.faults, duties: e.duties}
		all.Go(func() { parts[i].queue(ctx, broker, topic) })
	}
	all.Wait()
	away := 0
	for i := range parts {
		e.found = append(e.found, parts[i].found...)
		if err := parts[i].away; err != nil {
			if away++; away == 1 { // all topics have the same endpoint
				e.note(LevelFault, "queues", mendAway, "%w", err)
			}
		}
	}
}

// mendAway is the remedy for a table or a queue that does not answer and may exist.
const mendAway = "let this machine reach it, or correct AWS_REGION or AWS_ENDPOINT_URL: it may well exist"

// queue examines the queue of a topic, and the calls that the roles make on it.
func (e *examination) queue(ctx context.Context, broker *sqs.Broker, topic string) {
	check := "queue " + topic
	differences, err := broker.Examine(ctx, topic)
	switch {
	case err == nil:
	case awsclient.Missing(err):
		e.note(LevelFault, check, "make it with fanfare queues create, or correct FANFARE_QUEUE_PREFIX, AWS_REGION or AWS_ENDPOINT_URL", "%w", err)
		return
	case awsclient.Refused(err):
		e.note(LevelFault, check, "allow sqs:GetQueueUrl and sqs:GetQueueAttributes to whoever runs this, or correct the credentials", "%w", err)
		return
	default:
		e.away = err
		return
	}
	for _, d := range differences {
		level := LevelWarning
		if d.Loses {
			level = LevelFault
		}
		e.note(level, check, "run fanfare queues create: it corrects the settings", "%s", d.Problem)
	}
	if len(differences) == 0 {
		e.ok(check, "it has its settings and its dead-letter queue")
	}
	try := func(dead bool, call sqs.Call) trial {
		resource, action := topic, "sqs:"+string(call)
		name := action
		if dead {
			resource += sqs.DeadSuffix
			name += " on the dead-letter queue"
		}
		return trial{e.need(action, resource), name, func() error { return broker.Try(ctx, topic, dead, call) }}
	}
	e.try("calls to "+topic, []trial{
		try(false, sqs.CallSend), try(false, sqs.CallReceive), try(false, sqs.CallDelete), try(false, sqs.CallChange), try(true, sqs.CallSend),
	})
}

// events examines the queue of events for other programs. Both engines can have this queue.
func (e *examination) events(ctx context.Context) {
	const check = "events queue"
	name := e.cfg.EventsQueue
	broker, err := daemon.OpenSQS(ctx, sqs.Options{Now: e.now}, e.clock)
	if err != nil {
		e.note(LevelFault, check, "see docs/CONFIGURATION.md, Variables of AWS and Go", "FANFARE_EVENTS_QUEUE is %s: %w", name, err)
		return
	}
	switch err := broker.Find(ctx, name); {
	case awsclient.Refused(err): // SQS may also answer that the queue does not exist if the role may not see it
		e.note(LevelFault, check, "make the queue, correct FANFARE_EVENTS_QUEUE or AWS_REGION, or allow sqs:GetQueueUrl to the role of "+strings.Join(e.duties, ", "),
			"FANFARE_EVENTS_QUEUE is %s: %w", name, err)
	case err != nil:
		e.note(LevelFault, check, mendAway, "FANFARE_EVENTS_QUEUE is %s: %w", name, err)
	default:
		e.ok(check, "SQS has %s", name)
		e.try("calls to the events queue", []trial{{true, "sqs:SendMessage", func() error { return broker.TrySend(ctx, name) }}})
	}
	if err := broker.Close(); err != nil {
		e.note(LevelWarning, check, "run it again", "a request did not end: %w", err)
	}
}
