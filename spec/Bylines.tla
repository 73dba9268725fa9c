------------------------------ MODULE Bylines ------------------------------
(* The posts of one author keep the author's name: docs/decisions/0037. A step *)
(* is one request to the table or a queue, and any two processes interleave    *)
(* between requests. Each rule is a constant: TRUE is the protocol, and FALSE  *)
(* is the protocol without the rule. Without any one of the rules, the         *)
(* invariant has to fail.                                                      *)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
  P, C,            \* posts, changes of the profile
  Crashes,         \* number of processes that die
  Tries,           \* number of times that a change which conflicts with another change begins again
  \* Rules
  EventFirst,      \* the event of a change is sent before the change
  InTurn,          \* a change is made on the condition of the version that it has read
  WaitForChange,   \* a walk begins when the table has the change, or will never have it
  Upwards,         \* a byline is replaced on the condition that its version is lower
  Check,           \* the worker of a new post compares its byline with the profile
  CheckLate        \* the worker reads the profile after the table has the post

VARIABLES
  profile,  \* [v |-> version, n |-> name]: a name is the change that made it
  byline,   \* the byline of each post, Nothing before the table has the post
  make,     \* the API's call that makes each post
  check,    \* the worker of each post's event
  change,   \* the API's call that makes each change
  events,   \* the versions whose event is sent and not answered: [c, v]
  walk,     \* the worker of each event of a change
  crashes

vars == <<profile, byline, make, check, change, events, walk, crashes>>
Symm == Permutations(P) \union Permutations(C)

Nothing == [v |-> -1, n |-> "none"]
First   == [v |-> 0, n |-> "first"]
Ended   == {"done", "dead"}

Init ==
  /\ profile = First /\ byline = [p \in P |-> Nothing] /\ events = {} /\ crashes = 0
  /\ make = [p \in P |-> [pc |-> "idle", b |-> Nothing]]
  /\ check = [p \in P |-> [pc |-> "idle", b |-> Nothing]]
  /\ change = [c \in C |-> [pc |-> "idle", v |-> 0, tries |-> 0]]
  /\ walk = [c \in C |-> [pc |-> "idle", b |-> Nothing, todo |-> {}, for |-> 0]]

Crash == crashes < Crashes /\ crashes' = crashes + 1
Fine  == crashes' = crashes

\* ------------------------------------------------------------- a new post
Read(p) ==
  /\ make[p].pc = "idle" /\ Fine
  /\ make' = [make EXCEPT ![p] = [pc |-> "put", b |-> profile]]
  /\ UNCHANGED <<profile, byline, check, change, events, walk>>

Put(p) ==
  /\ make[p].pc = "put" /\ Fine
  /\ byline' = [byline EXCEPT ![p] = make[p].b]
  /\ make' = [make EXCEPT ![p] = [pc |-> "done", b |-> Nothing]]
  /\ UNCHANGED <<profile, check, change, events, walk>>

\* A worker makes the post of a dead call in the same way as a call: in the model it is another
\* post.
MakeDies(p) ==
  /\ make[p].pc = "put" /\ Crash
  /\ make' = [make EXCEPT ![p] = [pc |-> "dead", b |-> Nothing]]
  /\ UNCHANGED <<profile, byline, check, change, events, walk>>

Stored(p) == byline[p] # Nothing

CheckReads(p) ==
  /\ Check /\ check[p].pc = "idle" /\ Fine
  /\ IF CheckLate THEN Stored(p) ELSE make[p].pc # "idle"
  /\ check' = [check EXCEPT ![p] = [pc |-> "compare", b |-> profile]]
  /\ UNCHANGED <<profile, byline, make, change, events, walk>>

Raise(p, b) == IF ~Upwards \/ byline[p].v < b.v THEN byline' = [byline EXCEPT ![p] = b] ELSE byline' = byline

\* A byline with a version at least as new costs no request.
CheckWrites(p) ==
  /\ check[p].pc = "compare" /\ Stored(p) /\ Fine
  /\ IF byline[p].v = check[p].b.v THEN byline' = byline ELSE Raise(p, check[p].b)
  /\ check' = [check EXCEPT ![p] = [pc |-> "done", b |-> Nothing]]
  /\ UNCHANGED <<profile, make, change, events, walk>>

CheckDies(p) ==
  /\ check[p].pc = "compare" /\ Crash
  /\ check' = [check EXCEPT ![p] = [pc |-> "idle", b |-> Nothing]]
  /\ UNCHANGED <<profile, byline, make, change, events, walk>>

\* ------------------------------------------------- a change of the profile
ChangeReads(c) ==
  /\ change[c].pc = "idle" /\ Fine
  /\ change' = [change EXCEPT ![c].pc = IF EventFirst THEN "send" ELSE "put", ![c].v = profile.v]
  /\ UNCHANGED <<profile, byline, make, check, events, walk>>

Send(c) ==
  /\ change[c].pc = "send" /\ Fine
  /\ events' = events \union {[c |-> c, v |-> change[c].v + 1]}
  /\ change' = [change EXCEPT ![c].pc = IF EventFirst THEN "put" ELSE "done"]
  /\ UNCHANGED <<profile, byline, make, check, walk>>

ChangePuts(c) ==
  /\ change[c].pc = "put" /\ Fine
  /\ IF ~InTurn \/ profile.v = change[c].v
     THEN /\ profile' = [v |-> change[c].v + 1, n |-> c]
          /\ change' = [change EXCEPT ![c].pc = IF EventFirst THEN "done" ELSE "send"]
     ELSE /\ profile' = profile
          /\ change' = [change EXCEPT ![c].pc = IF change[c].tries < Tries THEN "idle" ELSE "dead", ![c].tries = @ + 1]
  /\ UNCHANGED <<byline, make, check, events, walk>>

ChangeDies(c) ==
  /\ change[c].pc \in {"send", "put"} /\ Crash
  /\ change' = [change EXCEPT ![c].pc = "dead"]
  /\ UNCHANGED <<profile, byline, make, check, events, walk>>

\* --------------------------------------------------- the walk over the posts
\* A change that began again has sent several events. One worker handles the newest of these
\* events.
Newest(c) == CHOOSE v \in {e.v : e \in {x \in events : x.c = c}} : \A e \in events : e.c = c => e.v <= v
UpTo(c, v) == {e \in events : e.c = c /\ e.v <= v}

WalkReads(c) ==
  /\ walk[c].pc = "idle" /\ Fine
  /\ \E e \in events : e.c = c
  /\ WaitForChange => profile.v = Newest(c)
  /\ walk' = [walk EXCEPT ![c] = [pc |-> "list", b |-> profile, todo |-> {}, for |-> Newest(c)]]
  /\ UNCHANGED <<profile, byline, make, check, change, events>>

\* An overtaken change leaves the walk to the newer change. A change whose process died is given
\* up.
Drop(c) ==
  /\ walk[c].pc = "idle" /\ WaitForChange /\ Fine
  /\ \E e \in events : e.c = c
  /\ profile.v > Newest(c) \/ (profile.v < Newest(c) /\ change[c].pc \in Ended)
  /\ events' = events \ UpTo(c, Newest(c))
  /\ UNCHANGED <<profile, byline, make, check, change, walk>>

List(c) ==
  /\ walk[c].pc = "list" /\ Fine
  /\ walk' = [walk EXCEPT ![c].pc = "write", ![c].todo = {p \in P : Stored(p) /\ byline[p].v # walk[c].b.v}]
  /\ UNCHANGED <<profile, byline, make, check, change, events>>

Write(c) ==
  /\ walk[c].pc = "write" /\ Fine
  /\ \E p \in walk[c].todo : Raise(p, walk[c].b) /\ walk' = [walk EXCEPT ![c].todo = @ \ {p}]
  /\ UNCHANGED <<profile, make, check, change, events>>

Ack(c) ==
  /\ walk[c].pc = "write" /\ walk[c].todo = {} /\ Fine
  /\ walk' = [walk EXCEPT ![c] = [pc |-> "idle", b |-> Nothing, todo |-> {}, for |-> 0]]
  /\ events' = events \ UpTo(c, walk[c].for)
  /\ UNCHANGED <<profile, byline, make, check, change>>

WalkDies(c) ==
  /\ walk[c].pc \in {"list", "write"} /\ Crash
  /\ walk' = [walk EXCEPT ![c] = [pc |-> "idle", b |-> Nothing, todo |-> {}, for |-> 0]]
  /\ UNCHANGED <<profile, byline, make, check, change, events>>

Next ==
  \/ \E p \in P : Read(p) \/ Put(p) \/ MakeDies(p) \/ CheckReads(p) \/ CheckWrites(p) \/ CheckDies(p)
  \/ \E c \in C : ChangeReads(c) \/ Send(c) \/ ChangePuts(c) \/ ChangeDies(c)
                  \/ WalkReads(c) \/ Drop(c) \/ List(c) \/ Write(c) \/ Ack(c) \/ WalkDies(c)

Spec == Init /\ [][Next]_vars

\* ------------------------------------------------------------ the invariant
Quiet ==
  /\ events = {} /\ \A c \in C : change[c].pc \in Ended \union {"idle"} /\ walk[c].pc = "idle"
  /\ \A p \in P : /\ make[p].pc \in Ended \union {"idle"}
                  /\ Check /\ Stored(p) => check[p].pc = "done"

\* Once all work is done, each post that keeps a name keeps the present name.
Settled == Quiet => \A p \in P : Stored(p) => byline[p] = profile
=============================================================================
