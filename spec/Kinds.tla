------------------------------- MODULE Kinds -------------------------------
(* The count of the reactions of one post by kind: docs/LIKES.md. A step is    *)
(* one request to the table, so any two windows interleave between requests.   *)
(* Each rule is a constant: TRUE is the protocol, and FALSE is the protocol    *)
(* without the rule. Without any one of the rules, an invariant at the end has *)
(* to fail.                                                                    *)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
  U, A, W,         \* users, aggregators, windows 1..n: a window runs once
  Versions,        \* actions of a user: 1 is a like, 2 a love, 3 the end of the reaction, 4 a like, and so on
  Incs,            \* maximum number of incarnations
  Batch,           \* maximum number of messages of a window
  Lates,           \* number of requests whose answer is lost, or that take effect late
  Crashes,         \* number of processes that die, and of windows that give up
  Days,            \* number of midnights
  MsgDays,         \* the maximum age in days of a message that is applied
  Restores,        \* maximum number of restores: the table is set back to a copy
  Torn,            \* the parts of a copy may be from several moments
  \* Rules
  KnownBeforeFlush,   \* a window flushes when the outcome of each write is known
  RefusalUndecided,   \* after a lost answer only success or the condition decides the outcome
  LeaveUndone,        \* a like is left for later only if no try of its put can have taken effect
  Serial,             \* one window of a post and aggregator at a time
  EndAfterLost,       \* a lost window ends its incarnation
  AckAfterFlush,      \* a window answers messages after the flush
  FenceFirst,         \* a window fences an open like before it replaces the like
  FlushOnce,          \* a flush is repeated on its condition
  StampUnchanged,     \* a like is stamped again on the condition of the stamp that was read
  EmptyFlush,         \* a window with stamps also flushes a sum of 0
  ByNote,             \* prune, and read a missing entry, by the note of a clean end (FALSE: by age)
  NoteClean,          \* only an incarnation that flushed all its stamps notes its end
  NoteLast,           \* a window reads the note after the ledger
  NoteFirst,          \* the note outweighs a fence without an entry
  PruneLate,          \* entries are pruned when no request of the incarnation may be in progress
  RefuseOld,          \* messages older than MsgDays are refused
  TtlLong,            \* an unlike's item outlives each message that it refuses
  TtlUncounted,       \* an item for which the count still has 1 too much has no ttl
  BothSides,          \* a change of kind takes 1 from the kind that was counted
  BaseKind,           \* the item keeps the kind that was counted, not only the fact that a kind was counted
  OneFlush,           \* all kinds of a window are added in one request
  StopFirst,          \* no process from before a restore writes to the restored table
  CountOpen,          \* the repair applies the likes again that a restore left open
  AddDifference       \* the repair adds the difference between each count and the likes by its own ledger

VARIABLES
  sent,     \* the number of actions of each user
  acked,    \* answered messages
  like,     \* the like item of each user
  count, d, x,     \* the count item: the count of each kind, flushed seq by incarnation, fences
  note,     \* incarnations whose clean end is noted
  applied,  \* flushes that happened: for the invariants
  cur, own, next, seqs, born,  \* incarnations: current, owner, next name, last seq, day
  ending,   \* incarnations that may note their end: they are not current, and their process is alive
  win, net, lates, crashes, day,
  saw,      \* ByNote = FALSE: what a pruning flush read
  copy,     \* the parts of the items that are copied
  restored, \* the first incarnation after the restore, 0 before it
  kept,     \* the messages that were unanswered at the restore
  walk,     \* the users whose likes the repair has not read yet
  lacks     \* the difference of each kind between the likes by the ledger and the count

items == <<like, count, d, x, note, applied>>
names == <<cur, own, next, seqs, born, ending>>
past  == <<copy, restored, kept, walk, lacks>>
vars  == <<sent, acked, items, names, win, net, lates, crashes, day, saw, past>>

Kinds == {1, 2}    \* like, love; 0 is none
None  == [f |-> <<0, 0>>, v |-> 0, st |-> 0, base |-> 0, day |-> 0]
I     == 1..Incs
St(v) == v % 3
Zero  == [k \in Kinds |-> 0]
One(k) == [j \in Kinds |-> IF j = k THEN 1 ELSE 0]
Plus(a, b) == [k \in Kinds |-> a[k] + b[k]]
Minus(a, b) == [k \in Kinds |-> a[k] - b[k]]
Tally(part) == [k \in Kinds |-> Cardinality({u \in U : part[u] = k})]
Max(a, b) == IF a > b THEN a ELSE b
Running(w) == win[w].pc \notin {"idle", "done", "lost", "dead"}
Aged(i) == born[i] < day

Init ==
  /\ sent \in [U -> 0..Versions] /\ acked = {}
  /\ like = [u \in U |-> None] /\ count = Zero
  /\ d = [i \in I |-> 0] /\ x = [i \in I |-> FALSE] /\ note = {} /\ applied = {}
  /\ cur = [a \in A |-> 0] /\ own = [i \in I |-> 0] /\ next = 1
  /\ seqs = [i \in I |-> 0] /\ born = [i \in I |-> 0] /\ ending = {}
  /\ win = [w \in W |-> [pc |-> "idle"]] /\ net = {} /\ lates = 0 /\ crashes = 0 /\ day = 0
  /\ saw = {} /\ copy = [p \in {} |-> 0] /\ restored = 0 /\ kept = {} /\ walk = {} /\ lacks = Zero

Messages == {m \in U \X (1..Versions) : m[2] <= sent[m[1]]}
Fresh == ~RefuseOld \/ day <= MsgDays      \* all messages are of day 0

\* ------------------------------------------------------------- the window
\* The state leaves out the values that a window forgets after an action or at its end: so there are
\* fewer states.
Blank == [m |-> <<>>, old |-> None, new |-> None, ld |-> 0, lx |-> FALSE, noted |-> FALSE, doubt |-> FALSE]
Set(w, r) == win' = [win EXCEPT ![w] = r]
End(r, pc) == [pc |-> pc, my |-> r.my]
Go(w, pc) == Set(w, IF pc \in {"done", "lost"} THEN End(win[w], pc) ELSE [win[w] EXCEPT !.pc = pc])
\* The next action of the window, or its flush.
Onward(r) ==
  [r EXCEPT !.pc = IF r.todo # {} THEN "look" ELSE IF r.stamped /\ (EmptyFlush \/ r.delta # Zero) THEN "flush" ELSE "ack",
            !.one = Blank]
Past(r) == Onward([r EXCEPT !.todo = @ \ {r.one.m}])

\* Whether a window of an aggregator may start, and its start with some messages.
Ready(w, a) ==
  /\ win[w].pc = "idle" /\ Fresh /\ \A o \in W : o < w => win[o].pc # "idle"
  /\ Serial => ~ \E o \in W : Running(o) /\ win[o].a = a
StartWith(w, a, ms) ==
  /\ LET i == IF cur[a] = 0 THEN next ELSE cur[a]
         s == seqs[i] + 1 IN
     /\ i <= Incs
     /\ IF cur[a] = 0 THEN /\ cur' = [cur EXCEPT ![a] = i] /\ own' = [own EXCEPT ![i] = a]
                           /\ next' = next + 1 /\ born' = [born EXCEPT ![i] = day]
        ELSE UNCHANGED <<cur, own, next, born>>
     /\ seqs' = [seqs EXCEPT ![i] = s]
     /\ Set(w, [pc |-> "look", a |-> a, my |-> <<i, s>>, ms |-> ms,
                todo |-> {m \in ms : \A o \in ms : o[1] = m[1] => o[2] <= m[2]},
                one |-> Blank, delta |-> Zero, stamped |-> FALSE])
  /\ UNCHANGED <<sent, acked, items, ending, net, lates, crashes, day, saw>>
Start(w, a) ==
  /\ Ready(w, a)
  /\ \E ms \in SUBSET (Messages \ acked) :
     ms # {} /\ Cardinality(ms) <= Batch /\ StartWith(w, a, ms)

\* One action of the window reads the like, by a put that fails or by a get.
From(l) == IF ~BothSides /\ l.st # 0 THEN 0 ELSE l.base
Stamped(r, l) == Past([r EXCEPT !.stamped = TRUE, !.delta = Plus(@, Minus(One(l.st), One(From(l))))])
Chosen(r, counted) ==
  LET m == r.one.m old == r.one.old st == St(m[2]) newer == old.v >= m[2]
      to(s, v, b) == [r EXCEPT !.pc = "put", !.one = [Blank EXCEPT !.m = m, !.old = old,
                        !.new = [f |-> r.my, v |-> v, st |-> s, base |-> IF BaseKind \/ b = 0 THEN b ELSE 1, day |-> day]]] IN
  IF counted THEN IF newer THEN Past(r) ELSE to(st, m[2], old.st)
  ELSE IF newer THEN to(old.st, old.v, old.base) ELSE to(st, m[2], old.base)

Look(w) ==
  LET r == win[w] IN
  /\ r.pc = "look"
  /\ \E m \in r.todo : LET l == like[m[1]] q == [r EXCEPT !.one = [Blank EXCEPT !.m = m, !.old = l]] IN
       CASE l = None -> Set(w, [q EXCEPT !.pc = "put",
                                  !.one.new = [f |-> r.my, v |-> m[2], st |-> St(m[2]), base |-> 0, day |-> day]])
         [] l.f = r.my -> Set(w, Stamped(q, l))
         [] l.f[1] = r.my[1] /\ l.f # r.my -> Set(w, Chosen(q, TRUE))
         [] OTHER -> Set(w, [q EXCEPT !.pc = "ledger", !.one.noted = ~NoteLast /\ l.f[1] \in note])
  /\ UNCHANGED <<sent, acked, items, names, net, lates, crashes, day, saw>>

Ledger(w) ==
  /\ win[w].pc = "ledger"
  /\ LET g == win[w].one.old.f[1] IN Set(w, [win[w] EXCEPT !.pc = "note", !.one.ld = d[g], !.one.lx = x[g]])
  /\ UNCHANGED <<sent, acked, items, names, net, lates, crashes, day, saw>>

\* The state of a flush, from a ledger entry, a fence and the end of the incarnation.
Judge(g, ld, lx, ended) ==
  IF ld >= g[2] THEN "counted"
  ELSE IF NoteFirst /\ ByNote /\ ended THEN "counted"
  ELSE IF lx THEN "never"
  ELSE IF ld = 0 /\ ended THEN "counted" ELSE "open"
Ended(i) == IF ByNote THEN i \in note ELSE Aged(i)

ReadNote(w) ==
  LET r == win[w] g == r.one.old.f
      ended == IF NoteLast \/ ~ByNote THEN Ended(g[1]) ELSE r.one.noted
      j == Judge(g, r.one.ld, r.one.lx, ended) IN
  /\ r.pc = "note"
  /\ \/ j # "open" /\ Set(w, Chosen(r, j = "counted"))
     \/ j = "open" /\ ~FenceFirst /\ Set(w, Chosen(r, FALSE))
     \/ j = "open" /\ FenceFirst /\ Go(w, "fence")
     \/ j = "open" /\ Set(w, Past([r EXCEPT !.ms = @ \ {r.one.m}]))  \* left for later
  /\ UNCHANGED <<sent, acked, items, names, net, lates, crashes, day, saw>>

\* A request may be answered; or take effect without an answer; or take effect late.
Late == lates < Lates /\ lates' = lates + 1

Fence(w) ==
  LET r == win[w] g == r.one.old.f holds == d[g[1]] < g[2] IN
  /\ r.pc = "fence"
  /\ \/ /\ x' = IF holds THEN [x EXCEPT ![g[1]] = TRUE] ELSE x
        /\ Set(w, [r EXCEPT !.pc = "note", !.one.ld = d[g[1]], !.one.lx = holds \/ x[g[1]]])
        /\ UNCHANGED <<net, lates>>
     \/ /\ Late /\ net' = net \cup {[k |-> "fence", f |-> g]} /\ UNCHANGED <<x, win>>
  /\ UNCHANGED <<sent, acked, like, count, d, note, applied, names, crashes, day, saw>>

\* The condition of a put: there is no item, or the item has the stamp and version that were read.
Same(l, old) == IF old = None THEN l = None
                ELSE IF StampUnchanged THEN l.f = old.f /\ l.v = old.v ELSE l # None

Put(w) ==
  LET r == win[w] o == r.one u == o.m[1] holds == Same(like[u], o.old)
      done == like' = IF holds THEN [like EXCEPT ![u] = o.new] ELSE like
      again == Set(w, [r EXCEPT !.one.doubt = TRUE]) IN
  /\ r.pc = "put" /\ Fresh
  /\ \/ /\ done /\ UNCHANGED <<net, lates>>
        /\ Set(w, IF holds THEN Stamped(r, o.new) ELSE [r EXCEPT !.pc = "look", !.one = Blank])
     \/ done /\ Late /\ again /\ UNCHANGED net
     \/ Late /\ net' = net \cup {[k |-> "put", u |-> u, old |-> o.old, new |-> o.new]} /\ again /\ UNCHANGED like
     \/ o.doubt /\ ~KnownBeforeFlush /\ Set(w, Past([r EXCEPT !.stamped = TRUE])) /\ UNCHANGED <<like, net, lates>>
     \* refused for lack of capacity: the message is left for later, and the window continues
     \* without it
     \/ (LeaveUndone => ~o.doubt) /\ Set(w, Past([r EXCEPT !.ms = @ \ {o.m}])) /\ UNCHANGED <<like, net, lates>>
     \* refused as invalid: the message becomes a dead letter
     \/ o.doubt /\ ~RefusalUndecided /\ Set(w, Past([r EXCEPT !.ms = @ \ {o.m}])) /\ UNCHANGED <<like, net, lates>>
  /\ UNCHANGED <<sent, acked, count, d, x, note, applied, names, crashes, day, saw>>

FlushHolds(f) == d[f[1]] < f[2] /\ ~x[f[1]]
FlushNow(f, delta) ==
  /\ count' = Plus(count, delta) /\ d' = [d EXCEPT ![f[1]] = Max(@, f[2])] /\ applied' = applied \cup {f}
Nothing == UNCHANGED <<count, d, applied>>

Retire(w) == IF EndAfterLost /\ cur[win[w].a] = win[w].my[1]
             THEN /\ cur' = [cur EXCEPT ![win[w].a] = 0] /\ ending' = ending \cup {win[w].my[1]}
             ELSE UNCHANGED <<cur, ending>>

Flush(w) ==
  LET r == win[w] f == r.my holds == FlushHolds(f) \/ (~FlushOnce /\ r.one.doubt) IN
  /\ r.pc = "flush"
  /\ \/ /\ holds /\ OneFlush /\ FlushNow(f, r.delta) /\ Go(w, "ack") /\ UNCHANGED <<net, lates, cur, ending>>
     \/ /\ holds /\ ~OneFlush /\ FlushNow(f, [r.delta EXCEPT ![2] = 0]) /\ Go(w, "rest") /\ UNCHANGED <<net, lates, cur, ending>>
     \/ /\ ~holds /\ d[f[1]] >= f[2] /\ Nothing /\ Go(w, "ack") /\ UNCHANGED <<net, lates, cur, ending>>
     \/ /\ ~holds /\ d[f[1]] < f[2] /\ Nothing /\ Go(w, "lost") /\ Retire(w) /\ UNCHANGED <<net, lates>>
     \/ /\ holds /\ Late /\ FlushNow(f, r.delta) /\ Set(w, [r EXCEPT !.one.doubt = TRUE]) /\ UNCHANGED <<net, cur, ending>>
     \/ /\ Late /\ net' = net \cup {[k |-> "flush", f |-> f, delta |-> r.delta]} /\ Nothing
        /\ Set(w, [r EXCEPT !.one.doubt = TRUE]) /\ UNCHANGED <<cur, ending>>
  /\ UNCHANGED <<sent, acked, like, x, note, own, next, seqs, born, crashes, day, saw>>

Rest(w) ==
  /\ win[w].pc = "rest" /\ count' = [count EXCEPT ![2] = @ + win[w].delta[2]] /\ Go(w, "ack")
  /\ UNCHANGED <<sent, acked, like, d, x, note, applied, names, net, lates, crashes, day, saw>>

Ack(w) ==
  /\ win[w].pc = "ack" /\ acked' = acked \cup win[w].ms /\ Go(w, "done")
  /\ UNCHANGED <<sent, items, names, net, lates, crashes, day, saw>>
EarlyAck(w) ==
  /\ ~AckAfterFlush /\ win[w].pc = "flush" /\ acked' = acked \cup win[w].ms
  /\ UNCHANGED <<sent, items, names, win, net, lates, crashes, day, saw>>

\* The window gives up: the table fails, or the time for the stop is over.
GiveUp(w) ==
  /\ Running(w) /\ crashes < Crashes /\ crashes' = crashes + 1
  /\ Go(w, "lost") /\ Retire(w)
  /\ UNCHANGED <<sent, acked, items, own, next, seqs, born, net, lates, day, saw>>

\* ---------------------------------------------------------- the aggregator
Crash(a) ==
  /\ crashes < Crashes /\ crashes' = crashes + 1 /\ \E i \in I : own[i] = a
  /\ win' = [w \in W |-> IF Running(w) /\ win[w].a = a THEN End(win[w], "dead") ELSE win[w]]
  /\ cur' = [cur EXCEPT ![a] = 0] /\ ending' = {i \in ending : own[i] # a}
  /\ UNCHANGED <<sent, acked, items, own, next, seqs, born, net, lates, day, saw>>

\* A new incarnation, each day and at each stop.
Rotate(a) ==
  /\ cur[a] # 0 /\ next <= Incs + 1 /\ ending' = ending \cup {cur[a]} /\ cur' = [cur EXCEPT ![a] = 0]
  /\ UNCHANGED <<sent, acked, items, own, next, seqs, born, win, net, lates, crashes, day, saw>>

Note(i) ==
  /\ ByNote /\ i \in ending
  /\ NoteClean => \A w \in W : win[w].pc # "idle" => (win[w].my[1] = i => win[w].pc = "done")
  /\ note' = note \cup {i} /\ ending' = ending \ {i}
  /\ UNCHANGED <<sent, acked, like, count, d, x, applied, cur, own, next, seqs, born, win, net, lates, crashes, day, saw>>

\* ------------------------------------------------------------------- time
Drop(i) == /\ d' = [d EXCEPT ![i] = 0]
           /\ UNCHANGED <<sent, acked, like, count, note, applied, names, win, net, lates, crashes, day>>
Prune(i) ==
  \/ /\ ByNote /\ i \in note /\ (d[i] > 0 \/ x[i])
     /\ PruneLate => ~ \E n \in net : n.k = "flush" /\ n.f[1] = i
     /\ x' = [x EXCEPT ![i] = FALSE] /\ Drop(i) /\ UNCHANGED saw
  \/ \* by age, in two requests: it reads an old entry without a fence, and drops the entry
     /\ ~ByNote /\ Aged(i) /\ i \notin saw /\ d[i] > 0 /\ ~x[i] /\ saw' = saw \cup {i}
     /\ UNCHANGED <<sent, acked, items, names, win, net, lates, crashes, day>>
  \/ /\ ~ByNote /\ i \in saw /\ d[i] > 0 /\ Drop(i) /\ UNCHANGED <<x, saw>>

Land(n) ==
  /\ net' = net \ {n}
  /\ \/ UNCHANGED <<like, count, d, x, applied>>     \* the request never takes effect
     \/ n.k = "put" /\ Same(like[n.u], n.old) /\ like' = [like EXCEPT ![n.u] = n.new] /\ UNCHANGED <<count, d, x, applied>>
     \/ n.k = "flush" /\ FlushHolds(n.f) /\ FlushNow(n.f, n.delta) /\ UNCHANGED <<like, x>>
     \/ n.k = "fence" /\ d[n.f[1]] < n.f[2] /\ x' = [x EXCEPT ![n.f[1]] = TRUE] /\ UNCHANGED <<like, count, d, applied>>
  /\ UNCHANGED <<sent, acked, note, names, win, lates, crashes, day, saw>>

\* A month passes. No request is in progress for so long. If entries are pruned by age, no window
\* runs for so long, either.
Midnight ==
  /\ day < Days /\ day' = day + 1 /\ net = {}
  /\ IF ByNote THEN UNCHANGED <<win, cur>>
     ELSE /\ win' = [w \in W |-> IF Running(w) THEN End(win[w], "dead") ELSE win[w]]
          /\ cur' = [a \in A |-> 0]
  /\ UNCHANGED <<sent, acked, items, own, next, seqs, born, ending, net, lates, crashes, saw>>

Expire(u) ==
  LET l == like[u] IN
  /\ l # None /\ l.st = 0 /\ (TtlUncounted => l.base = 0)
  /\ day > IF TtlLong THEN l.day + MsgDays ELSE l.day
  /\ like' = [like EXCEPT ![u] = None]
  /\ UNCHANGED <<sent, acked, count, d, x, note, applied, names, win, net, lates, crashes, day, saw>>

\* ---------------------------------------------------------------- a restore
\* A window that meets a like now, or on any later day, concludes the truth from the items.
Judged(u) == LET g == like[u].f IN Judge(g, d[g[1]], x[g[1]], Ended(g[1]))

\* A part of the items is copied: the likes, the count with its ledger, or the notes.
Parts == [likes |-> like, count |-> <<count, d, x>>, notes |-> note]
Copy(p) ==
  /\ restored < Restores /\ p \cap DOMAIN copy = {}
  /\ copy' = [q \in DOMAIN copy \cup p |-> IF q \in p THEN Parts[q] ELSE copy[q]]
  /\ UNCHANGED <<sent, acked, items, names, win, net, lates, crashes, day, saw, restored, kept, walk, lacks>>

\* The table is set back to its copy. Answered messages stay answered, and the other messages stay
\* in the queue. A flush counts as applied if the items of the copy prove it.
Restore ==
  /\ restored = 0 /\ DOMAIN copy = DOMAIN Parts
  /\ like' = copy.likes /\ count' = copy.count[1] /\ d' = copy.count[2] /\ x' = copy.count[3] /\ note' = copy.notes
  /\ LET proved == {u \in U : like'[u] # None /\ Judged(u)' = "counted"}
         part == [u \in U |-> IF u \in proved THEN like'[u].st ELSE like'[u].base] IN
     applied' = {like'[u].f : u \in proved} /\ lacks' = Minus(Tally(part), count')
  /\ restored' = next /\ kept' = Messages \ acked /\ walk' = U /\ copy' = [p \in {} |-> 0]
  /\ IF StopFirst THEN /\ win' = [w \in W |-> IF Running(w) THEN End(win[w], "dead") ELSE win[w]]
                       /\ cur' = [a \in A |-> 0] /\ ending' = {} /\ net' = {}
     ELSE UNCHANGED <<win, cur, ending, net>>
  /\ UNCHANGED <<sent, acked, own, next, seqs, born, lates, crashes, day, saw>>

\* The repair runs beside traffic. If a like has a stamp of an incarnation from before the restore,
\* and is not counted, its action is applied again, even if the stamp is fenced: a window fences
\* and stamps the like again.
Walk(u) ==
  /\ u \in walk /\ walk' = walk \ {u}
  /\ acked' = IF CountOpen /\ like[u] # None /\ like[u].f[1] < restored /\ Judged(u) # "counted"
              THEN acked \ {<<u, like[u].v>>} ELSE acked
  /\ UNCHANGED <<sent, items, names, win, net, lates, crashes, day, saw, copy, restored, kept, lacks>>
\* The likes are read between two equal reads of the ledger, and the differences are added once.
Mend ==
  /\ AddDifference /\ lacks # Zero
  /\ count' = Tally([u \in U |-> IF like[u] # None /\ Judged(u) = "counted" THEN like[u].st ELSE like[u].base])
  /\ lacks' = Zero
  /\ UNCHANGED <<sent, acked, like, d, x, note, applied, names, win, net, lates, crashes, day, saw, copy, restored, kept, walk>>

Step == \/ \E w \in W : (\E a \in A : Start(w, a)) \/ Look(w) \/ Ledger(w) \/ ReadNote(w) \/ Fence(w)
                        \/ Put(w) \/ Flush(w) \/ Rest(w) \/ Ack(w) \/ EarlyAck(w) \/ GiveUp(w)
        \/ \E a \in A : Crash(a) \/ Rotate(a)
        \/ \E i \in I : Note(i) \/ Prune(i)
        \/ \E n \in net : Land(n)
        \/ Midnight
        \/ \E u \in U : Expire(u)
Next == \/ Step /\ UNCHANGED past
        \/ \E p \in SUBSET DOMAIN Parts : p # {} /\ (Torn \/ p = DOMAIN Parts) /\ Copy(p)
        \/ Restore \/ Mend \/ \E u \in U : Walk(u)
Spec == Init /\ [][Next]_vars
Symm == Permutations(U) \cup Permutations(A)

\* ------------------------------------------------------------- invariants
\* The claim of the protocol: a like is counted exactly if the flush of its stamp happened.
Part(u) == IF like[u] = None THEN 0 ELSE IF like[u].f \in applied THEN like[u].st ELSE like[u].base
Exact == (\A w \in W : win[w].pc # "rest") => Plus(count, lacks) = Tally([u \in U |-> Part(u)])

Counted == \A u \in U : like[u] # None /\ Judged(u) = "counted" => like[u].f \in applied
Never   == \A u \in U : like[u] # None /\ Judged(u) = "never" => like[u].f \notin applied

\* I3 at quiescence: a kind counts the users whose latest action has the kind, or had it in the
\* restored table and by the messages that were kept.
Latest == [u \in U |-> IF restored = 0 THEN St(sent[u]) ELSE like[u].st]
Quiet == net = {} /\ Messages \subseteq acked /\ \A w \in W : ~Running(w)
Repaired == walk = {} /\ (AddDifference => lacks = Zero)
Settled == Quiet /\ Repaired => count = Tally(Latest) /\ \A m \in kept : like[m[1]].v >= m[2]
=============================================================================
