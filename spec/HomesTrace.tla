----------------------------- MODULE HomesTrace -----------------------------
(* Traces of one reader's follow of one author, compared with Homes.tla: the   *)
(* edge, the mark, the entries, and the author's posts and mode. The           *)
(* simulation writes the traces (internal/sim/traces_homes.go): a line is a    *)
(* write that took effect. The reads of a worker before its write are in no    *)
(* line, so a line is accepted if something that the worker can have read      *)
(* explains the line. A trace that the model cannot follow is a deadlock. From *)
(* its presence on a reader is returning here: days are in no line, so entries *)
(* may be missing from then on.                                                *)
EXTENDS Homes, Sequences, TraceData

VARIABLES
  t, l,     \* the trace, and its next line
  log,      \* the modes of the author, in their order
  since,    \* for each post, the mode when the post was stored
  seen,     \* the mode when the mark got its version: a backfill of this version has read this mode or a later one
  walked,   \* whether the walk of the mode has read the follow
  met,      \* posts whose fan-out can have read the edge
  plans,    \* for each post, the decisions about it
  fills     \* the first posts of all backfills
trace == <<log, since, seen, walked, met, plans, fills>>

f1    == CHOOSE f \in F : TRUE
a1    == CHOOSE a \in A : TRUE
c1    == <<f1, a1>>
Line  == Traces[t][l]
m1    == mark[c1]
d1    == md[a1]
Mode(d)  == [k |-> d.m, since |-> d.since, v |-> d.v, lv |-> 1]
From(i)  == {log[j] : j \in i..Len(log)}
Pulls(d, p) == d.k = "pull" /\ p >= d.since

TraceInit ==
  /\ t \in 1..Len(Traces) /\ l = 1 /\ Init
  /\ log = <<Mode(d1)>> /\ since = [p \in P |-> 0] /\ seen = 1 /\ walked = TRUE
  /\ met = {} /\ plans = [p \in P |-> {}] /\ fills = {}

\* The walk has no work for a reader without an edge, and for a mark that is already right.
Nothing(d, m, follows) == ~follows \/ d.m \notin {"switching", "leaving"} \/ ~AfterWalk(Mode(d), m).touch
Takes(done) == l' = l + 1 /\ UNCHANGED t /\ walked' = (done \/ Nothing(md'[a1], mark'[c1], fl'[c1]))
Others(changed) ==
  /\ \A v \in {"stored", "dead", "acked", "expd", "md", "fols", "mark", "tl", "pres"} \ changed :
       CASE v = "stored" -> UNCHANGED stored [] v = "dead" -> UNCHANGED dead [] v = "acked" -> UNCHANGED acked
         [] v = "expd" -> UNCHANGED expd [] v = "md" -> UNCHANGED md [] v = "fols" -> UNCHANGED fols
         [] v = "mark" -> UNCHANGED mark [] v = "tl" -> UNCHANGED tl [] OTHER -> UNCHANGED pres
  /\ UNCHANGED <<day, clk, auth, idd, upto, msg, pw, bw, ww, rw, tw, rd>>
NewVersion == seen' = Len(log')

FollowLine(n) ==
  /\ Follow(c1) /\ mark'[c1] = n.mark
  /\ met' = stored /\ fills' = fills \cup {n.mark.from} /\ UNCHANGED <<log, since, plans>> /\ NewVersion /\ Takes(walked)
UnfollowLine(n) ==
  /\ Unfollow(c1) /\ n.mark.k = "unf" /\ n.mark.ttl # 0
  /\ UNCHANGED <<log, since, met, plans, fills>> /\ NewVersion /\ Takes(walked)

\* A backfill copies the posts, or leaves them to be pulled. It uses the mark that it has read.
Copied(m)   == m1.k = "bf" /\ m1.ttl = 0 /\ m = [m1 EXCEPT !.ttl = Mi] /\ \E d \in From(seen) : d.k \in {"push", "leaving"}
Pulled(m)   == m1.k = "bf" /\ m1.ttl = 0 /\ \E d \in From(seen) : d.k \in {"switching", "pull"} /\ m = [m1 EXCEPT !.k = "pulled", !.v = d.v]
ByWalk(o, m) == o.k \in {"switching", "leaving"} /\ AfterWalk(o, m1).touch /\ m = AfterWalk(o, m1).m
MarkLine(n) ==
  LET walks == {o \in From(1) : ByWalk(o, n.mark)} IN
  /\ Copied(n.mark) \/ Pulled(n.mark) \/ walks # {}
  /\ mark' = [mark EXCEPT ![c1] = n.mark] /\ Others({"mark"})
  /\ UNCHANGED <<log, since, met, plans, fills>> /\ NewVersion /\ Takes(walked \/ \E o \in walks : o.v = d1.v)
GoneLine ==
  /\ m1.ttl # 0 /\ mark' = [mark EXCEPT ![c1] = NoMark] /\ Others({"mark"})
  /\ UNCHANGED <<log, since, met, plans, fills>> /\ NewVersion /\ Takes(walked)

ModeLine(n) ==
  /\ CASE n.m = "switching" -> d1.m = "push" /\ n.v = d1.v + 1
       [] n.m = "leaving"   -> d1.m = "pull" /\ n.v = d1.v + 1 /\ n.since = d1.since
       [] n.m = "pull"      -> d1.m = "switching" /\ n.v = d1.v /\ n.since = d1.since /\ walked
       [] n.m = "push"      -> d1.m = "leaving" /\ n.v = d1.v /\ n.since = d1.since /\ walked
       [] OTHER             -> FALSE
  /\ md' = [md EXCEPT ![a1] = [@ EXCEPT !.m = n.m, !.v = n.v, !.since = n.since]] /\ Others({"md"})
  /\ log' = Append(log, Mode(md'[a1])) /\ UNCHANGED <<since, seen, met, plans, fills>> /\ Takes(FALSE)

PostLine(n) ==
  /\ stored' = stored \cup {n.p} /\ Others({"stored"})
  /\ since' = [since EXCEPT ![n.p] = Len(log)] /\ met' = IF fl[c1] THEN met \cup {n.p} ELSE met
  /\ UNCHANGED <<log, seen, plans, fills>> /\ Takes(walked)
DeadLine(n) == dead' = dead \cup {n.p} /\ Others({"dead"}) /\ UNCHANGED <<log, since, seen, met, plans, fills>> /\ Takes(walked)
OldLine(n) ==
  /\ expd' = Max2(expd, n.p) /\ tl' = [tl EXCEPT ![f1] = {p \in @ : p > expd'}] /\ Others({"expd", "tl"})
  /\ UNCHANGED <<log, since, seen, met, plans, fills>> /\ Takes(walked)
PlanLine(n) ==
  /\ n.p \in stored /\ \E d \in From(since[n.p]) : n.pulled = Pulls(d, n.p)
  /\ plans' = [plans EXCEPT ![n.p] = @ \cup {n.pulled}] /\ Others({})
  /\ UNCHANGED <<log, since, seen, met, fills>> /\ Takes(walked)
DoneLine(n) ==
  /\ plans[n.p] # {} /\ acked' = acked \cup {n.p} /\ Others({"acked"})
  /\ UNCHANGED <<log, since, seen, met, plans, fills>> /\ Takes(walked)

\* An entry comes from the fan-out of a pushed post, from a backfill, or from a return.
EntryLine(n) ==
  /\ n.p \in stored
  /\ (n.p \in met /\ FALSE \in plans[n.p]) \/ (\E p \in fills : n.p >= p) \/ pres[f1].st # "none"
  /\ tl' = [tl EXCEPT ![f1] = IF n.p > expd THEN @ \cup {n.p} ELSE @] /\ Others({"tl"})
  /\ UNCHANGED <<log, since, seen, met, plans, fills>> /\ Takes(walked)
RemovedLine(n) ==
  /\ m1.k = "unf" /\ tl' = [tl EXCEPT ![f1] = @ \ {n.p}] /\ Others({"tl"})
  /\ UNCHANGED <<log, since, seen, met, plans, fills>> /\ Takes(walked)
ExpiredLine(n) ==
  /\ n.p <= expd \/ n.p \in dead
  /\ tl' = [tl EXCEPT ![f1] = @ \ {n.p}] /\ Others({"tl"})
  /\ UNCHANGED <<log, since, seen, met, plans, fills>> /\ Takes(walked)
AwayLine ==
  /\ pres' = [pres EXCEPT ![f1].st = "returning"] /\ Others({"pres"})
  /\ UNCHANGED <<log, since, seen, met, plans, fills>> /\ Takes(walked)

TraceNext ==
  \/ /\ l <= Len(Traces[t])
     /\ CASE Line.e = "follow"   -> FollowLine(Line)
          [] Line.e = "unfollow" -> UnfollowLine(Line)
          [] Line.e = "mark"     -> MarkLine(Line)
          [] Line.e = "gone"     -> GoneLine
          [] Line.e = "mode"     -> ModeLine(Line)
          [] Line.e = "post"     -> PostLine(Line)
          [] Line.e = "dead"     -> DeadLine(Line)
          [] Line.e = "old"      -> OldLine(Line)
          [] Line.e = "plan"     -> PlanLine(Line)
          [] Line.e = "done"     -> DoneLine(Line)
          [] Line.e = "entry"    -> EntryLine(Line)
          [] Line.e = "removed"  -> RemovedLine(Line)
          [] Line.e = "expired"  -> ExpiredLine(Line)
          [] Line.e = "away"     -> AwayLine
          [] OTHER               -> FALSE
  \/ l > Len(Traces[t]) /\ UNCHANGED <<vars, t, l, trace>>
TraceSpec == TraceInit /\ [][TraceNext]_<<vars, t, l, trace>>

\* The minute after a backfill may be over: then only the entries show posts.
Filled == m1.ttl = Mi /\ pres[f1].st = "none" => \A p \in acked : Owed(f1, p) /\ Live(p) => p \in tl[f1]
=============================================================================
