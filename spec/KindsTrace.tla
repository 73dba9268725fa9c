----------------------------- MODULE KindsTrace -----------------------------
(* Traces of the product's likes, compared with Kinds.tla. The simulation      *)
(* writes the traces (internal/sim/traces.go): a line is a write that took     *)
(* effect, or an answered message. Each state chooses one trace, and has one   *)
(* step that advances the trace: the line itself, or a step of the window that *)
(* the next line needs and no line shows. A trace that the model cannot follow *)
(* is a deadlock. Each incarnation is a separate aggregator here, so a process *)
(* that died leaves its windows unchanged.                                     *)
EXTENDS Kinds, Sequences, TraceData

VARIABLES
  t, l,     \* the trace, and its next line
  done      \* the newest action of each user that a flush counted

TraceKinds == 1..3             \* like, and two more kinds
TraceSt(v) == v % 4
Trace == Traces[t]
Line  == Trace.lines[l]

TraceInit ==
  /\ t \in 1..Len(Traces) /\ l = 1 /\ done = [u \in U |-> 0]
  /\ sent = [u \in U |-> Versions]
  /\ Init

Shown   == l' = l + 1 /\ UNCHANGED t
Hidden  == UNCHANGED <<t, l, done>>
Others(changed) == \A v \in {"like", "x", "counts"} \ changed :
  CASE v = "like" -> UNCHANGED like [] v = "x" -> UNCHANGED x [] OTHER -> UNCHANGED <<count, d, applied>>
Same3 == UNCHANGED <<sent, acked, note, names, win, net, lates, crashes, day, saw>>

\* The previous window of an incarnation ends before the next window.
Ending(i) == {o \in W : win[o].pc = "ack" /\ win[o].my[1] = i}
First(S)  == CHOOSE w \in S : \A o \in S : w <= o

Wrote(n) == [f |-> <<n.i, n.s>>, v |-> n.v, st |-> n.st, base |-> n.base, day |-> 0]
PutLine(n) ==
  LET w == n.w r == win[w] IN
  CASE r.pc = "idle" /\ Ending(n.i) # {} -> Ack(First(Ending(n.i))) /\ Hidden
    [] r.pc = "idle" /\ Ending(n.i) = {} -> Ready(w, n.i) /\ StartWith(w, n.i, Trace.ms[w]) /\ win'[w].my = <<n.i, n.s>> /\ Hidden
    [] r.pc = "look"   -> Look(w) /\ win'[w].pc \in {"put", "ledger"} /\ win'[w].one.m[1] = n.u /\ Hidden
    [] r.pc = "ledger" -> Ledger(w) /\ Hidden
    [] r.pc = "note"   -> ReadNote(w) /\ win'[w].pc = "put" /\ Hidden
    [] r.pc = "put"    -> Put(w) /\ like'[n.u] = Wrote(n) /\ win'[w].ms = r.ms /\ Shown /\ UNCHANGED done
    [] OTHER           -> FALSE

FlushLine(n) ==
  /\ n.w \in W /\ win[n.w].pc = "flush" /\ win[n.w].my = <<n.i, n.s>>
  /\ Flush(n.w) /\ applied' # applied /\ count' = n.n
  /\ done' = [u \in U |-> IF like[u].f = <<n.i, n.s>> THEN Max(done[u], like[u].v) ELSE done[u]]
  /\ Shown

\* The window that fences is in no line before its next write. The model needs only a flush that
\* can be fenced.
FenceLine(n) ==
  /\ \E w \in W : win[w].pc # "idle" /\ win[w].my[1] = n.i /\ d[n.i] < win[w].my[2]
  /\ x' = [x EXCEPT ![n.i] = TRUE] /\ Others({"x"}) /\ Same3 /\ Shown /\ UNCHANGED done

NoteLine(n) ==
  CASE Ending(n.i) # {} -> Ack(First(Ending(n.i))) /\ Hidden
    [] Ending(n.i) = {} /\ n.i \notin ending -> cur[n.i] = n.i /\ Rotate(n.i) /\ Hidden
    [] OTHER -> Note(n.i) /\ Shown /\ UNCHANGED done

PruneLine(n) == Prune(n.i) /\ Shown /\ UNCHANGED done

\* A trace has no time. An item expires only if neither its state nor its base counts.
ExpireLine(n) ==
  /\ like[n.u] # None /\ like[n.u].st = 0 /\ like[n.u].base = 0
  /\ like' = [like EXCEPT ![n.u] = None] /\ Others({"like"}) /\ Same3 /\ Shown /\ UNCHANGED done

\* A message is answered when its action, or a newer action of the same user, is counted.
AckLine(n) == n.v <= done[n.u] /\ Others({}) /\ Same3 /\ Shown /\ UNCHANGED done

Follow ==
  /\ l <= Len(Trace.lines)
  /\ UNCHANGED past
  /\ CASE Line.e = "put"    -> PutLine(Line)
       [] Line.e = "flush"  -> FlushLine(Line)
       [] Line.e = "fence"  -> FenceLine(Line)
       [] Line.e = "note"   -> NoteLine(Line)
       [] Line.e = "prune"  -> PruneLine(Line)
       [] Line.e = "expire" -> ExpireLine(Line)
       [] Line.e = "ack"    -> AckLine(Line)
       [] OTHER             -> FALSE
TraceNext == Follow \/ (l > Len(Trace.lines) /\ UNCHANGED <<vars, t, l, done>>)
TraceSpec == TraceInit /\ [][TraceNext]_<<vars, t, l, done>>
=============================================================================
