package sim

import (
	"slices"

	"fanfare/messages"
)

// The kinds of operation of the product.
const (
	Domain  = "call"    // of the domain by package httpapi, named by its function
	Message = "message" // named by its kind
	Command = "command" // of the program fanfare, named by its words
	Loop    = "loop"    // in the background, named by its function or by the root of a process
)

// onArchive is the reason of the operations of an archive: only worlds on the embedded engine have one.
const onArchive = "the storms on the embedded engine perform it (ArchiveEvents)"

// onPair is the reason of the operations of a pair: a world has one machine.
const onPair = "the storms of package pair perform it; e2e kills the primary"

// Operation is an operation of the product that the storms perform, or omit for a reason. An
// operation with several parts has several rows.
type Operation struct {
	Kind, Name string
	// By shows that the storms perform the operation: a function of the product on the way to the
	// table or the queues, a message or an event, or a kind of fault.
	By string
	// Why is the reason why the storms do not perform the operation, "" if they do.
	Why string
}

// Operations returns every operation of the product, except the calls of the domain that tests find in
// package httpapi. Tests compare the operations with the commands and the loops. `make sim-reach` fails if fewer than one seed
// in a hundred performs an operation.
func Operations() []Operation {
	return slices.Concat(calls(), commands(), loops(), eventKinds())
}

// calls returns the calls of the domain that package httpapi does not make, or that the storms leave out.
// Tests find the other calls in that package.
func calls() []Operation {
	not := func(name, why string) Operation { return Operation{Domain, name, name, why} }
	return []Operation{
		not("home.(*Homes).PutAway", "only developers have it: it dates a reader back"),
		not("transfer.ExportUser", "no storm exports"),
		not("notices.(*Notices).On", "it reads and writes nothing"),
		not("live.(*Hub).Run", "it reads and writes nothing"),
		{Kind: Domain, Name: "home.News.Tag", By: "home.News.Tag"},
	}
}

func eventKinds() (all []Operation) {
	for _, kind := range messages.Kinds() {
		by := handled(kind)
		if slices.Contains([]messages.Kind{"PostDelivered", "PostTakenDown", "Notified"}, kind) { // only other programs handle these
			by = sent(kind)
		}
		all = append(all, Operation{Kind: Message, Name: string(kind), By: by})
	}
	return all
}

func commands() []Operation {
	by := func(name, function string) Operation { return Operation{Kind: Command, Name: name, By: function} }
	not := func(name, why string) Operation { return Operation{Kind: Command, Name: name, Why: why} }
	return []Operation{
		by("api", "feed.(*Service).CreatePost"),
		by("fanout", "fanout.(*Worker).HandlePosts"),
		by("likeagg", "likeagg.(*window).flush"),
		by("explain", "home.(*Homes).Explain"),
		by("delivery", "delivery.(*Deliveries).AnyDelivery"),
		by("verify", "audit.(*Audit).Run"),
		by("forget", "removal.(*Removals).AskToForget"),
		by("takedown", "feed.(*Service).TakeDown"),
		by("dlq redrive", FaultRedrive),
		by("import", "transfer.Import"), by("export", "transfer.Export"),
		not("backup", "e2e copies the files of a running process with it; the storms have no files"),
		not("archive gaps", "it lists objects; the storms of package archive compare it with restores"),
		not("archive ls", "as archive gaps"), not("archive verify", onArchive),
		not("archive take", onArchive),
		not("restore", onArchive),
		not("promote", onPair), not("unpair", onPair), not("pair status", onPair), not("pair begin", onPair), not("pair move", onPair), not("pair keys", "it writes files, and touches no data"),
		by("reconcile", "delivery.(*Deliveries).Reconcile"),
		not("up", "it runs all roles in one process; e2e kills it"),
		not("token", "it signs a token, and reads and writes nothing"),
		not("table create", "it sets a deployment up, before there is traffic"), not("table describe", "it prints"),
		not("table model", "it prints"), not("queues create", "it sets a deployment up, before there is traffic"),
		not("queues describe", "it prints"),
		not("dlq ls", "it prints"), not("dlq show", "it prints"),
		not("dlq drop", "whoever drops a letter gives its effect up"),
		not("replay", "it is a client that makes load"),
		not("capacity", "it computes"), not("doctor", "it looks at a deployment, and changes nothing"),
		not("iam policy", "it prints"), not("health", "it asks a process"), not("status", "it reads metrics"), not("version", "it prints"),
		not("help", "it prints"),
	}
}

func loops() []Operation {
	by := func(name, function string) Operation { return Operation{Kind: Loop, Name: name, By: function} }
	not := func(name, why string) Operation { return Operation{Kind: Loop, Name: name, Why: why} }
	return []Operation{
		by("root streams", "live.(*Hub).Open"),
		by("live.(*Hub).runTail", "live.(*Hub).runTail"),
		by("live.(*userHome).run", "live.(*userHome).run"),
		by("live.(*Stream).serve", "live.(*userHome).look"),
		by("root fanout of", "fanout.(*Worker).HandlePosts"),
		by("root fanout of", "fanout.(*Worker).HandleBackfills"),
		by("root fanout of", "fanout.(*Worker).HandleChunks"),
		by("queue.(*Consumer).work", "queue.(*Consumer).work"), by("queue.(*Consumer).work", FaultDoubt),
		by("root likes", "likeagg.(*window).flush"),
		by("likeagg.(*collector).collect", "likeagg.(*window).put"),
		by("root notices", "notify.(*Notifier).Run"), by("root notices", FaultSilent),
		by("notify.(*collector).collect", "notify.(*collector).work"),
		by("root auditor", "audit.(*Audit).Run"),
		not("disk.(*guard).await", onPair), not("pair.(*Primary).Paired", onPair), not("pair.(*Primary).Run", onPair), not("pair.(*following).stopApply", onPair),
		not("pair.(*Primary).equal", onPair), not("pair.(*Primary).keep", onPair), not("pair.(*Standby).watch", onPair), not("pair.(*session).join", onPair), not("root peer", onPair), not("pair.(*applier).run", onPair), not("pair.(*applier).step", onPair), not("pair.(*following).handle", onPair),
		not("pair.(*following).read", onPair), not("pair.(*following).takeOver", onPair), not("pair.(*session).beat", onPair), not("root pair", onPair),
		not("root primary", onPair), not("root standby", onPair), not("root standbys", onPair), not("stream.(*Receiver).Ahead", onPair),
		not("archive.(*Archiver).Run", onArchive),
		not("archive.(*Keeper).Run", onArchive),
		not("archive.(*Keeper).passed", onArchive),
		not("restore.awaitEnd", onArchive),
		not("root archive", onArchive), not("root writer", onArchive),
		not("root handler", "it serves the requests of a program around Fanfare"),
		not("stream.(*Receiver).Next", onArchive),
		not("stream.(*Stream).Run", onArchive),
		not("stream.(*Stream).settleTo", onArchive),
		not("audit.(*Auditor).Run", "it only paces the audit; the storms begin the walks themselves"),
		not("canary.(*Canary).Run", "the storms make its posts and reads; it only measures them"),
		not("root canary", "as canary.(*Canary).Run"),
		not("daemon.watchClock", "it only logs"),
		not("daemon.(*patient).Accept", "the storms call the domain, and no server"),
		not("admin.(*Client).AwaitReady", "a command waits for a process"), not("admin.awaitMoved", "a command waits for a process"),
		not("root clock", "it only logs"),
		not("root history", "it only reads metrics"), not("admin.(*History).Run", "it only reads metrics"),
		not("root http", "the storms call the domain, and no server"),
		not("httpapi.(*API).untilRefused", "the storms have no tokens"),
		not("root keys", "it reads keys over HTTP"),
		not("auth.(*KeySet).Run", "it reads keys over HTTP"),
		not("root disk", "a world has no files"),
		not("daemon.watchDisk", "a world has no files"),
		not("disk.(*scheduler).grantForever", "a world has no files"),
		not("disk.Await", "a world has no files"),
		not("disk.awaitRoom", "a world has no files"),
		not("embedded.(*Store).sweepForever", "the table of a world deletes expired items itself"),
		not("embedded.(*Broker).sweep", "the queues of a world keep dead letters; the storms on the embedded engine remove events (LogGone)"),
		not("embedded.(*Broker).removeOldEvents", "a part of the sweep"),
		not("root events", "it waits for the stop, and then ends the waits of readers"),
		not("embedded.(*Broker).write", "a world has queues of its own"),
		not("sqs.(*subscription).handBack", "a world has queues of its own"),
		not("sqs.(*subscription).heartbeat", "a world has queues of its own"),
	}
}
