-------------------------------- MODULE Pair --------------------------------
(* Two machines without a register. The primary sends its writes to the       *)
(* standby. An operator promotes the standby, switches the roles of both       *)
(* machines, or says that the standby is gone. A step is one message, one sync *)
(* or one word of the operator. Messages may arrive late or never.             *)
(* Each rule is a constant: TRUE is the protocol, and FALSE is the protocol    *)
(* without the rule. Without any one of the rules, an invariant has to fail.   *)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS
  a, b,            \* machines
  W,               \* writes of clients
  Crashes, Losses, Promotions, Switches, Sessions, MaxTime,
  \* Rules
  WaitForBoth,     \* a paired primary answers a write when both machines have it
  AckAfterSync,    \* the standby acknowledges what its disk has
  SyncBeforeAnswer, \* the primary answers what its own disk has
  StayPaired,      \* without its standby, a paired primary does not answer alone
  OnlyPaired,      \* a standby is promoted only if its primary has said that the two are paired
  PairFirst,       \* the primary stores that the two are paired before it says so to the standby
  Identity,        \* a paired primary takes only the disk with which it was paired
  JoinFirst,       \* before the two are paired, answers wait for the standby again
  CatchUp,         \* before the two are paired, the standby has all earlier writes
  Rewind,          \* at the begin of a session, a standby drops what its primary does not have
  Refuse,          \* a machine that is not a standby, or is being promoted, acknowledges and promises nothing
  LeaseReads,      \* a paired primary answers reads within a promise of the standby
  LeaseFromAsking, \* a promise counts from the moment at which the primary asked for it
  WaitGrant,       \* a promoted standby waits for the end of its last promise
  WaitStart,       \* a standby that has started waits as if it had promised at its start
  StopFirst,       \* a primary stops before it hands over to the standby
  TrueUnpair       \* the operator unpairs a primary only if the disk of its standby is gone

VARIABLES up, run, role, mode, term, peer, id, stream, disk, sess, net, acked, lease, granted, joining, joinLen,
          answered, excused, now, budget
vars == <<up, run, role, mode, term, peer, id, stream, disk, sess, net, acked, lease, granted, joining, joinLen,
          answered, excused, now, budget>>

N == {a, b}
Symm == Permutations(W)
Other(n) == IF n = a THEN b ELSE a
Range(s) == {s[i] : i \in 1..Len(s)}
Min(x, y) == IF x < y THEN x ELSE y
Max(x, y) == IF x > y THEN x ELSE y
Common(s, t) == LET k == CHOOSE i \in 0..Min(Len(s), Len(t)) :
                      /\ SubSeq(s, 1, i) = SubSeq(t, 1, i)
                      /\ (i < Min(Len(s), Len(t)) => s[i + 1] # t[i + 1])
                IN SubSeq(s, 1, k)
Set(f, n, x) == [f EXCEPT ![n] = x]
NoNet == [k |-> 0, sid |-> 0, data |-> <<>>, ack |-> 0, beat |-> -1, grant |-> -1, paired |-> FALSE, take |-> FALSE]

Init ==
  /\ up = [n \in N |-> TRUE] /\ run = (a :> "primary" @@ b :> "standby") /\ role = run
  /\ mode = (a :> "alone" @@ b :> "following") /\ term = [n \in N |-> 1] /\ peer = [n \in N |-> 0] /\ id = [n \in N |-> 1]
  /\ stream = [n \in N |-> <<>>] /\ disk = [n \in N |-> <<>>] /\ sess = [n \in N |-> 0] /\ net = NoNet
  /\ acked = [n \in N |-> 0] /\ lease = [n \in N |-> 0] /\ granted = [n \in N |-> -1]
  /\ joining = [n \in N |-> FALSE] /\ joinLen = 0 /\ answered = {} /\ excused = {} /\ now = 0
  /\ budget = [crash |-> Crashes, lose |-> Losses, promote |-> Promotions, switch |-> Switches, sess |-> Sessions]

Linked(n) == up[n] /\ net.k > 0 /\ sess[n] = net.k
Primary(n) == up[n] /\ run[n] = "primary"

\* ------------------------------------------------------------- writes
Used == UNION {Range(stream[n]) \union Range(disk[n]) : n \in N} \union Range(net.data) \union answered
Write(n) ==
  /\ Primary(n) /\ \E w \in W \ Used : stream' = Set(stream, n, Append(stream[n], w))
  /\ UNCHANGED <<up, run, role, mode, term, peer, id, disk, sess, net, acked, lease, granted, joining, joinLen, answered, excused, now, budget>>
Sync(n) ==
  /\ up[n] /\ disk[n] # stream[n] /\ disk' = Set(disk, n, stream[n])
  /\ UNCHANGED <<up, run, role, mode, term, peer, id, stream, sess, net, acked, lease, granted, joining, joinLen, answered, excused, now, budget>>
Send(n) ==
  /\ Primary(n) /\ Linked(n) /\ net.data # stream[n] /\ net' = [net EXCEPT !.data = stream[n]]
  /\ UNCHANGED <<up, run, role, mode, term, peer, id, stream, disk, sess, acked, lease, granted, joining, joinLen, answered, excused, now, budget>>
Receive(n) ==
  /\ Linked(n) /\ run[n] = "standby" /\ Len(net.data) > Len(stream[n])
  /\ stream' = Set(stream, n, SubSeq(net.data, 1, Len(stream[n]) + 1))
  /\ UNCHANGED <<up, run, role, mode, term, peer, id, disk, sess, net, acked, lease, granted, joining, joinLen, answered, excused, now, budget>>
Ack(n) ==
  LET have == IF AckAfterSync THEN Len(disk[n]) ELSE Len(stream[n]) IN
  /\ Linked(n) /\ (run[n] = "standby" \/ (net.sid = id[n] /\ ~Refuse)) /\ net.ack < have
  /\ net' = [net EXCEPT !.ack = have]
  /\ UNCHANGED <<up, run, role, mode, term, peer, id, stream, disk, sess, acked, lease, granted, joining, joinLen, answered, excused, now, budget>>
LearnAck(n) ==
  /\ Primary(n) /\ Linked(n) /\ acked[n] < net.ack /\ acked' = Set(acked, n, net.ack)
  /\ UNCHANGED <<up, run, role, mode, term, peer, id, stream, disk, sess, net, lease, granted, joining, joinLen, answered, excused, now, budget>>
Answer(n) ==
  LET have == IF SyncBeforeAnswer THEN disk[n] ELSE stream[n] IN
  /\ Primary(n)
  /\ \E i \in 1..Len(have) :
       /\ have[i] \notin answered
       /\ \/ (mode[n] = "alone" /\ (~joining[n] \/ ~JoinFirst))
          \/ acked[n] >= i
          \/ ~WaitForBoth
          \/ (~StayPaired /\ ~Linked(n))
       /\ answered' = answered \union {have[i]}
  /\ UNCHANGED <<up, run, role, mode, term, peer, id, stream, disk, sess, net, acked, lease, granted, joining, joinLen, excused, now, budget>>

\* ------------------------------------------------------------- promises
Beat(n) ==
  /\ Primary(n) /\ Linked(n) /\ net.beat < now /\ net' = [net EXCEPT !.beat = now]
  /\ UNCHANGED <<up, run, role, mode, term, peer, id, stream, disk, sess, acked, lease, granted, joining, joinLen, answered, excused, now, budget>>
Grant(n) ==
  /\ Linked(n) /\ (run[n] = "standby" \/ (net.sid = id[n] /\ ~Refuse)) /\ net.grant < net.beat
  /\ granted' = Set(granted, n, now) /\ net' = [net EXCEPT !.grant = net.beat]
  /\ UNCHANGED <<up, run, role, mode, term, peer, id, stream, disk, sess, acked, lease, joining, joinLen, answered, excused, now, budget>>
LearnGrant(n) ==
  LET from == IF LeaseFromAsking THEN net.grant ELSE now IN
  /\ Primary(n) /\ Linked(n) /\ net.grant >= 0 /\ lease[n] < from + 1 /\ lease' = Set(lease, n, from + 1)
  /\ UNCHANGED <<up, run, role, mode, term, peer, id, stream, disk, sess, net, acked, granted, joining, joinLen, answered, excused, now, budget>>

\* ------------------------------------------------------------- a pair
\* A session: both agree on where they are. A standby of an older term begins with an empty disk.
Session(n) ==
  LET s == Other(n)
      base == IF term[s] < term[n] /\ mode[s] # "equal" THEN <<>>
              ELSE IF Rewind THEN Common(disk[s], stream[n]) ELSE disk[s] IN
  /\ up[n] /\ run[n] \in {"wait", "primary"} /\ up[s] /\ run[s] = "standby" /\ term[s] <= term[n] /\ budget.sess > 0
  /\ (mode[n] = "paired" /\ Identity) => peer[n] = id[s]
  /\ budget' = [budget EXCEPT !.sess = @ - 1]
  /\ sess' = [m \in N |-> Sessions - budget.sess + 1]
  /\ net' = [NoNet EXCEPT !.k = Sessions - budget.sess + 1, !.sid = id[s], !.data = stream[n]]
  /\ stream' = Set(stream, s, base) /\ disk' = Set(disk, s, base) /\ acked' = Set(acked, n, 0)
  /\ term' = Set(term, s, term[n]) /\ mode' = IF term[s] < term[n] THEN Set(mode, s, "following") ELSE mode
  /\ joining' = Set(joining, n, FALSE) /\ run' = Set(run, n, "primary")
  /\ UNCHANGED <<up, role, peer, id, lease, granted, joinLen, answered, excused, now>>
Join(n) ==
  /\ Primary(n) /\ Linked(n) /\ mode[n] = "alone" /\ ~joining[n]
  /\ joining' = Set(joining, n, TRUE) /\ joinLen' = Len(stream[n])
  /\ UNCHANGED <<up, run, role, mode, term, peer, id, stream, disk, sess, net, acked, lease, granted, answered, excused, now, budget>>
\* The session of a primary that is joining has ended. Only Linked is lost: messages under way stay.
Leave(n) ==
  /\ Primary(n) /\ Linked(n) /\ sess' = Set(sess, n, 0) /\ joining' = Set(joining, n, FALSE)
  /\ UNCHANGED <<up, run, role, mode, term, peer, id, stream, disk, net, acked, lease, granted, joinLen, answered, excused, now, budget>>
Pair(n) ==
  /\ Primary(n) /\ Linked(n) /\ joining[n] /\ (CatchUp => acked[n] >= joinLen) /\ (PairFirst \/ net.paired)
  /\ mode' = Set(mode, n, "paired") /\ peer' = Set(peer, n, IF Identity THEN net.sid ELSE id[Other(n)])
  /\ joining' = Set(joining, n, FALSE)
  /\ UNCHANGED <<up, run, role, term, id, stream, disk, sess, net, acked, lease, granted, joinLen, answered, excused, now, budget>>
Tell(n) ==
  /\ Primary(n) /\ Linked(n) /\ ~net.paired /\ (mode[n] = "paired" \/ (joining[n] /\ ~PairFirst /\ acked[n] >= joinLen))
  /\ net' = [net EXCEPT !.paired = TRUE]
  /\ UNCHANGED <<up, run, role, mode, term, peer, id, stream, disk, sess, acked, lease, granted, joining, joinLen, answered, excused, now, budget>>
Told(n) ==
  /\ Linked(n) /\ run[n] = "standby" /\ net.paired /\ mode[n] # "paired" /\ mode' = Set(mode, n, "paired")
  /\ UNCHANGED <<up, run, role, term, peer, id, stream, disk, sess, net, acked, lease, granted, joining, joinLen, answered, excused, now, budget>>

\* ------------------------------------------------------------- promotion
Promote(n) ==
  /\ up[n] /\ run[n] = "standby" /\ budget.promote > 0 /\ (OnlyPaired => mode[n] = "paired")
  /\ budget' = [budget EXCEPT !.promote = @ - 1] /\ run' = Set(run, n, "promoting")
  /\ UNCHANGED <<up, role, mode, term, peer, id, stream, disk, sess, net, acked, lease, granted, joining, joinLen, answered, excused, now>>
BePrimary(n) ==
  /\ run' = Set(run, n, "primary") /\ role' = Set(role, n, "primary") /\ mode' = Set(mode, n, "alone") /\ term' = Set(term, n, term[n] + 1)
  /\ sess' = IF Refuse THEN Set(sess, n, 0) ELSE sess
  /\ acked' = Set(acked, n, 0) /\ lease' = Set(lease, n, 0) /\ joining' = Set(joining, n, FALSE)
Serve(n) ==
  /\ up[n] /\ run[n] = "promoting" /\ (WaitGrant => now >= granted[n] + 1) /\ BePrimary(n)
  /\ UNCHANGED <<up, peer, id, stream, disk, net, granted, joinLen, answered, excused, now, budget>>
\* A switch. The old primary continues as the standby, from the equal end. Without StopFirst it still answers.
HandOver(n) ==
  /\ Primary(n) /\ Linked(n) /\ mode[n] = "paired" /\ net.paired /\ budget.switch > 0
  /\ disk[n] = stream[n] /\ acked[n] = Len(stream[n]) /\ ~net.take
  /\ budget' = [budget EXCEPT !.switch = @ - 1] /\ net' = [net EXCEPT !.take = TRUE]
  /\ IF StopFirst
     THEN /\ run' = Set(run, n, "standby") /\ role' = Set(role, n, "standby") /\ mode' = Set(mode, n, "equal")
          /\ sess' = Set(sess, n, 0) /\ lease' = Set(lease, n, 0) /\ acked' = Set(acked, n, 0) /\ granted' = Set(granted, n, now)
     ELSE UNCHANGED <<run, role, mode, sess, lease, acked, granted>>
  /\ UNCHANGED <<up, term, peer, id, stream, disk, joining, joinLen, answered, excused, now>>
TakeOver(n) ==
  /\ Linked(n) /\ run[n] = "standby" /\ net.take /\ BePrimary(n)
  /\ UNCHANGED <<up, peer, id, stream, disk, net, granted, joinLen, answered, excused, now, budget>>

\* ------------------------------------------------------------- failures
Down(n) == /\ up' = Set(up, n, FALSE) /\ run' = Set(run, n, "off") /\ sess' = Set(sess, n, 0)
           /\ lease' = Set(lease, n, 0) /\ acked' = Set(acked, n, 0) /\ joining' = Set(joining, n, FALSE)
Crash(n) ==
  /\ up[n] /\ budget.crash > 0 /\ budget' = [budget EXCEPT !.crash = @ - 1] /\ Down(n) /\ stream' = Set(stream, n, disk[n])
  /\ UNCHANGED <<role, mode, term, peer, id, disk, net, granted, joinLen, answered, excused, now>>
\* The machine is lost; another with the same address and an empty disk may take its place. What a primary answered
\* alone is lost with it.
Lose(n) ==
  /\ budget.lose > 0 /\ budget' = [budget EXCEPT !.lose = @ - 1] /\ Down(n)
  /\ excused' = IF role[n] = "primary" /\ mode[n] = "alone" THEN excused \union (answered \ Range(disk[Other(n)])) ELSE excused
  /\ stream' = Set(stream, n, <<>>) /\ disk' = Set(disk, n, <<>>) /\ id' = Set(id, n, id[n] + 1)
  /\ role' = Set(role, n, "standby") /\ mode' = Set(mode, n, "following") /\ term' = Set(term, n, 0) /\ peer' = Set(peer, n, 0)
  /\ UNCHANGED <<net, granted, joinLen, answered, now>>
Start(n) ==
  /\ ~up[n] /\ up' = Set(up, n, TRUE)
  /\ run' = Set(run, n, IF role[n] = "standby" THEN "standby" ELSE IF mode[n] = "paired" THEN "wait" ELSE "primary")
  /\ granted' = Set(granted, n, IF WaitStart THEN now ELSE -1)
  /\ UNCHANGED <<role, mode, term, peer, id, stream, disk, sess, net, acked, lease, joining, joinLen, answered, excused, now, budget>>
\* A primary that learns of a primary with a higher term begins again as its standby, with an empty disk.
Replaced(n) ==
  /\ up[n] /\ run[n] \in {"wait", "primary"} /\ Primary(Other(n)) /\ term[Other(n)] > term[n]
  /\ run' = Set(run, n, "standby") /\ role' = Set(role, n, "standby") /\ mode' = Set(mode, n, "following") /\ term' = Set(term, n, 0)
  /\ sess' = Set(sess, n, 0) /\ lease' = Set(lease, n, 0) /\ acked' = Set(acked, n, 0) /\ joining' = Set(joining, n, FALSE)
  /\ granted' = Set(granted, n, now)
  /\ UNCHANGED <<up, peer, id, stream, disk, net, joinLen, answered, excused, now, budget>>
Unpair(n) ==
  /\ ~up[n] /\ role[n] = "primary" /\ mode[n] = "paired" /\ (TrueUnpair => peer[n] # id[Other(n)])
  /\ mode' = Set(mode, n, "alone")
  /\ UNCHANGED <<up, run, role, term, peer, id, stream, disk, sess, net, acked, lease, granted, joining, joinLen, answered, excused, now, budget>>
Tick ==
  /\ now < MaxTime /\ now' = now + 1
  /\ UNCHANGED <<up, run, role, mode, term, peer, id, stream, disk, sess, net, acked, lease, granted, joining, joinLen, answered, excused, budget>>

Next == Tick \/ \E n \in N :
  Write(n) \/ Sync(n) \/ Send(n) \/ Receive(n) \/ Ack(n) \/ LearnAck(n) \/ Answer(n) \/ Beat(n) \/ Grant(n) \/ LearnGrant(n)
  \/ Session(n) \/ Join(n) \/ Leave(n) \/ Pair(n) \/ Tell(n) \/ Told(n) \/ Promote(n) \/ Serve(n) \/ HandOver(n) \/ TakeOver(n)
  \/ Crash(n) \/ Lose(n) \/ Start(n) \/ Replaced(n) \/ Unpair(n)
Spec == Init /\ [][Next]_vars

\* ------------------------------------------------------------- what has to hold
Serves(n)  == Primary(n) /\ \A m \in N : term[m] <= term[n]
MayRead(n) == Primary(n) /\ (mode[n] = "paired" /\ LeaseReads => now < lease[n])
\* The primary has every answered write, but for writes of a primary that was lost while it was alone.
NoLoss     == \A n \in N : Serves(n) => answered \ excused \subseteq Range(stream[n])
\* Beside a primary that serves, the other machine answers no read.
OneReader  == \A n \in N : Serves(n) => ~MayRead(Other(n))
=============================================================================
