------------------------------ MODULE Budget ------------------------------
(* The units that the calls of one user cause in an hour: docs/decisions/0044. *)
(* A step is one request to the table or the queue, and any two processes      *)
(* interleave between requests. All calls are large posts with an              *)
(* Idempotency-Key, and each call counts one unit. Each rule is a constant:    *)
(* TRUE is the protocol, and FALSE is the protocol without the rule. Without   *)
(* any one of the rules, an invariant has to fail.                             *)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
  P, K, C,         \* API processes, keys (one post for each key), calls: some calls repeat a key
  Limit,           \* posts of an hour
  Hours,           \* hours, from 1
  Lost,            \* number of transactions that are lost
  Unsent,          \* number of events that the queue refuses
  Crashes,         \* number of processes that die
  \* Rules
  KeyFirst,        \* a call that the hour refuses looks for its key first
  BindLate,        \* a refused call binds no key
  InTurn,          \* a process has only one large call of the user in progress
  ReadAgain,       \* a call that has its turn reads the counts again
  Wait,            \* a large post waits while a previous post of its process is not written
  WaitFirst,       \* the post looks for the previous post before it reads the counts
  Once,            \* the count is in the transaction of the post, which requires that the post is absent
  WorkerCounts,    \* the worker that repeats a lost transaction also counts it
  KeepLast         \* the counts keep the hour before the present one

VARIABLES
  hour,     \* the hour by the clock of each process
  counts,   \* the units of each hour
  key,      \* the hour of the id of the post that each key is bound to, 0 for none
  sent,     \* the keys whose event waits for a worker
  post,     \* the keys whose post is in the table
  times,    \* how often each post was counted
  call,     \* the calls
  turn,     \* the call that has the turn in each process
  unwritten,\* the posts of each process that may be unwritten, as far as the process knows
  lost, unsent, crashes

vars == <<hour, counts, key, sent, post, times, call, turn, unwritten, lost, unsent, crashes>>
Symm == Permutations(P) \union Permutations(K) \union Permutations(C)

None == "none"
Idle == [pc |-> "idle", p |-> None, k |-> None, h |-> 0, seen |-> 0, bound |-> FALSE, late |-> FALSE]

Init ==
  /\ hour = [p \in P |-> 1] /\ counts = [h \in 1..Hours |-> 0] /\ key = [k \in K |-> 0]
  /\ sent = {} /\ post = {} /\ times = [k \in K |-> 0]
  /\ call = [c \in C |-> Idle] /\ turn = [p \in P |-> None] /\ unwritten = [p \in P |-> {}]
  /\ lost = 0 /\ unsent = 0 /\ crashes = 0

\* The clocks of two processes are in the same hour, or in two consecutive hours.
Tick(p) ==
  /\ hour[p] < Hours /\ \A q \in P : hour[p] <= hour[q]
  /\ hour' = [hour EXCEPT ![p] = @ + 1]
  /\ UNCHANGED <<counts, key, sent, post, times, call, turn, unwritten, lost, unsent, crashes>>

\* --------------------------------------------------------------- a call
Begin(c) ==
  /\ call[c].pc = "idle"
  /\ \E p \in P, k \in K :
       /\ call' = [call EXCEPT ![c] = [pc |-> "turn", p |-> p, k |-> k, h |-> hour[p], seen |-> counts[hour[p]], bound |-> key[k] # 0, late |-> FALSE]]
       /\ key' = IF BindLate \/ key[k] # 0 THEN key ELSE [key EXCEPT ![k] = hour[p]]
  /\ UNCHANGED <<hour, counts, sent, post, times, turn, unwritten, lost, unsent, crashes>>

Late(p) == Wait /\ unwritten[p] \ post # {}

Take(c) ==
  LET p == call[c].p IN
  /\ call[c].pc = "turn" /\ (InTurn => turn[p] = None)
  /\ turn' = IF InTurn THEN [turn EXCEPT ![p] = c] ELSE turn
  /\ call' = [call EXCEPT ![c].pc = "read", ![c].late = Late(p)]
  /\ UNCHANGED <<hour, counts, key, sent, post, times, unwritten, lost, unsent, crashes>>

Ends(c, pc) ==
  /\ call' = [call EXCEPT ![c].pc = pc]
  /\ turn' = IF turn[call[c].p] = c THEN [turn EXCEPT ![call[c].p] = None] ELSE turn

GoesOn(c) == IF call[c].k \in post THEN Ends(c, "done") ELSE call' = [call EXCEPT ![c].pc = "send"] /\ turn' = turn

Read(c) ==
  /\ call[c].pc = "read"
  /\ call' = [call EXCEPT ![c].pc = "check", ![c].seen = IF ReadAgain THEN counts[call[c].h] ELSE @]
  /\ UNCHANGED <<hour, counts, key, sent, post, times, turn, unwritten, lost, unsent, crashes>>

Full(c) == call[c].seen >= Limit \/ (IF WaitFirst THEN call[c].late ELSE Late(call[c].p))

Check(c) ==
  /\ call[c].pc = "check"
  /\ CASE ~Full(c) -> call' = [call EXCEPT ![c].pc = "bind"] /\ turn' = turn
       [] Full(c) /\ KeyFirst /\ key[call[c].k] # 0 -> GoesOn(c)
       [] OTHER -> Ends(c, "refused")
  /\ UNCHANGED <<hour, counts, key, sent, post, times, unwritten, lost, unsent, crashes>>

Bind(c) ==
  LET k == call[c].k IN
  /\ call[c].pc = "bind"
  /\ key' = IF key[k] = 0 THEN [key EXCEPT ![k] = call[c].h] ELSE key
  /\ GoesOn(c)
  /\ UNCHANGED <<hour, counts, sent, post, times, unwritten, lost, unsent, crashes>>

Send(c) ==
  /\ call[c].pc = "send"
  /\ sent' = sent \union {call[c].k}
  /\ call' = [call EXCEPT ![c].pc = "write"]
  /\ UNCHANGED <<hour, counts, key, post, times, turn, unwritten, lost, unsent, crashes>>

SendFails(c) ==
  /\ call[c].pc = "send" /\ unsent < Unsent /\ unsent' = unsent + 1
  /\ Ends(c, "done")
  /\ UNCHANGED <<hour, counts, key, sent, post, times, unwritten, lost, crashes>>

\* The hours that a transaction of hour h removes.
Former(h) == {g \in 1..Hours : IF KeepLast THEN g < h - 1 ELSE g < h}

Count(k, h) == [g \in 1..Hours |-> IF g = key[k] THEN counts[g] + 1 ELSE IF g \in Former(h) THEN 0 ELSE counts[g]]

Write(c) ==
  LET k == call[c].k IN
  /\ call[c].pc = "write"
  /\ IF k \notin post \/ ~Once
     THEN post' = post \union {k} /\ times' = [times EXCEPT ![k] = @ + 1] /\ counts' = Count(k, call[c].h)
     ELSE UNCHANGED <<post, times, counts>>
  /\ Ends(c, "done")
  /\ UNCHANGED <<hour, key, sent, unwritten, lost, unsent, crashes>>

WriteIsLost(c) ==
  /\ call[c].pc = "write" /\ lost < Lost /\ lost' = lost + 1
  /\ unwritten' = [unwritten EXCEPT ![call[c].p] = @ \union {call[c].k}]
  /\ Ends(c, "done")
  /\ UNCHANGED <<hour, counts, key, sent, post, times, unsent, crashes>>

\* ----------------------------------------------------- a worker, a crash
Worker(k) ==
  /\ k \in sent /\ sent' = sent \ {k}
  /\ IF k \notin post
     THEN /\ post' = post \union {k}
          /\ times' = [times EXCEPT ![k] = IF WorkerCounts THEN @ + 1 ELSE @]
          /\ counts' = IF WorkerCounts THEN Count(k, key[k]) ELSE counts
     ELSE UNCHANGED <<post, times, counts>>
  /\ UNCHANGED <<hour, key, call, turn, unwritten, lost, unsent, crashes>>

Crash(p) ==
  /\ crashes < Crashes /\ crashes' = crashes + 1
  /\ call' = [c \in C |-> IF call[c].p = p /\ call[c].pc \notin {"done", "refused"} THEN [call[c] EXCEPT !.pc = "done"] ELSE call[c]]
  /\ turn' = [turn EXCEPT ![p] = None] /\ unwritten' = [unwritten EXCEPT ![p] = {}]
  /\ UNCHANGED <<hour, counts, key, sent, post, times, lost, unsent>>

Next ==
  \/ \E p \in P : Tick(p) \/ Crash(p)
  \/ \E c \in C : Begin(c) \/ Take(c) \/ Read(c) \/ Check(c) \/ Bind(c) \/ Send(c) \/ SendFails(c) \/ Write(c) \/ WriteIsLost(c)
  \/ \E k \in K : Worker(k)

Spec == Init /\ [][Next]_vars

\* -------------------------------------------------------- the invariants
\* A post is counted once, by the transaction that makes the post.
Counted == \A k \in K : times[k] = IF k \in post THEN 1 ELSE 0

\* A call whose key was bound when it began is never refused.
Bound == \A c \in C : call[c].pc = "refused" => ~call[c].bound

\* The present hour of each clock counts all its posts.
Kept == \A p \in P : counts[hour[p]] >= Cardinality({k \in post : key[k] = hour[p]})

\* The hour exceeds the limit by at most one large call of each process but the first. A crash adds
\* one more call, and so does a queue that refuses an event whose key is bound.
Accepted(h) == {k \in K : key[k] = h /\ k \in sent \union post}
Overshoot == \A h \in 1..Hours : Cardinality(Accepted(h)) <= Limit - 1 + Cardinality(P) + crashes + unsent
=============================================================================
