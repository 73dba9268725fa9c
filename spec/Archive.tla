------------------------------- MODULE Archive -------------------------------
(* The terms of an archive: docs/decisions/0054. An old writer and candidates  *)
(* for the next term share a store of objects. A request to the store may      *)
(* arrive late, twice, or after its sender died, and its answer may be lost.   *)
(* Each rule is a constant: TRUE is the protocol, and FALSE is the protocol    *)
(* without the rule. Without any one of the rules, an invariant has to fail.   *)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
  Old, C,        \* the writer of term 1, and the other processes
  Terms, Most,   \* the highest term, the maximum number of segments of a term
  Crashes,       \* number of deaths of a process, which starts again as a candidate
  Losses,        \* number of answers that are lost, and of requests that arrive twice or late
  \* Rules
  Seal,          \* a candidate puts a seal behind the last segment of the newest term
  SealFirst,     \* a candidate writes the seal before it creates the next term
  Condition,     \* an object is created only under a name without an object
  Behind,        \* if a segment takes the place of a seal, the seal is put behind that segment
  AnySeal,       \* a candidate that finds a seal of another candidate continues with that seal
  Stop,          \* a writer whose place is taken stops
  Own            \* an existing object with the same content counts as created

VARIABLES
  objects,     \* the objects: <<term, number>> -> content. Number 0 is the term itself
  net,         \* requests on the way to the store
  p,           \* the processes
  crashes, losses,
  overwritten  \* whether an object was replaced by another object

vars == <<objects, net, p, crashes, losses, overwritten>>
Symm == Permutations(C)

P       == {Old} \union C
Nothing == [kind |-> "nothing", by |-> Old, parent |-> 0]
Idle    == [at |-> <<0, 0>>, what |-> Nothing]
Names   == (1..Terms) \X (0..Most + 1)

Init ==
  /\ objects = [x \in Names |-> IF x = <<1, 0>> THEN [kind |-> "term", by |-> Old, parent |-> 0] ELSE Nothing]
  /\ net = {} /\ crashes = 0 /\ losses = 0 /\ overwritten = FALSE
  /\ p = [x \in P |-> [pc |-> IF x = Old THEN "write" ELSE "find", t |-> 1, n |-> 1, parent |-> 0, out |-> Idle]]

There(t, n) == objects[<<t, n>>] # Nothing
Kind(t, n)  == objects[<<t, n>>].kind
Newest      == CHOOSE t \in 1..Terms : There(t, 0) /\ \A u \in 1..Terms : There(u, 0) => u <= t
Lose        == losses < Losses /\ losses' = losses + 1

\* -------------------------------------------------------- a candidate looks
FindTerm(x) ==
  /\ p[x].pc = "find" /\ Newest < Terms
  /\ p' = [p EXCEPT ![x].pc = "list", ![x].t = Newest]
  /\ UNCHANGED <<objects, net, crashes, losses, overwritten>>

\* The last object of the term decides. Later objects may appear while the candidate works.
FindLast(x) ==
  LET t    == p[x].t
      last == CHOOSE n \in 0..Most + 1 : There(t, n) /\ (n = Most + 1 \/ ~There(t, n + 1))
      sealed == Kind(t, last) = "seal"
      end  == IF sealed THEN last - 1 ELSE last
  IN
  /\ p[x].pc = "list"
  /\ p' = [p EXCEPT ![x].parent = end, ![x].n = end + 1,
                    ![x].pc = IF sealed \/ ~Seal \/ ~SealFirst THEN "term" ELSE "seal"]
  /\ UNCHANGED <<objects, net, crashes, losses, overwritten>>

\* ------------------------------------------------- requests and their effect
Wish(x) ==
  LET q == p[x] IN
  CASE q.pc = "write" /\ q.n <= Most     -> [at |-> <<q.t, q.n>>, what |-> [kind |-> "segment", by |-> x, parent |-> 0]]
    [] q.pc = "seal"  /\ q.n <= Most + 1 -> [at |-> <<q.t, q.n>>, what |-> [kind |-> "seal", by |-> x, parent |-> 0]]
    [] q.pc = "term"                     -> [at |-> <<q.t + 1, 0>>, what |-> [kind |-> "term", by |-> x, parent |-> q.parent]]
    [] OTHER                             -> Idle

Send(x) ==
  /\ p[x].out = Idle /\ Wish(x) # Idle
  /\ p' = [p EXCEPT ![x].out = Wish(x)]
  /\ net' = net \union {Wish(x)}
  /\ UNCHANGED <<objects, crashes, losses, overwritten>>

\* The process stops waiting, and sends the request again. The first request may still arrive.
GiveUp(x) ==
  /\ p[x].out # Idle /\ Lose
  /\ p' = [p EXCEPT ![x].out = Idle]
  /\ UNCHANGED <<objects, net, crashes, overwritten>>

\* The state of a process after the answer: the object was created, or existed already with this
\* content.
Created(q, x) ==
  CASE q.pc = "write" -> [q EXCEPT !.n = @ + 1, !.out = Idle]
    [] q.pc = "seal"  -> [q EXCEPT !.pc = IF SealFirst THEN "term" ELSE "write", !.out = Idle,
                                   !.t = IF SealFirst THEN @ ELSE @ + 1, !.n = IF SealFirst THEN @ ELSE 1]
    [] q.pc = "term"  -> IF Seal /\ ~SealFirst
                         THEN [q EXCEPT !.pc = "seal", !.out = Idle]
                         ELSE [q EXCEPT !.pc = "write", !.t = @ + 1, !.n = 1, !.out = Idle]

Taken(q, x, found) ==
  CASE q.pc = "write" -> IF Stop THEN [q EXCEPT !.pc = "fenced", !.out = Idle] ELSE [q EXCEPT !.n = @ + 1, !.out = Idle]
    [] q.pc = "seal" /\ found.kind = "segment" ->
         IF Behind THEN [q EXCEPT !.n = @ + 1, !.parent = q.n, !.out = Idle] ELSE Created(q, x)
    [] q.pc = "seal"  -> IF AnySeal THEN Created(q, x) ELSE [q EXCEPT !.n = @ + 1, !.parent = q.n, !.out = Idle]
    [] q.pc = "term"  -> [q EXCEPT !.pc = "off", !.out = Idle]

Answer(x, r, found) ==
  IF found = Nothing \/ ~Condition \/ (Own /\ found = r.what) THEN Created(p[x], x) ELSE Taken(p[x], x, found)

Arrive(r) ==
  LET found == objects[r.at]
      x     == r.what.by
  IN
  /\ r \in net
  /\ IF found = Nothing \/ ~Condition THEN objects' = [objects EXCEPT ![r.at] = r.what] ELSE objects' = objects
  /\ overwritten' = (overwritten \/ (~Condition /\ found # Nothing /\ found # r.what))
  /\ \/ net' = net \ {r} /\ losses' = losses
     \/ net' = net /\ Lose                                     \* the request arrives again
  /\ p' = IF p[x].out = r THEN [p EXCEPT ![x] = Answer(x, r, found)] ELSE p
  /\ UNCHANGED crashes

\* The request takes effect, and its answer is lost. The process sends the request again.
ArriveUnanswered(r) ==
  LET found == objects[r.at]
      x     == r.what.by
  IN
  /\ r \in net /\ p[x].out = r /\ Lose
  /\ IF found = Nothing \/ ~Condition THEN objects' = [objects EXCEPT ![r.at] = r.what] ELSE objects' = objects
  /\ overwritten' = (overwritten \/ (~Condition /\ found # Nothing /\ found # r.what))
  /\ net' = net \ {r}
  /\ p' = [p EXCEPT ![x].out = Idle]
  /\ UNCHANGED crashes

\* A process dies at any point and starts again. A process that was fenced or refused starts again,
\* too.
Die(x) ==
  /\ crashes < Crashes /\ crashes' = crashes + 1
  /\ p[x].pc # "find"
  /\ p' = [p EXCEPT ![x] = [pc |-> "find", t |-> 1, n |-> 1, parent |-> 0, out |-> Idle]]
  /\ UNCHANGED <<objects, net, losses, overwritten>>

Next ==
  \/ \E x \in P : FindTerm(x) \/ FindLast(x) \/ Send(x) \/ GiveUp(x) \/ Die(x)
  \/ \E r \in net : Arrive(r) \/ ArriveUnanswered(r)

Spec == Init /\ [][Next]_vars

\* ------------------------------------------------------------ the invariants
Segments(t) == {n \in 1..Most + 1 : Kind(t, n) = "segment"}

\* No object is replaced.
Kept == ~overwritten

\* No segment lies behind the place at which the next term continues.
Whole == \A t \in 1..Terms - 1 : There(t + 1, 0) => \A n \in Segments(t) : n <= objects[<<t + 1, 0>>].parent

\* The segments of a term have no gap, up to the end of the term.
Gapless == \A t \in 1..Terms : /\ \A n \in Segments(t) : \A m \in 1..n : m \in Segments(t)
                               /\ t < Terms /\ There(t + 1, 0) => \A m \in 1..objects[<<t + 1, 0>>].parent : m \in Segments(t)

\* Only the process that created a term writes its segments.
Owner == \A t \in 1..Terms : \A n \in Segments(t) : There(t, 0) /\ objects[<<t, n>>].by = objects[<<t, 0>>].by

\* A writer stops only because of a seal.
Fenced == \A x \in P : p[x].pc = "fenced" => \E n \in 1..Most + 1 : Kind(p[x].t, n) = "seal"

\* If the answer to a process was that it holds a term, the process holds the term.
Holder == \A x \in P : p[x].pc \in {"write", "fenced"} => objects[<<p[x].t, 0>>].by = x
=============================================================================
