----------------------------- MODULE PairArchive -----------------------------
(* The archive of a pair: docs/decisions/0059. The primary writes its history  *)
(* to the archive. After a change of the primary, the new primary first writes *)
(* what the archive lacks of the history that it had as the standby, and then  *)
(* its own history. Archive.tla has the seal of a term, which is one step here,*)
(* and Standby.tla has the pair and its register. Each rule is a constant:     *)
(* TRUE is the protocol, and FALSE is the protocol without the rule. Without   *)
(* any one of the rules, an invariant has to fail.                             *)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS
  M,                 \* the two machines
  Writes, Promotions, Forces, Crashes, Losses, Terms,  \* the maximum numbers
  \* Rules
  Bound,             \* a paired primary archives only what its standby has confirmed
  Moment,            \* a primary that is joining its standby archives like a paired one
  Reign,             \* a machine with an earlier term of the pair gets no term of the archive
  Complete,          \* a new primary first completes the history that it had as the standby
  Cut,               \* the next term continues where the new primary took over, not where the archive ends
  Disk,              \* a place counts only in the history of the disk that it names
  Forget,            \* a standby forgets its terms of the archive
  Exact              \* only a standby that knows its place in the history of the primary reports a place

VARIABLES
  data,      \* the history of each machine, which its disk has
  role,      \* "primary", "standby", or "lost"
  mode,      \* of a primary: "alone", "joining", "paired"
  term,      \* the term of the pair that a machine has
  acked,     \* how much of its history a primary knows to be with its standby
  moment,    \* what a standby must have before the two are paired
  node,      \* which terms of the archive a machine knows as its own
  follows,   \* where a machine became the primary, and in the history of which disk
  leader,    \* the register: the primary, and whether the standby may take its place
  archive,   \* the terms of the archive
  holds,     \* the newest term that a machine looked at or holds, and what the machine does with the term
  next, promotions, forces, crashes, losses

vars == <<data, role, mode, term, acked, moment, node, follows, leader, archive, holds, next, promotions, forces, crashes, losses>>
Symm == Permutations(M)
pair == <<data, role, mode, term, acked, moment, node, follows, leader, next, promotions, forces>>

None    == [disk |-> "none", upto |-> 0]
Idle    == [at |-> 0, does |-> "nothing"]
Newest  == Len(archive)
Other(m) == CHOOSE x \in M : x # m
Prefix(s, t) == Len(s) <= Len(t) /\ s = SubSeq(t, 1, Len(s))
Min(a, b) == IF a < b THEN a ELSE b

Init ==
  \E a \in M :
  /\ data = [m \in M |-> <<>>] /\ term = [m \in M |-> IF m = a THEN 1 ELSE 0]
  /\ role = [m \in M |-> IF m = a THEN "primary" ELSE "standby"]
  /\ mode = [m \in M |-> "alone"] /\ acked = [m \in M |-> 0] /\ moment = [m \in M |-> 0]
  /\ node = [m \in M |-> 0] /\ follows = [m \in M |-> None] /\ leader = [is |-> a, paired |-> FALSE]
  /\ archive = <<>> /\ holds = [m \in M |-> Idle]
  /\ next = 1 /\ promotions = 0 /\ forces = 0 /\ crashes = 0 /\ losses = 0

\* --------------------------------------------------------------------- the pair
Write(m) ==
  /\ role[m] = "primary" /\ next <= Writes /\ next' = next + 1
  /\ data' = [data EXCEPT ![m] = Append(@, next)]
  /\ UNCHANGED <<role, mode, term, acked, moment, node, follows, leader, archive, holds, promotions, forces, crashes, losses>>

\* A standby follows only the leader. A standby with another history gets a copy.
Replicate(m) ==
  LET s == Other(m) IN
  /\ role[m] = "primary" /\ role[s] = "standby" /\ leader.is = m
  /\ \/ /\ Prefix(data[s], data[m]) /\ data[s] # data[m]
        /\ data' = [data EXCEPT ![s] = SubSeq(data[m], 1, Len(@) + 1)]
     \/ /\ ~Prefix(data[s], data[m]) /\ mode[m] # "paired"
        /\ data' = [data EXCEPT ![s] = data[m]]
  /\ UNCHANGED <<role, mode, term, acked, moment, node, follows, leader, archive, holds, next, promotions, forces, crashes, losses>>

Ack(m) ==
  LET s == Other(m) IN
  /\ role[m] = "primary" /\ role[s] = "standby" /\ leader.is = m /\ Prefix(data[s], data[m]) /\ acked[m] # Len(data[s])
  /\ acked' = [acked EXCEPT ![m] = Len(data[s])]
  /\ UNCHANGED <<data, role, mode, term, moment, node, follows, leader, archive, holds, next, promotions, forces, crashes, losses>>

Join(m) ==
  /\ role[m] = "primary" /\ mode[m] = "alone" /\ leader.is = m /\ role[Other(m)] = "standby"
  /\ Prefix(data[Other(m)], data[m])
  /\ mode' = [mode EXCEPT ![m] = "joining"] /\ moment' = [moment EXCEPT ![m] = Len(data[m])]
  /\ acked' = [acked EXCEPT ![m] = Len(data[Other(m)])]
  /\ UNCHANGED <<data, role, term, node, follows, leader, archive, holds, next, promotions, forces, crashes, losses>>

Paired(m) ==
  /\ role[m] = "primary" /\ mode[m] = "joining" /\ leader.is = m /\ acked[m] >= moment[m]
  /\ mode' = [mode EXCEPT ![m] = "paired"] /\ leader' = [leader EXCEPT !.paired = TRUE]
  /\ UNCHANGED <<data, role, term, acked, moment, node, follows, archive, holds, next, promotions, forces, crashes, losses>>

Leave(m) ==
  /\ role[m] = "primary" /\ mode[m] # "alone" /\ leader.is = m
  /\ mode' = [mode EXCEPT ![m] = "alone"] /\ leader' = [leader EXCEPT !.paired = FALSE]
  /\ UNCHANGED <<data, role, term, acked, moment, node, follows, archive, holds, next, promotions, forces, crashes, losses>>

\* Without the agreement of the register, the operator gives writes up. A standby that is not exact does not know
\* its place, for example after a copy.
Promote(m) ==
  /\ role[m] = "standby" /\ leader.is # m /\ promotions < Promotions
  /\ promotions' = promotions + 1
  /\ forces' = IF leader.paired THEN forces ELSE forces + 1
  /\ forces' <= Forces
  /\ leader' = [is |-> m, paired |-> FALSE]
  /\ role' = [role EXCEPT ![m] = "primary"] /\ mode' = [mode EXCEPT ![m] = "alone"]
  /\ term' = [term EXCEPT ![m] = 1 + IF term[m] > term[Other(m)] THEN term[m] ELSE term[Other(m)]]
  /\ \E exact \in BOOLEAN :
       /\ exact => Prefix(data[m], data[Other(m)])
       /\ follows' = [follows EXCEPT ![m] = IF exact \/ ~Exact THEN [disk |-> Other(m), upto |-> Len(data[m])] ELSE None]
  /\ holds' = [holds EXCEPT ![m] = Idle]
  /\ UNCHANGED <<data, acked, moment, node, archive, next, crashes, losses>>

\* A machine that learns of another leader becomes the standby, and forgets where it became the primary.
Submit(m) ==
  /\ role[m] = "primary" /\ leader.is # m
  /\ role' = [role EXCEPT ![m] = "standby"] /\ follows' = [follows EXCEPT ![m] = None] /\ holds' = [holds EXCEPT ![m] = Idle]
  /\ node' = [node EXCEPT ![m] = IF Forget THEN @ + 1 ELSE @]
  /\ UNCHANGED <<data, mode, term, acked, moment, leader, archive, next, promotions, forces, crashes, losses>>

\* ------------------------------------------------------------------ the archive
\* How much of its history a primary may archive.
Archivable(m) ==
  IF mode[m] = "alone" \/ (mode[m] = "joining" /\ ~Moment) \/ ~Bound THEN Len(data[m]) ELSE acked[m]

Seal(t) == [archive EXCEPT ![t].sealed = TRUE]

May(m) == IF Newest = 0 \/ ~Reign THEN TRUE ELSE term[m] >= archive[Newest].term

\* A primary ends the newest term.
Look(m) ==
  /\ role[m] = "primary" /\ holds[m].does = "nothing" /\ Newest < Terms /\ May(m)
  /\ archive' = IF Newest = 0 THEN archive ELSE Seal(Newest)
  /\ holds' = [holds EXCEPT ![m] = [at |-> Newest, does |-> "begin"]]
  /\ UNCHANGED <<pair, crashes, losses>>

Known(m, t) == follows[m] # None /\ (~Disk \/ t.disk = follows[m].disk)

\* The next term, if no other machine was faster. A gap ends with a base.
Begin(m) ==
  LET n   == holds[m].at
      t   == archive[n]
      end == Len(t.content)
      own(content, gap) == [disk |-> m, by |-> m, node |-> node[m], term |-> term[m], content |-> content, gap |-> gap, sealed |-> FALSE]
  IN
  /\ holds[m].does = "begin" /\ role[m] = "primary"
  /\ IF Newest # n THEN archive' = archive /\ holds' = [holds EXCEPT ![m] = Idle]
     ELSE /\ IF n = 0 THEN archive' = <<own(<<>>, FALSE)>>
             ELSE IF t.disk = m /\ t.by = m /\ t.node = node[m] THEN archive' = Append(archive, own(t.content, t.gap))
             ELSE IF Complete /\ ~t.gap /\ Known(m, t) /\ end < follows[m].upto
                  THEN archive' = Append(archive, [own(t.content, FALSE) EXCEPT !.disk = t.disk])
             ELSE IF ~t.gap /\ Known(m, t) /\ end >= follows[m].upto
                  THEN archive' = Append(archive, own(IF Cut THEN SubSeq(t.content, 1, follows[m].upto) ELSE t.content, FALSE))
             ELSE archive' = Append(archive, own(<<>>, TRUE))
          /\ holds' = [holds EXCEPT ![m] = [at |-> n + 1, does |-> "write"]]
  /\ UNCHANGED <<pair, crashes, losses>>

\* The primary writes the next segment, or finds that its term has ended. In the logs of the standby that it was, the
\* primary writes up to the place where it took over, and then begins its own term.
Put(m) ==
  LET n == holds[m].at
      t == archive[n]
      other == t.disk # m
      upto == IF other THEN follows[m].upto ELSE Archivable(m)
      place == Len(t.content)
  IN
  /\ holds[m].does = "write" /\ role[m] = "primary"
  /\ IF t.sealed THEN archive' = archive /\ holds' = [holds EXCEPT ![m] = Idle]
     ELSE IF other /\ place >= upto THEN archive' = archive /\ holds' = [holds EXCEPT ![m] = Idle]
     ELSE IF t.gap THEN archive' = [archive EXCEPT ![n].content = SubSeq(data[m], 1, upto), ![n].gap = FALSE] /\ holds' = holds
     ELSE /\ place < Min(upto, Len(data[m]))
          /\ archive' = [archive EXCEPT ![n].content = Append(@, data[m][place + 1])] /\ holds' = holds
  /\ UNCHANGED <<pair, crashes, losses>>

\* ------------------------------------------------------------------- the faults
Die(m) ==
  /\ crashes < Crashes /\ crashes' = crashes + 1
  /\ role[m] = "primary" /\ holds[m] # Idle
  /\ holds' = [holds EXCEPT ![m] = Idle]
  /\ UNCHANGED <<pair, archive, losses>>

\* A machine loses its disk. A new machine takes its place as an empty standby.
Lose(m) ==
  /\ losses < Losses /\ losses' = losses + 1
  /\ leader.is # m /\ role[m] = "primary"
  /\ role' = [role EXCEPT ![m] = "standby"] /\ data' = [data EXCEPT ![m] = <<>>]
  /\ follows' = [follows EXCEPT ![m] = None] /\ holds' = [holds EXCEPT ![m] = Idle]
  /\ node' = [node EXCEPT ![m] = @ + 1]
  /\ UNCHANGED <<mode, term, acked, moment, leader, archive, next, promotions, forces, crashes>>

Next == \E m \in M :
  \/ Write(m) \/ Replicate(m) \/ Ack(m) \/ Join(m) \/ Paired(m) \/ Leave(m) \/ Promote(m) \/ Submit(m)
  \/ Look(m) \/ Begin(m) \/ Put(m) \/ Die(m) \/ Lose(m)

Spec == Init /\ [][Next]_vars

\* --------------------------------------------------------------- the invariants
\* The archive has no write that the primary lacks, unless an operator gave writes up.
NeverAhead == (forces = 0 /\ Newest > 0) => Prefix(archive[Newest].content, data[leader.is])

\* The newest term of the primary leads to a history that the primary had.
True == Newest > 0 =>
  LET t == archive[Newest] IN (t.by = leader.is /\ t.term = term[leader.is] /\ t.disk = t.by) => Prefix(t.content, data[leader.is])

\* One change of the primary makes no gap.
Gapless == (promotions <= 1 /\ follows[leader.is] # None /\ Newest > 0) => ~archive[Newest].gap

\* The machine of a later term of the pair writes the later term of the archive.
Ordered == \A n \in 1..Newest - 1 : archive[n].term <= archive[n + 1].term
=============================================================================
