------------------------------- MODULE Homes -------------------------------
(* Homes, with large authors, whose posts are pulled, and with away readers:   *)
(* docs/HYBRID.md. A step is one request to the table, or a few requests that  *)
(* no other process can separate. Posts are 1..NP in the order of their ids. A *)
(* worker that crashes forgets everything, and its message is redelivered. A   *)
(* message is never used up, so each message may be handled at any time, by    *)
(* several workers at once. Each rule is a constant: TRUE is the design, and   *)
(* FALSE is the design without the rule.                                       *)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
  F, A,                 \* readers and authors
  PW, BW, WW, RW, TW,   \* workers of posts, backfills, mark walks, refreshes, returns
  NP, Changes, Ops,     \* maximum numbers of posts, of changes of a mode, of follows and unfollows
  Dels, Exp,            \* number of deletes; whether posts grow too old for a home
  MaxDay, Ds, Returns,  \* days; the values of FANFARE_ACTIVE_DAYS of the processes; number of returns
  Skew, Reads,          \* days between two clocks; whether a home is read in two steps
  Follows, Dated,       \* whether all readers follow at first; whether these follows are enrolled
  Off,                  \* some processes have both features off
  Dup, Crash,           \* delivered posts are delivered again; workers and APIs die
  \* Rules
  WalkCond,         \* the walk changes a mark on a condition
  WalkKeepsFrom,    \* the walk keeps a backfill's first post
  WalkHidesNothing, \* a mark that the walk makes hides no entry
  ModeAtBackfill,   \* the backfill worker reads the mode
  MarkFirst,        \* the backfill worker reads the mark before the mode
  OffObeys,         \* workers obey the mode although their limit is 0
  Since,            \* only posts from `since` on are pulled
  LeaveTtl,         \* marks outlive leaving (FALSE: leaving deletes marks)
  DropTtl,          \* a backfill mark that becomes pulled no longer ends
  LeaveBumps,       \* leaving gives backfill marks a new version
  Resend,           \* a worker that meets an unfinished walk sends the walk again
  CheckAgain,       \* a worker that finds a part of the walk done checks the walk again
  HourRule,         \* a worker that slept too long writes nothing
  Seldom,           \* a mode changes only when no worker of the previous walk writes any more
  MinuteMark,       \* a mark merges for a minute after its backfill
  PostsFresh,       \* a home reads its posts last
  SkipById,         \* fan-out skips by the day of the post's id (FALSE: by the clock)
  UntilStored,      \* the edge has its last day (FALSE: each process uses its own number of days)
  RaiseFirst,       \* a return raises the edges before it reads the posts
  ReturningFirst,   \* a read that finds an old presence first sets the presence to returning
  UntilLast,        \* a refresh writes the presence after all edges
  EdgeCond,         \* only an existing edge is raised
  RaiseUp,          \* an edge is raised, and never lowered
  InTime,           \* a refresh that ends too late does not change the presence
  RaisedDay,        \* the presence gets the day that the edges got (FALSE: another day)
  Minute,           \* a home is read by pull for a minute after its return
  WidenGap,         \* a second absence widens the gap
  Enrol,            \* an edge gets a day only if its reader has a presence
  NoteUpto,         \* a raise is noted before the edges are read
  FollowUpto,       \* a follow obeys this note
  Again             \* a read that finds returning publishes the return again

VARIABLES
  day, clk, auth, idd, stored, dead, acked, expd,
  md,               \* the mode item and the walk's record of each author
  fl, ed, from, mark, ops,  \* follows: the reader's edge, the author's edge, the first post, the mark, the operations
  tl, pres, upto, msg,
  pw, bw, ww, rw, tw, rd
posts == <<clk, auth, idd, stored, dead, acked, expd>>
fols  == <<fl, ed, from, ops>>
away  == <<pres, upto, msg>>
vars  == <<day, posts, md, fols, mark, tl, away, pw, bw, ww, rw, tw, rd>>

P    == 1..NP
C    == F \X A          \* a follow: reader and author
Inf  == 90
Ever == 99              \* an edge without a day: it is never skipped
None == 100             \* no edge
Mi   == 98              \* a mark in the minute after its backfill
Idle == [pc |-> "idle"]
NoMark == [k |-> "none", from |-> 0, hide |-> 0, v |-> 0, ttl |-> 0]
NoPres == [st |-> "none", until |-> 0, v |-> 0, lo |-> 0, hi |-> 0]
Min2(x, y) == IF x < y THEN x ELSE y
Max2(x, y) == IF x > y THEN x ELSE y
Max(S) == CHOOSE x \in S : \A y \in S : y <= x
Min(S) == CHOOSE x \in S : \A y \in S : x <= y
Today == day..(day + Skew)    \* possible days by the clock of a machine
D1 == Min(Ds)
AnyD == IF UntilStored THEN {0} ELSE {d - D1 : d \in Ds}
Days == IF UntilStored THEN Ds ELSE {D1}

Init ==
  /\ day = 0 /\ clk = 0 /\ auth = [p \in P |-> CHOOSE a \in A : TRUE] /\ idd = [p \in P |-> 0]
  /\ stored = {} /\ dead = {} /\ acked = {} /\ expd = 0
  /\ md = [a \in A |-> [m |-> "push", v |-> 0, since |-> 0, lv |-> 0, msg |-> {}, done |-> {}]]
  /\ fl = [c \in C |-> Follows] /\ ed = [c \in C |-> IF Follows THEN IF Dated THEN D1 ELSE Ever ELSE None]
  /\ from = [c \in C |-> IF Follows THEN 1 ELSE 0] /\ mark = [c \in C |-> NoMark] /\ ops = 0
  /\ tl = [f \in F |-> {}]
  /\ pres = [f \in F |-> IF Dated THEN [NoPres EXCEPT !.st = "here", !.until = D1] ELSE NoPres]
  /\ upto = [f \in F |-> IF Dated THEN D1 ELSE 0] /\ msg = [f \in F |-> [seen |-> FALSE, ret |-> 0]]
  /\ pw = [w \in PW |-> Idle] /\ bw = [w \in BW |-> Idle] /\ ww = [w \in WW |-> Idle]
  /\ rw = [w \in RW |-> Idle] /\ tw = [w \in TW |-> Idle] /\ rd = [f \in F |-> Idle]

\* ------------------------------------------------------------- a home read
Live(p) == p \notin dead /\ p > expd
Owed(f, p) == fl[<<f, auth[p]>>] /\ p >= from[<<f, auth[p]>>]
Lists(f) == {p \in stored : Owed(f, p)}
ByPull(f, t, x) == pres[f].st \in {"returning", "minute"} \/ (pres[f].st = "here" /\ t >= pres[f].until + x)
Merges(m) == m.k = "pulled" \/ (m.k = "bf" /\ m.ttl \in {0, Mi})
\* The posts that a read shows if it took the entries T earlier and reads all other items now.
Shown(f, t, x, T) ==
  IF ByPull(f, t, x) /\ (ReturningFirst \/ pres[f].st # "here") THEN {p \in Lists(f) : p > expd} ELSE
  LET m(p) == mark[<<f, auth[p]>>]
      entries == {p \in T : m(p).k # "unf" /\ p >= m(p).hide}
      merged  == {p \in stored : Merges(m(p)) /\ p >= m(p).from /\ p >= m(p).hide}
      gap     == {p \in Lists(f) : idd[p] >= pres[f].lo /\ p < pres[f].hi}
  IN {p \in entries \cup merged \cup gap : p > expd}
Home(f, t, x) == Shown(f, t, x, tl[f]) \ dead

RdStart(f) ==
  /\ Reads /\ rd[f].pc = "idle"
  /\ rd' = [rd EXCEPT ![f] = [pc |-> "tl", T |-> tl[f], M |-> {p \in acked : Owed(f, p)}, X |-> dead]]
  /\ UNCHANGED <<day, posts, md, fols, mark, tl, away, pw, bw, ww, rw, tw>>
RdEnd(f) ==
  /\ rd[f].pc = "tl"
  /\ \E t \in Today, x \in AnyD :
     LET S == Shown(f, t, x, rd[f].T) \ (IF PostsFresh THEN dead ELSE {})
         ok == /\ \A p \in rd[f].M : Owed(f, p) /\ Live(p) => p \in S
               /\ S \cap rd[f].X = {}
               /\ \A p \in S : fl[<<f, auth[p]>>] IN
     rd' = [rd EXCEPT ![f] = IF ok THEN Idle ELSE [pc |-> "bad"]]
  /\ UNCHANGED <<day, posts, md, fols, mark, tl, away, pw, bw, ww, rw, tw>>

\* ------------------------------------------------------------ posts, time
Tick == /\ day < MaxDay /\ day' = day + 1
        /\ UNCHANGED <<posts, md, fols, mark, tl, away, pw, bw, ww, rw, tw, rd>>

\* A post is published; the API may die before it writes the post.
Issue ==
  /\ clk < NP /\ clk' = clk + 1
  /\ \E a \in A, s \in IF Crash THEN BOOLEAN ELSE {TRUE}, d \in Today :
     /\ \A p \in 1..clk : idd[p] <= d
     /\ auth' = [auth EXCEPT ![clk + 1] = a] /\ idd' = [idd EXCEPT ![clk + 1] = d]
     /\ stored' = IF s THEN stored \cup {clk + 1} ELSE stored
  /\ UNCHANGED <<day, dead, acked, expd, md, fols, mark, tl, away, pw, bw, ww, rw, tw, rd>>

Delete(p) ==
  /\ p \in stored \ dead /\ Cardinality(dead) < Dels /\ dead' = dead \cup {p}
  /\ UNCHANGED <<day, clk, auth, idd, stored, acked, expd, md, fols, mark, tl, away, pw, bw, ww, rw, tw, rd>>

Expire ==
  LET e == expd + 1 IN
  /\ Exp /\ expd < clk /\ expd' = e /\ \A f \in F : rd[f].pc = "idle"
  /\ acked' = acked \ {e} /\ stored' = stored \ {e} /\ dead' = dead \ {e}
  /\ tl' = [f \in F |-> tl[f] \ {e}]
  /\ UNCHANGED <<day, clk, auth, idd, md, fols, mark, away, pw, bw, ww, rw, tw, rd>>

\* ---------------------------------------------------------------- follows
\* Each write of a mark gives the mark a new version: a worker that has read an older version
\* fails.
Stale(c) == [w \in BW |-> IF bw[w].pc \in {"idle", "premark"} THEN bw[w]
                          ELSE IF bw[w].c = c THEN [bw[w] EXCEPT !.ok = FALSE] ELSE bw[w]]
Touch(c, m) == mark' = [mark EXCEPT ![c] = m] /\ bw' = Stale(c)
Holds(r, c) == IF r.pc = "idle" THEN FALSE ELSE r.c = c

Follow(c) ==
  LET f == c[1] IN
  /\ ~fl[c] /\ ops < Ops /\ ops' = ops + 1
  /\ fl' = [fl EXCEPT ![c] = TRUE]
  /\ \E fr \in {1} \cup {p \in stored : auth[p] = c[2]} :
     /\ from' = [from EXCEPT ![c] = fr]
     /\ Touch(c, [k |-> "bf", from |-> fr, hide |-> fr, v |-> 0, ttl |-> 0])
  /\ \/ \* a process without active days gives no edge a day, unless the reader is enrolled
        /\ (upto[f] = 0 \/ ~FollowUpto) /\ (Off \/ MaxDay = 0)
        /\ ed' = [ed EXCEPT ![c] = Ever] /\ UNCHANGED away
     \/ \E t \in Today, d \in Days :
        LET u == Max2(t + d + (IF UntilStored THEN 0 ELSE 1), IF FollowUpto THEN upto[f] ELSE 0)
            first == pres[f].st = "none" /\ Enrol IN
        /\ MaxDay > 0
        /\ ed' = [ed EXCEPT ![c] = u]
        /\ pres' = IF first THEN [pres EXCEPT ![f] = [NoPres EXCEPT !.st = "here", !.until = u]] ELSE pres
        /\ upto' = IF first /\ NoteUpto THEN [upto EXCEPT ![f] = u] ELSE upto
        /\ UNCHANGED msg
  /\ UNCHANGED <<day, posts, md, tl, pw, ww, rw, tw, rd>>

Unfollow(c) ==
  /\ fl[c] /\ ops < Ops /\ ops' = ops + 1
  /\ fl' = [fl EXCEPT ![c] = FALSE] /\ from' = [from EXCEPT ![c] = 0] /\ ed' = [ed EXCEPT ![c] = None]
  /\ Touch(c, [NoMark EXCEPT !.k = "unf", !.ttl = clk + 1])
  /\ UNCHANGED <<day, posts, md, tl, away, pw, ww, rw, tw, rd>>

\* A worker deletes entries of an unfollowed author, on the condition that the mark is unchanged.
Remove(c) ==
  /\ mark[c].k = "unf" /\ \E p \in tl[c[1]] : auth[p] = c[2]
  /\ tl' = [tl EXCEPT ![c[1]] = {p \in @ : auth[p] # c[2]}]
  /\ UNCHANGED <<day, posts, md, fols, mark, away, pw, bw, ww, rw, tw, rd>>

\* The minute after a backfill ends, or a mark expires: a long time has passed, and each worker
\* that worked on this follow before has returned its message.
MarkEnds(c) ==
  LET m == mark[c] kill(r) == HourRule /\ Holds(r, c) IN
  \/ /\ m.ttl = Mi /\ (MinuteMark => rd[c[1]].pc = "idle")
     /\ Touch(c, IF m.hide > 1 THEN [m EXCEPT !.k = "hide", !.from = 0, !.ttl = m.hide] ELSE NoMark)
     /\ UNCHANGED <<day, posts, md, fols, tl, away, pw, ww, rw, tw, rd>>
  \/ /\ m.ttl \in 1..(expd + 1) /\ rd[c[1]].pc = "idle"
     \* an unfollow's mark outlives each entry that is written within the hour
     /\ (m.k = "unf" /\ HourRule => \A p \in tl[c[1]] : auth[p] # c[2])
     /\ mark' = [mark EXCEPT ![c] = NoMark]
     /\ bw' = [w \in BW |-> IF kill(bw[w]) THEN Idle ELSE Stale(c)[w]]
     /\ ww' = [w \in WW |-> IF kill(ww[w]) THEN Idle ELSE ww[w]]
     /\ tw' = [w \in TW |-> IF HourRule /\ tw[w].pc # "idle" THEN Idle ELSE tw[w]]
     /\ UNCHANGED <<day, posts, md, fols, tl, away, pw, rw, rd>>

\* -------------------------------------------------------- backfill worker
BStart(w, c) ==
  /\ bw[w].pc = "idle"
  /\ \/ /\ MarkFirst /\ mark[c].k = "bf" /\ mark[c].ttl = 0
        /\ bw' = [bw EXCEPT ![w] = [pc |-> "mode", c |-> c, ok |-> TRUE, m |-> mark[c], md |-> "", v |-> 0]]
     \/ /\ ~MarkFirst /\ fl[c]
        /\ bw' = [bw EXCEPT ![w] = [pc |-> "premark", c |-> c, ok |-> FALSE, m |-> NoMark, md |-> md[c[2]].m, v |-> md[c[2]].v]]
  /\ UNCHANGED <<day, posts, md, fols, mark, tl, away, pw, ww, rw, tw, rd>>
BMark(w) ==
  /\ bw[w].pc = "premark"
  /\ LET m == mark[bw[w].c] IN
     bw' = [bw EXCEPT ![w] = IF m.k = "bf" /\ m.ttl = 0 THEN [@ EXCEPT !.pc = "act", !.m = m, !.ok = TRUE] ELSE Idle]
  /\ UNCHANGED <<day, posts, md, fols, mark, tl, away, pw, ww, rw, tw, rd>>
BMode(w) ==
  /\ bw[w].pc = "mode"
  /\ LET d == md[bw[w].c[2]] IN
     \/ bw' = [bw EXCEPT ![w] = [@ EXCEPT !.pc = "act", !.md = d.m, !.v = IF d.m \in {"switching", "pull"} THEN d.v ELSE 0]]
     \/ ~OffObeys /\ bw' = [bw EXCEPT ![w] = [@ EXCEPT !.pc = "act", !.md = "push"]]
  /\ UNCHANGED <<day, posts, md, fols, mark, tl, away, pw, ww, rw, tw, rd>>
Copies(w) == ~ModeAtBackfill \/ bw[w].md \in {"push", "leaving"}
BList(w) ==
  /\ bw[w].pc = "act" /\ Copies(w)
  /\ LET r == bw[w] IN
     bw' = [bw EXCEPT ![w] = [pc |-> "copy", c |-> r.c, ok |-> r.ok, L |-> {p \in stored \ dead : auth[p] = r.c[2] /\ p >= r.m.from}]]
  /\ UNCHANGED <<day, posts, md, fols, mark, tl, away, pw, ww, rw, tw, rd>>
\* The last write of the worker, on the condition that the mark is as the worker has read it.
Ends(w, m) ==
  IF bw[w].ok THEN /\ mark' = [mark EXCEPT ![bw[w].c] = m]
                   /\ bw' = [Stale(bw[w].c) EXCEPT ![w] = Idle]
  ELSE bw' = [bw EXCEPT ![w] = Idle] /\ UNCHANGED mark
BEnd(w) ==
  /\ bw[w].pc = "copy"
  /\ LET c == bw[w].c IN
     /\ tl' = [tl EXCEPT ![c[1]] = @ \cup {p \in bw[w].L : p > expd}]
     /\ Ends(w, [mark[c] EXCEPT !.ttl = Mi])
  /\ UNCHANGED <<day, posts, md, fols, away, pw, ww, rw, tw, rd>>
BPull(w) ==
  /\ bw[w].pc = "act" /\ ~Copies(w)
  /\ Ends(w, [bw[w].m EXCEPT !.k = "pulled", !.v = bw[w].v, !.ttl = 0])
  /\ UNCHANGED <<day, posts, md, fols, tl, away, pw, ww, rw, tw, rd>>
BCrash(w) == /\ Crash /\ bw[w].pc # "idle" /\ bw' = [bw EXCEPT ![w] = Idle]
             /\ UNCHANGED <<day, posts, md, fols, mark, tl, away, pw, ww, rw, tw, rd>>

\* ------------------------------------------------------------ post worker
PStart(w, p) ==
  /\ pw[w].pc = "idle" /\ p \in (expd + 1)..clk /\ (Dup \/ p \notin acked)
  /\ stored' = stored \cup {p}
  /\ pw' = [pw EXCEPT ![w] = [pc |-> "mode", p |-> p, d |-> "push", snd |-> FALSE]]
  /\ UNCHANGED <<day, clk, auth, idd, dead, acked, expd, md, fols, mark, tl, away, bw, ww, rw, tw, rd>>

\* The decision needs one consistent read of the mode and of the number of followers. The number
\* may be above or below the limit, because the limits of two processes may differ. A redelivered
\* post is decided again here: homes need no stored decision.
Decide(w, d, snd) == pw' = [pw EXCEPT ![w] = [@ EXCEPT !.pc = "plan", !.d = d, !.snd = snd]]
Change(a, m, since, lv) ==
  /\ md[a].v < Changes
  /\ md' = [md EXCEPT ![a] = [m |-> m, v |-> @.v + 1, since |-> since, lv |-> lv, msg |-> {}, done |-> {}]]
  /\ ww' = [x \in WW |-> IF Seldom /\ ww[x].pc # "idle" /\ ww[x].c[2] = a THEN Idle ELSE ww[x]]
PDecide(w) ==
  LET p == pw[w].p a == auth[p] d == md[a] IN
  /\ pw[w].pc = "mode"
  /\ \/ /\ Decide(w, IF d.m = "pull" /\ (Since => p >= d.since) THEN "pulled" ELSE "push", Resend /\ d.m \in {"switching", "leaving"})
        /\ UNCHANGED <<md, ww>>
     \/ ~OffObeys /\ Decide(w, "push", FALSE) /\ UNCHANGED <<md, ww>>
     \/ d.m = "push" /\ (\E s \in {clk, clk + 1} : Change(a, "switching", s, d.lv)) /\ Decide(w, "push", TRUE)
     \/ d.m = "pull" /\ Change(a, "leaving", d.since, clk + 1) /\ Decide(w, "push", TRUE)
  /\ UNCHANGED <<day, posts, fols, mark, tl, away, bw, rw, tw, rd>>
Acked(p) == acked' = IF p > expd THEN acked \cup {p} ELSE acked
PPlan(w) ==
  /\ pw[w].pc = "plan"
  /\ LET p == pw[w].p
         d == pw[w].d IN
     /\ md' = IF pw[w].snd THEN [md EXCEPT ![auth[p]].msg = IF @ = {} THEN F ELSE @] ELSE md
     /\ IF d = "pulled" THEN pw' = [pw EXCEPT ![w] = Idle] /\ Acked(p)
        ELSE pw' = [pw EXCEPT ![w] = [pc |-> "fan", p |-> p, rest |-> F, has |-> {}]] /\ UNCHANGED acked
  /\ UNCHANGED <<day, clk, auth, idd, stored, dead, expd, fols, mark, tl, away, bw, ww, rw, tw, rd>>
\* The worker writes the page that it has read, and reads the next page. A page is one reader.
PFan(w) ==
  /\ pw[w].pc = "fan"
  /\ LET p == pw[w].p IN
     /\ tl' = [f \in F |-> IF f \in pw[w].has /\ p > expd THEN tl[f] \cup {p} ELSE tl[f]]
     /\ IF pw[w].rest = {} THEN pw' = [pw EXCEPT ![w] = Idle] /\ Acked(p)
        ELSE /\ UNCHANGED acked
             /\ \E f \in pw[w].rest, x \in AnyD, t \in IF SkipById THEN {idd[p]} ELSE Today, off \in IF Off THEN BOOLEAN ELSE {FALSE} :
                LET e == ed[<<f, auth[p]>>]
                    has == e # None /\ (off \/ e + x >= t) IN
                pw' = [pw EXCEPT ![w] = [@ EXCEPT !.rest = @ \ {f}, !.has = IF has THEN {f} ELSE {}]]
  /\ UNCHANGED <<day, clk, auth, idd, stored, dead, expd, md, fols, mark, away, bw, ww, rw, tw, rd>>
PCrash(w) == /\ Crash /\ pw[w].pc # "idle" /\ pw' = [pw EXCEPT ![w] = Idle]
             /\ UNCHANGED <<day, posts, md, fols, mark, tl, away, bw, ww, rw, tw, rd>>

\* -------------------------------------------------------------- mark walk
\* A part of the walk, which is one reader, has a message, and a record once it is done.
WRead(w, c) ==
  LET d == md[c[2]] IN
  /\ ww[w].pc = "idle" /\ c[1] \in d.msg
  /\ ww' = [ww EXCEPT ![w] =
       IF c[1] \in d.done THEN [pc |-> IF CheckAgain THEN "check" ELSE "ack", c |-> c, v |-> d.v]
       ELSE [pc |-> "write", c |-> c, v |-> d.v, has |-> ed[c] # None, k |-> d.m, since |-> d.since, lv |-> d.lv]]
  /\ UNCHANGED <<day, posts, md, fols, mark, tl, away, pw, bw, rw, tw, rd>>
\* The mark that the walk makes from a mark, and whether the walk writes the mark at all.
AfterWalk(o, m) ==
  LET to(n) == [touch |-> TRUE, m |-> n]
      same == [touch |-> FALSE, m |-> m]
      new == [k |-> "pulled", from |-> o.since, hide |-> IF WalkHidesNothing THEN 0 ELSE o.since, v |-> o.v, ttl |-> 0] IN
  IF o.k = "switching" THEN
    CASE m.k = "none" \/ ~WalkCond -> to(new)
      [] m.k = "hide" -> to([new EXCEPT !.from = m.hide, !.hide = m.hide])
      [] m.k = "bf" -> to([m EXCEPT !.k = "pulled", !.from = IF WalkKeepsFrom THEN @ ELSE o.since, !.v = o.v, !.ttl = IF DropTtl THEN 0 ELSE @])
      [] m.k = "pulled" /\ m.v < o.v -> to([m EXCEPT !.from = Min2(@, o.since), !.v = o.v, !.ttl = 0])
      [] OTHER -> same
  ELSE
    CASE m.k = "pulled" /\ m.v <= o.v -> to(IF LeaveTtl THEN [m EXCEPT !.ttl = o.lv] ELSE NoMark)
      [] m.k = "bf" /\ m.ttl = 0 /\ LeaveBumps -> to(m)
      [] OTHER -> same
WWrite(w) ==
  LET o == ww[w] c == o.c IN
  /\ o.pc = "write"
  /\ IF o.has /\ AfterWalk(o, mark[c]).touch THEN Touch(c, AfterWalk(o, mark[c]).m) ELSE UNCHANGED <<mark, bw>>
  /\ md' = IF o.v = md[c[2]].v THEN [md EXCEPT ![c[2]].done = @ \cup {c[1]}] ELSE md
  /\ ww' = [ww EXCEPT ![w] = [pc |-> "check", c |-> c, v |-> o.v]]
  /\ UNCHANGED <<day, posts, fols, tl, away, pw, rw, tw, rd>>
\* The walk is complete: its end, on the condition of the version v.
WCheck(w) ==
  LET a == ww[w].c[2] d == md[a] IN
  /\ ww[w].pc = "check"
  /\ ww' = [ww EXCEPT ![w] = [@ EXCEPT !.pc = "ack"]]
  /\ md' = IF d.v = ww[w].v /\ d.done = F /\ d.m \in {"switching", "leaving"}
           THEN [md EXCEPT ![a].m = IF @ = "switching" THEN "pull" ELSE "push"] ELSE md
  /\ UNCHANGED <<day, posts, fols, mark, tl, away, pw, bw, rw, tw, rd>>
WAck(w) ==
  LET c == ww[w].c d == md[c[2]] IN
  /\ ww[w].pc = "ack" /\ ww' = [ww EXCEPT ![w] = Idle]
  /\ md' = IF d.v # ww[w].v THEN md
           ELSE [md EXCEPT ![c[2]] = [@ EXCEPT !.msg = @ \ {c[1]}]]
  /\ UNCHANGED <<day, posts, fols, mark, tl, away, pw, bw, rw, tw, rd>>
WCrash(w) == /\ Crash /\ ww[w].pc # "idle" /\ ww' = [ww EXCEPT ![w] = Idle]
             /\ UNCHANGED <<day, posts, md, fols, mark, tl, away, pw, bw, rw, tw, rd>>

\* ------------------------------------------------- home reads and presence
HSeen(f) ==
  /\ MaxDay > 0 /\ ~msg[f].seen
  /\ \/ pres[f].st \in {"here", "minute"} /\ day < pres[f].until
     \/ pres[f].st = "none"
  /\ msg' = [msg EXCEPT ![f].seen = TRUE]
  /\ UNCHANGED <<day, posts, md, fols, mark, tl, pres, upto, pw, bw, ww, rw, tw, rd>>
HReturn(f) ==
  LET q == pres[f] lo == IF q.hi > 0 /\ WidenGap THEN Min2(q.lo, q.until + 1) ELSE q.until + 1 IN
  /\ q.st \in {"here", "minute"} /\ q.v < Returns
  /\ \E t \in Today, x \in AnyD, sent \in BOOLEAN :
     /\ t >= q.until + x
     /\ IF ReturningFirst
        THEN /\ pres' = [pres EXCEPT ![f] = [q EXCEPT !.st = "returning", !.v = @ + 1, !.lo = lo, !.hi = Inf]]
             /\ msg' = IF sent THEN [msg EXCEPT ![f].ret = q.v + 1] ELSE msg
        ELSE msg' = [msg EXCEPT ![f].ret = q.v] /\ UNCHANGED pres
  /\ UNCHANGED <<day, posts, md, fols, mark, tl, upto, pw, bw, ww, rw, tw, rd>>
HAgain(f) ==
  /\ Again /\ pres[f].st = "returning" /\ msg[f].ret # pres[f].v
  /\ msg' = [msg EXCEPT ![f].ret = pres[f].v]
  /\ UNCHANGED <<day, posts, md, fols, mark, tl, pres, upto, pw, bw, ww, rw, tw, rd>>

\* An edge is raised to a day, on the condition that the edge exists and has a lower day.
Raised(c, u) ==
  ed' = [ed EXCEPT ![c] = IF @ = None THEN IF EdgeCond THEN None ELSE u
                          ELSE IF @ = Ever \/ ~RaiseUp THEN u ELSE Max2(@, u)]
Note(f, u) == upto' = IF NoteUpto THEN [upto EXCEPT ![f] = Max2(@, u)] ELSE upto
Walked(f) == {a \in A : fl[<<f, a>>]}
Begin(pc, f, u) == [pc |-> pc, f |-> f, u |-> u, rest |-> Walked(f), old |-> pres[f]]

\* Refresh: first the note, then each edge, then the presence.
RStart(w, f) ==
  /\ rw[w].pc = "idle" /\ msg[f].seen
  /\ \E t \in Today, d \in Days :
     LET u == t + d q == pres[f] IN
     /\ Note(f, u)
     /\ \/ /\ q.st \in {"here", "minute"} /\ u > q.until
           /\ rw' = [rw EXCEPT ![w] = Begin("raise", f, u)]
           /\ pres' = IF UntilLast THEN pres ELSE [pres EXCEPT ![f].until = u]
        \/ \* enrolment: the presence with the note, in one transaction. No edge has a day.
           /\ q.st = "none"
           /\ pres' = IF Enrol THEN [pres EXCEPT ![f] = [NoPres EXCEPT !.st = "here", !.until = u]] ELSE pres
           /\ rw' = [rw EXCEPT ![w] = Begin("enrol", f, u)]
  /\ UNCHANGED <<day, posts, md, fols, mark, tl, msg, pw, bw, ww, tw, rd>>
RRaise(w) ==
  /\ rw[w].pc \in {"raise", "enrol"}
  /\ \E a \in rw[w].rest :
     /\ Raised(<<rw[w].f, a>>, rw[w].u)
     /\ rw' = [rw EXCEPT ![w] = IF @.pc = "enrol" /\ @.rest = {a} /\ Enrol THEN Idle ELSE [@ EXCEPT !.rest = @ \ {a}]]
  /\ UNCHANGED <<day, posts, md, fl, from, ops, mark, tl, away, pw, bw, ww, tw, rd>>
RCheck(w) ==
  /\ rw[w].pc = "raise" /\ rw[w].rest = {}
  /\ \E t \in Today : rw' = [rw EXCEPT ![w] = IF ~InTime \/ t < rw[w].old.until THEN [@ EXCEPT !.pc = "set"] ELSE Idle]
  /\ UNCHANGED <<day, posts, md, fols, mark, tl, away, pw, bw, ww, tw, rd>>
RSet(w) ==
  LET r == rw[w] q == pres[r.f] IN
  /\ r.pc = "set" \/ (r.pc = "enrol" /\ r.rest = {} /\ ~Enrol)
  /\ pres' = IF r.pc = "enrol" THEN [pres EXCEPT ![r.f] = [NoPres EXCEPT !.st = "here", !.until = r.u]]
             ELSE IF q.v # r.old.v \/ q.until # r.old.until THEN pres ELSE [pres EXCEPT ![r.f].until = r.u]
  /\ rw' = [rw EXCEPT ![w] = Idle]
  /\ UNCHANGED <<day, posts, md, fols, mark, tl, upto, msg, pw, bw, ww, tw, rd>>
RCrash(w) == /\ Crash /\ rw[w].pc # "idle" /\ rw' = [rw EXCEPT ![w] = Idle]
             /\ UNCHANGED <<day, posts, md, fols, mark, tl, away, pw, bw, ww, tw, rd>>

\* Return: first the note, then all edges, the posts, the entries, and the presence. The newest
\* post becomes an entry (200 posts in the product), and the gap covers older posts.
TStart(w, f) ==
  /\ tw[w].pc = "idle" /\ pres[f].st # "none" /\ msg[f].ret = pres[f].v
  /\ IF ReturningFirst THEN pres[f].st = "returning" ELSE msg[f].ret > 0 \/ day >= pres[f].until
  /\ \E t \in Today, d \in Days :
     /\ Note(f, t + d)
     /\ tw' = [tw EXCEPT ![w] = [pc |-> IF RaiseFirst THEN "raise" ELSE "read", f |-> f, u |-> t + d,
                                 rest |-> Walked(f), all |-> Walked(f), v |-> pres[f].v, L |-> {}]]
  /\ UNCHANGED <<day, posts, md, fols, mark, tl, pres, msg, pw, bw, ww, rw, rd>>
Next2(r, after) == IF r.rest = {} THEN [r EXCEPT !.pc = after, !.rest = r.all] ELSE r
TRaise(w) ==
  LET r == tw[w] after == IF RaiseFirst THEN "read" ELSE "write" IN
  /\ r.pc = "raise"
  /\ IF r.rest = {} THEN tw' = [tw EXCEPT ![w] = Next2(r, after)] /\ UNCHANGED ed
     ELSE \E a \in r.rest : Raised(<<r.f, a>>, r.u) /\ tw' = [tw EXCEPT ![w] = Next2([r EXCEPT !.rest = @ \ {a}], after)]
  /\ UNCHANGED <<day, posts, md, fl, from, ops, mark, tl, away, pw, bw, ww, rw, rd>>
TRead(w) ==
  LET r == tw[w] after == IF RaiseFirst THEN "write" ELSE "raise" IN
  /\ r.pc = "read"
  /\ tw' = [tw EXCEPT ![w] =
       IF r.rest = {} THEN Next2(r, after)
       ELSE LET a == CHOOSE a \in r.rest : TRUE IN
            Next2([r EXCEPT !.rest = @ \ {a}, !.L = @ \cup {p \in Lists(r.f) \ dead : auth[p] = a}], after)]
  /\ UNCHANGED <<day, posts, md, fols, mark, tl, away, pw, bw, ww, rw, rd>>
TWrite(w) ==
  LET r == tw[w] L == {p \in r.L : p > expd} IN
  /\ r.pc = "write"
  /\ tl' = [tl EXCEPT ![r.f] = @ \cup (IF L = {} THEN {} ELSE {Max(L)})]
  /\ tw' = [tw EXCEPT ![w] = [pc |-> "set", f |-> r.f, u |-> r.u, v |-> r.v, hi |-> IF L = {} THEN 0 ELSE Max(L)]]
  /\ UNCHANGED <<day, posts, md, fols, mark, away, pw, bw, ww, rw, rd>>
TSet(w) ==
  LET r == tw[w] q == pres[r.f] IN
  /\ r.pc = "set"
  /\ \E u \in IF RaisedDay THEN {r.u} ELSE {t + d : t \in Today, d \in Days} :
     pres' = IF q.v # r.v THEN pres
             ELSE [pres EXCEPT ![r.f] = [st |-> IF Minute THEN "minute" ELSE "here", until |-> u, v |-> q.v, lo |-> q.lo, hi |-> r.hi]]
  /\ tw' = [tw EXCEPT ![w] = Idle]
  /\ UNCHANGED <<day, posts, md, fols, mark, tl, upto, msg, pw, bw, ww, rw, rd>>
Settle(f) == /\ pres[f].st = "minute" /\ rd[f].pc = "idle" /\ pres' = [pres EXCEPT ![f].st = "here"]
             /\ UNCHANGED <<day, posts, md, fols, mark, tl, upto, msg, pw, bw, ww, rw, tw, rd>>
TCrash(w) == /\ Crash /\ tw[w].pc # "idle" /\ tw' = [tw EXCEPT ![w] = Idle]
             /\ UNCHANGED <<day, posts, md, fols, mark, tl, away, pw, bw, ww, rw, rd>>

Next == \/ Tick \/ Issue \/ Expire \/ \E p \in P : Delete(p)
        \/ \E c \in C : Follow(c) \/ Unfollow(c) \/ Remove(c) \/ MarkEnds(c)
        \/ \E w \in BW : (\E c \in C : BStart(w, c)) \/ BMark(w) \/ BMode(w) \/ BList(w) \/ BEnd(w) \/ BPull(w) \/ BCrash(w)
        \/ \E w \in PW : (\E p \in P : PStart(w, p)) \/ PDecide(w) \/ PPlan(w) \/ PFan(w) \/ PCrash(w)
        \/ \E w \in WW : (\E c \in C : WRead(w, c)) \/ WWrite(w) \/ WCheck(w) \/ WAck(w) \/ WCrash(w)
        \/ \E f \in F : RdStart(f) \/ RdEnd(f) \/ HSeen(f) \/ HReturn(f) \/ HAgain(f) \/ Settle(f)
        \/ \E w \in RW : (\E f \in F : RStart(w, f)) \/ RRaise(w) \/ RCheck(w) \/ RSet(w) \/ RCrash(w)
        \/ \E w \in TW : (\E f \in F : TStart(w, f)) \/ TRaise(w) \/ TRead(w) \/ TWrite(w) \/ TSet(w) \/ TCrash(w)
Spec == Init /\ [][Next]_vars
Symm == Permutations(F) \cup Permutations(PW) \cup Permutations(BW) \cup Permutations(WW) \cup Permutations(RW) \cup Permutations(TW)

\* ------------------------------------------------------------- invariants
\* I1: a delivered post is shown, whichever process reads the home now.
Missing == \A f \in F, t \in Today, x \in AnyD : \A p \in acked : Owed(f, p) /\ Live(p) => p \in Home(f, t, x)
\* I1, I2: no other post is shown.
Stranger == \A f \in F, t \in Today, x \in AnyD : \A p \in Home(f, t, x) : Owed(f, p)
\* The same for a read that takes the entries first and all other items later. It also shows no
\* deleted post.
Read == \A f \in F : rd[f].pc # "bad"
\* I4: a follow has both edges or none.
Ghost == \A c \in C : (ed[c] # None) <=> fl[c]
\* No mode is stuck: at rest, while no post arrives, every walk has ended. Every return has ended,
\* too.
PostsDone == \A w \in PW : pw[w].pc = "idle"
Resting(a) == PostsDone /\ clk = NP /\ (\A p \in P : p > expd => p \in acked) /\ \A w \in WW : ww[w].pc = "idle"
Stuck == /\ \A a \in A : Resting(a) /\ md[a].m \in {"switching", "leaving"} /\ expd = 0 => md[a].msg # {}
         /\ \A f \in F : pres[f].st = "returning" /\ ~Again => msg[f].ret = pres[f].v
\* No mark stays forever: a pushed author has no mark without an end.
Leak == \A c \in C : md[c[2]].m = "push" => mark[c].k # "pulled" \/ mark[c].ttl # 0
=============================================================================
