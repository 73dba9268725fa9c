------------------------------ MODULE Removal ------------------------------
(* The removal of a user, who may return with the same id:                     *)
(* docs/decisions/0030-import.md. A step is one request to the table or a      *)
(* queue, and any two processes interleave between requests. The user R is     *)
(* removed; the user O always has a profile. Each rule is a constant: TRUE is  *)
(* the protocol, and FALSE is the protocol without the rule.                   *)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
  K,         \* kinds of record: own (a follow, mute or block of O by R), other (a follow of R by O), block (a block of R by O), like (a like of O's post by R), post (a post by R)
  C, D,      \* calls that make a record, calls of DELETE /v1/me
  Returns,   \* profiles that R makes after a removal
  Tries,     \* maximum number of tries of a call whose condition failed
  Crashes,   \* number of processes that die, and of answers that are lost
  Slow,      \* number of ids made by a clock that is behind by Lag ids
  Lag,
  Damages,   \* number of profiles that the table loses
  Years,     \* number of blocks that end because a year has passed
  Hour,      \* no message waits for longer than an hour
  \* Rules
  EventFirst,    \* F1: the event is sent before the transaction is made
  NoteWithIt,    \* F1: the transaction that deletes the profile writes the note
  OnlyRaise,     \* F1: only a higher event replaces a note, and only a higher event removes a profile
  NoteSame,      \* F2: a new profile is made on the condition of the note that was read
  AfterNew,      \* F2: the `after` of a new profile is a new id above the event e, and not e
  Gap,           \* F2: `after` is at least Lag ids above e
  GapNow,        \* F2: `after` is at least Lag ids above the clock, too
  Renew,         \* F3: a repeated call changes nothing only if the record is above `after`
  Above,         \* F3: versions of records are above `after`
  EventAbove,    \* F1: the event of a removal is above `after`
  OnVersion,     \* F4: the sweep deletes a record on the condition of the version that it read
  PageFirst,     \* F4: the sweep reads the record first and then the profile, and this profile decides
  TakeAll,       \* F4: without a profile the sweep also deletes records above e
  SpareNew,      \* F4: with a profile the sweep deletes only records below `after`
  Withdrawn,     \* F4a: the version that takes a like back is below all versions of a new life
  Overtaken,     \* F5: a message below the newest removal is acked
  FindNoNote,    \* F6: the audit finds a lost profile only if the note is absent
  MendNoNote,    \* F6: the audit's repair makes a profile only if the note is absent
  KeepBlock,     \* F7: the block of R by O stays
  BlockByNote,   \* F7: the block ends only while R has neither a profile nor a note
  LateLook,      \* F8a: the sweep runs once more after an hour
  HourAfter,     \* F8a: the hour begins when the profile is deleted
  DropLate,      \* F8: workers drop events of a former life
  NoteLong       \* the note outlives every message that is older than the note

VARIABLES n, slow, crashes, damages, years, profile, note, life, made, rec, ver, lifeOf, cnt, posts, buried, key,
  evs, call, del, q, w, ret, audit, owed, owedPosts, bad

vars == <<n, slow, crashes, damages, years, profile, note, life, made, rec, ver, lifeOf, cnt, posts, buried, key,
  evs, call, del, q, w, ret, audit, owed, owedPosts, bad>>

table   == <<profile, note, life, made, rec, ver, lifeOf, cnt, posts, buried, key>>
records == <<rec, ver, lifeOf, cnt, posts, buried, key>>
clock   == <<n, slow>>
faults  == <<crashes, damages, years>>
ghosts  == <<owed, owedPosts, bad>>

Max(a, b) == IF a > b THEN a ELSE b
All == 1000000
None == [there |-> FALSE, after |-> 0, life |-> 0, e |-> 0]
Ended == {"idle", "done"}
Symm == Permutations(C) \union Permutations(D)

Idle == [pc |-> "idle", k |-> "none", after |-> 0, life |-> 0, r |-> 0, v |-> 0, vlife |-> 0, tries |-> 0]
Rest == [pc |-> "idle", bound |-> 0, todo |-> {}, k |-> "none", v |-> 0, removed |-> FALSE, last |-> FALSE]

Init ==
  /\ n = 0 /\ slow = 0 /\ crashes = 0 /\ damages = 0 /\ years = 0
  /\ profile = [there |-> TRUE, after |-> 0, life |-> 1, e |-> 0] /\ note = 0 /\ life = 1 /\ made = 0
  /\ rec = [k \in K |-> 0] /\ ver = [k \in K |-> 0] /\ lifeOf = [k \in K |-> 0] /\ cnt = [k \in K |-> 0]
  /\ posts = {} /\ buried = {} /\ key = [v |-> 0, life |-> 0] /\ evs = {}
  /\ call = [c \in C |-> Idle]
  /\ del = [d \in D |-> [pc |-> "idle", e |-> 0, after |-> 0, life |-> 0]]
  /\ q = {} /\ w = [d \in D |-> Rest] /\ ret = [pc |-> "idle", e |-> 0] /\ audit = "idle"
  /\ owed = [k \in K |-> FALSE] /\ owedPosts = {} /\ bad = {}

\* An id above a lower bound, by a clock that is right or behind.
Ids(floor) == {Max(100 * (n + 1), floor + n + 1)} \union
  (IF slow < Slow THEN {Max(100 * (n + 1 - Lag) - 50, floor + n + 1)} ELSE {})
Drawn(i, floor) == n' = n + 1 /\ slow' = slow + (IF i = Max(100 * (n + 1), floor + n + 1) THEN 0 ELSE 1)
Now == IF profile.there THEN profile.life ELSE 0

\* The newest removal: the note names the removal, and after a return the new profile does.
Newest == Max(note, profile.e)

\* ------------------------------------------------------------ calls of users
Answered(k, c) == owed' = IF profile.there /\ profile.life = call[c].life THEN [owed EXCEPT ![k] = TRUE] ELSE owed

Read(c, k) ==
  /\ call[c].pc = "idle" /\ profile.there
  /\ IF k \in {"own", "other", "block"} /\ rec[k] # 0 /\ (~Renew \/ rec[k] > profile.after)
     THEN /\ call' = [call EXCEPT ![c].pc = "done"]
          /\ owed' = [owed EXCEPT ![k] = TRUE]
     ELSE /\ call' = [call EXCEPT ![c].pc = "draw", ![c].k = k, ![c].after = profile.after, ![c].life = profile.life,
                                  ![c].r = IF k = "post" THEN 0 ELSE IF k = "like" THEN ver[k] ELSE rec[k]]
          /\ owed' = owed
  /\ UNCHANGED <<clock, faults, table, evs, del, q, w, ret, audit, owedPosts, bad>>

Draw(c) ==
  /\ call[c].pc = "draw"
  /\ LET floor == Max(IF Above THEN call[c].after ELSE 0, IF call[c].k = "like" THEN call[c].r ELSE 0) IN
     \E i \in Ids(floor) :
       /\ Drawn(i, floor)
       /\ call' = [call EXCEPT ![c].pc = IF call[c].k = "post" THEN "bind" ELSE "put", ![c].v = i, ![c].vlife = Now]
  /\ UNCHANGED <<faults, table, evs, del, q, w, ret, audit, ghosts>>

\* A follow is refused while there is a block; a block ends the follows.
Put(c) ==
  LET k == call[c].k IN
  /\ call[c].pc = "put" /\ k \in {"own", "other", "block"}
  /\ IF k # "block" /\ "block" \in K /\ rec["block"] # 0
     THEN /\ call' = [call EXCEPT ![c].pc = "done"] /\ UNCHANGED <<rec, lifeOf, cnt, owed>>
     ELSE IF rec[k] = call[c].r
     THEN /\ rec' = [x \in K |-> IF x = k THEN call[c].v ELSE IF k = "block" THEN 0 ELSE rec[x]]
          /\ cnt' = [x \in K |-> IF x = k THEN cnt[x] + (IF call[c].r = 0 THEN 1 ELSE 0)
                                 ELSE IF k = "block" /\ rec[x] # 0 THEN cnt[x] - 1 ELSE cnt[x]]
          /\ lifeOf' = [lifeOf EXCEPT ![k] = call[c].vlife]
          /\ call' = [call EXCEPT ![c].pc = "done"]
          /\ owed' = [x \in K |-> IF x = k THEN owed[x] \/ (profile.there /\ profile.life = call[c].life)
                                  ELSE IF k = "block" THEN FALSE ELSE owed[x]]
     ELSE /\ call' = [call EXCEPT ![c] = [Idle EXCEPT !.pc = IF call[c].tries < Tries THEN "idle" ELSE "done", !.tries = call[c].tries + 1]]
          /\ UNCHANGED <<rec, lifeOf, cnt, owed>>
  /\ UNCHANGED <<clock, faults, profile, note, life, made, ver, posts, buried, key, evs, del, q, w, ret, audit, owedPosts, bad>>

\* A like is answered when its event is sent.
Send(c) ==
  /\ call[c].pc = "put" /\ call[c].k = "like"
  /\ evs' = evs \union {[k |-> "like", v |-> call[c].v, on |-> TRUE, life |-> call[c].vlife, ok |-> FALSE]}
  /\ call' = [call EXCEPT ![c].pc = "done"]
  /\ Answered("like", c)
  /\ UNCHANGED <<clock, faults, table, del, q, w, ret, audit, owedPosts, bad>>

\* A post with an Idempotency-Key, which is the same for all calls. A repeated call gets the post
\* of the first call.
Bind(c) ==
  /\ call[c].pc = "bind"
  /\ IF key.v = 0 \/ (Renew /\ key.v <= call[c].after)
     THEN /\ key' = [v |-> call[c].v, life |-> call[c].vlife]
          /\ call' = [call EXCEPT ![c].pc = "publish"] /\ owedPosts' = owedPosts
     ELSE /\ key' = key
          /\ IF key.v \in buried \/ (\E p \in posts : p.v = key.v)
             THEN /\ call' = [call EXCEPT ![c].pc = "done"]
                  /\ owedPosts' = IF profile.there /\ profile.life = call[c].life THEN owedPosts \union {key.v} ELSE owedPosts
             ELSE /\ call' = [call EXCEPT ![c].pc = "publish", ![c].v = key.v, ![c].vlife = key.life] /\ owedPosts' = owedPosts
  /\ UNCHANGED <<clock, faults, profile, note, life, made, rec, ver, lifeOf, cnt, posts, buried, evs, del, q, w, ret, audit, owed, bad>>

Publish(c) ==
  /\ call[c].pc = "publish"
  /\ evs' = evs \union {[k |-> "post", v |-> call[c].v, on |-> TRUE, life |-> call[c].vlife, ok |-> FALSE]}
  /\ call' = [call EXCEPT ![c].pc = "write"]
  /\ owedPosts' = IF profile.there /\ profile.life = call[c].life THEN owedPosts \union {call[c].v} ELSE owedPosts
  /\ UNCHANGED <<clock, faults, table, del, q, w, ret, audit, owed, bad>>

MakePost(v, l) ==
  posts' = IF v \in buried \/ (\E p \in posts : p.v = v) THEN posts ELSE posts \union {[v |-> v, life |-> l]}

Write(c) ==
  /\ call[c].pc = "write"
  /\ MakePost(call[c].v, call[c].vlife)
  /\ call' = [call EXCEPT ![c].pc = "done"]
  /\ UNCHANGED <<clock, faults, profile, note, life, made, rec, ver, lifeOf, cnt, buried, key, evs, del, q, w, ret, audit, ghosts>>

\* A process dies, or its answer is lost although the request takes effect.
CallDies(c) ==
  /\ crashes < Crashes /\ crashes' = crashes + 1
  /\ call[c].pc \notin Ended
  /\ call' = [call EXCEPT ![c].pc = "done"]
  /\ UNCHANGED <<clock, damages, years, table, evs, del, q, w, ret, audit, ghosts>>

\* ------------------------------------------------- workers of likes and posts
Former(e) == IF profile.there THEN e.v <= profile.after ELSE note # 0

WorkerReads(e) ==
  /\ e \in evs /\ ~e.ok
  /\ evs' = IF DropLate /\ e.on /\ Former(e) THEN evs \ {e} ELSE (evs \ {e}) \union {[e EXCEPT !.ok = TRUE]}
  /\ UNCHANGED <<clock, faults, table, call, del, q, w, ret, audit, ghosts>>

WorkerWrites(e) ==
  /\ e \in evs /\ e.ok
  /\ evs' = evs \ {e}
  /\ IF e.k = "post" THEN MakePost(e.v, e.life) /\ UNCHANGED <<rec, ver, lifeOf, cnt>>
     ELSE /\ posts' = posts
          /\ IF e.v <= ver["like"] THEN UNCHANGED <<rec, ver, lifeOf, cnt>>
             ELSE /\ ver' = [ver EXCEPT !["like"] = e.v]
                  /\ rec' = [rec EXCEPT !["like"] = IF e.on THEN e.v ELSE 0]
                  /\ lifeOf' = [lifeOf EXCEPT !["like"] = e.life]
                  /\ cnt' = [cnt EXCEPT !["like"] = IF e.on THEN 1 ELSE 0]
  /\ UNCHANGED <<clock, faults, profile, note, life, made, buried, key, call, del, q, w, ret, audit, ghosts>>

\* ------------------------------------------------------------------ removal
Leaves(d) ==
          /\ profile' = None
          /\ bad' = IF profile.life > del[d].life THEN bad \union {"old"} ELSE bad
          /\ owed' = [k \in K |-> k = "block" /\ owed[k]] /\ owedPosts' = {}

\* A call of DELETE without a profile sends nothing in this model.
Asks(d) ==
  /\ del[d].pc = "idle" /\ profile.there
  /\ LET floor == IF EventAbove THEN profile.after ELSE 0 IN
     \E i \in Ids(floor) : Drawn(i, floor)
       /\ del' = [del EXCEPT ![d] = [pc |-> IF EventFirst THEN "send" ELSE "tx", e |-> i, after |-> profile.after, life |-> profile.life]]
  /\ UNCHANGED <<faults, table, evs, call, q, w, ret, audit, ghosts>>

Sends(d) ==
  /\ del[d].pc = "send"
  /\ q' = q \union {d}
  /\ del' = [del EXCEPT ![d].pc = IF EventFirst THEN "tx" ELSE "done"]
  /\ UNCHANGED <<clock, faults, table, evs, call, w, ret, audit, ghosts>>

After(d) == IF EventFirst THEN "done" ELSE "send"

Removes(d) ==
  /\ del[d].pc = "tx"
  /\ IF profile.there /\ (~OnlyRaise \/ (profile.after = del[d].after /\ del[d].e > note))
     THEN /\ Leaves(d)
          /\ note' = IF NoteWithIt THEN del[d].e ELSE note
          /\ del' = [del EXCEPT ![d].pc = IF NoteWithIt THEN After(d) ELSE "note"]
     ELSE del' = [del EXCEPT ![d].pc = After(d)] /\ UNCHANGED <<profile, note, owed, owedPosts, bad>>
  /\ UNCHANGED <<clock, faults, life, made, records, evs, call, q, w, ret, audit>>

Notes(d) ==
  /\ del[d].pc = "note"
  /\ note' = Max(note, del[d].e)
  /\ del' = [del EXCEPT ![d].pc = After(d)]
  /\ UNCHANGED <<clock, faults, profile, life, made, records, evs, call, q, w, ret, audit, ghosts>>

DelDies(d) ==
  /\ crashes < Crashes /\ crashes' = crashes + 1
  /\ del[d].pc \notin Ended
  /\ del' = [del EXCEPT ![d].pc = "done"]
  /\ UNCHANGED <<clock, damages, years, table, evs, call, q, w, ret, audit, ghosts>>

\* ------------------------------------------------------- the worker's sweep
Calm == \A c \in C : call[c].pc \in Ended \/ call[c].life = Now
\* No worker needs an hour between its read and its write, whatever the backlog.
Over == Calm /\ \A e \in evs : e.life = Now \/ (~Hour /\ ~e.ok)

\* The sweep deletes records up to this version, if the profile is as the sweep has just read it.
Bound(d, there) == IF there /\ SpareNew THEN profile.after ELSE IF TakeAll THEN All ELSE del[d].e

Take(d) ==
  /\ d \in q /\ w[d].pc = "idle"
  /\ IF Overtaken /\ del[d].e < Newest
     THEN q' = q \ {d} /\ UNCHANGED <<profile, note, w, owed, owedPosts, bad>>
     ELSE LET gone == profile.there /\ (~OnlyRaise \/ profile.after < del[d].e)
              there == profile.there /\ ~gone IN
       /\ q' = q
       /\ IF gone THEN Leaves(d) ELSE IF there THEN UNCHANGED <<profile, owed, owedPosts, bad>>
          ELSE /\ UNCHANGED <<profile, bad>> \* the profile was removed, or the table lost it
               /\ owed' = [k \in K |-> k = "block" /\ owed[k]] /\ owedPosts' = {}
       /\ note' = IF there THEN note ELSE Max(note, del[d].e)
       /\ w' = [w EXCEPT ![d] = [Rest EXCEPT !.pc = "sweep", !.todo = K, !.last = ~LateLook \/ (Over /\ (HourAfter => ~gone)),
                !.bound = Bound(d, there)]]
  /\ UNCHANGED <<clock, faults, life, made, records, evs, call, del, ret, audit>>

Stays(k) == k = "block" /\ KeepBlock

Lowest == IF posts = {} THEN 0 ELSE CHOOSE v \in {p.v : p \in posts} : \A p \in posts : v <= p.v

Looks(d) ==
  /\ w[d].pc = "sweep"
  /\ \E k \in w[d].todo :
     LET v == IF k = "post" THEN Lowest ELSE IF Stays(k) THEN 0 ELSE rec[k] IN
     IF v = 0 THEN w' = [w EXCEPT ![d].todo = @ \ {k}]
     ELSE w' = [w EXCEPT ![d].pc = "judge", ![d].k = k, ![d].v = v]
  /\ UNCHANGED <<clock, faults, table, evs, call, del, q, ret, audit, ghosts>>

Judges(d) ==
  /\ w[d].pc = "judge"
  /\ LET bound == IF PageFirst THEN Bound(d, profile.there) ELSE w[d].bound IN
     IF w[d].v <= bound THEN w' = [w EXCEPT ![d].pc = "take"]
     ELSE w' = [w EXCEPT ![d].pc = "sweep", ![d].todo = @ \ {w[d].k}]
  /\ UNCHANGED <<clock, faults, table, evs, call, del, q, ret, audit, ghosts>>

Takes(d) ==
  LET k == w[d].k IN
  /\ w[d].pc = "take"
  /\ w' = [w EXCEPT ![d].pc = "sweep", ![d].removed = TRUE, ![d].todo = IF k = "post" THEN @ ELSE @ \ {k}]
  /\ IF k = "post" THEN /\ posts' = {p \in posts : p.v # w[d].v} /\ buried' = buried \union {w[d].v}
                        /\ UNCHANGED <<rec, cnt, evs, n, slow>>
     ELSE IF k = "like"
     THEN /\ \/ Withdrawn /\ UNCHANGED <<n, slow>>
                /\ evs' = evs \union {[k |-> k, v |-> Max(w[d].v + 1, del[d].e - 1), on |-> FALSE, life |-> Now, ok |-> FALSE]}
             \/ ~Withdrawn /\ \E i \in Ids(w[d].v) : Drawn(i, w[d].v)
                /\ evs' = evs \union {[k |-> k, v |-> i, on |-> FALSE, life |-> Now, ok |-> FALSE]}
          /\ UNCHANGED <<posts, buried, rec, cnt>>
     ELSE /\ IF rec[k] # 0 /\ (~OnVersion \/ rec[k] = w[d].v)
             THEN rec' = [rec EXCEPT ![k] = 0] /\ cnt' = [cnt EXCEPT ![k] = @ - 1] ELSE UNCHANGED <<rec, cnt>>
          /\ UNCHANGED <<posts, buried, evs, n, slow>>
  /\ UNCHANGED <<faults, profile, note, life, made, ver, lifeOf, key, call, del, q, ret, audit, ghosts>>

\* The message is redelivered until a sweep removes nothing, and once more after an hour.
Ends(d) ==
  /\ w[d].pc = "sweep" /\ w[d].todo = {}
  /\ q' = IF w[d].removed \/ ~w[d].last THEN q ELSE q \ {d}
  /\ w' = [w EXCEPT ![d] = Rest]
  /\ UNCHANGED <<clock, faults, table, evs, call, del, ret, audit, ghosts>>

SweepDies(d) ==
  /\ crashes < Crashes /\ crashes' = crashes + 1
  /\ w[d].pc # "idle"
  /\ w' = [w EXCEPT ![d] = Rest]
  /\ UNCHANGED <<clock, damages, years, table, evs, call, del, q, ret, audit, ghosts>>

\* ---------------------------------------------------------------- the return
Comes ==
  /\ ret.pc = "idle" /\ ~profile.there /\ made < Returns /\ note # 0
  /\ ret' = [pc |-> "put", e |-> note]
  /\ UNCHANGED <<clock, faults, table, evs, call, del, q, w, audit, ghosts>>

Makes ==
  /\ ret.pc = "put"
  /\ ret' = [pc |-> "idle", e |-> 0]
  /\ IF ~profile.there /\ (~NoteSame \/ note = ret.e)
     THEN \E i \in Ids(ret.e) :
          /\ Drawn(i, ret.e)
          /\ profile' = [there |-> TRUE, life |-> life + 1, e |-> ret.e,
               after |-> IF ~AfterNew THEN ret.e ELSE IF ~Gap THEN i
                         ELSE IF GapNow THEN i + 100 * Lag ELSE Max(i, ret.e + 100 * Lag)]
          /\ life' = life + 1 /\ made' = made + 1 /\ note' = 0
     ELSE UNCHANGED <<n, slow, profile, note, life, made>>
  /\ UNCHANGED <<faults, records, evs, call, del, q, w, audit, ghosts>>

\* ---------------------------------------------------------- audit and repair
Left == (\E k \in K \ {"block", "like"} : cnt[k] > 0) \/ posts # {}

Finds ==
  /\ audit = "idle" /\ ~profile.there /\ Left
  /\ FindNoNote => note = 0
  /\ audit' = "mend"
  /\ bad' = IF damages = 0 THEN bad \union {"false"} ELSE bad
  /\ UNCHANGED <<clock, faults, table, evs, call, del, q, w, ret, owed, owedPosts>>

Mends ==
  /\ audit = "mend" /\ audit' = "done"
  /\ IF ~profile.there /\ (MendNoNote => note = 0)
     THEN /\ profile' = [there |-> TRUE, after |-> 0, life |-> life, e |-> 0]
          /\ bad' = IF note # 0 THEN bad \union {"raised"} ELSE bad
     ELSE UNCHANGED <<profile, bad>>
  /\ UNCHANGED <<clock, faults, note, life, made, records, evs, call, del, q, w, ret, owed, owedPosts>>

Loses ==
  /\ damages < Damages /\ damages' = damages + 1
  /\ profile.there /\ note = 0 /\ profile.e = 0
  /\ profile' = None
  /\ UNCHANGED <<clock, crashes, years, note, life, made, records, evs, call, del, q, w, ret, audit, ghosts>>

\* ------------------------------------------------------------------- time
Quiet ==
  /\ q = {} /\ evs = {} /\ ret.pc = "idle" /\ audit # "mend"
  /\ \A c \in C : call[c].pc \in Ended
  /\ \A d \in D : del[d].pc \in Ended /\ w[d].pc = "idle"

Expires ==
  /\ note # 0 /\ note' = 0
  /\ NoteLong => Quiet
  /\ UNCHANGED <<clock, faults, profile, life, made, records, evs, call, del, q, w, ret, audit, ghosts>>

YearEnds ==
  /\ years < Years /\ years' = years + 1
  /\ "block" \in K /\ rec["block"] # 0 /\ made > 0
  /\ BlockByNote => ~profile.there /\ note = 0
  /\ rec' = [rec EXCEPT !["block"] = 0] /\ cnt' = [cnt EXCEPT !["block"] = 0]
  /\ owed' = IF profile.there THEN owed ELSE [owed EXCEPT !["block"] = FALSE]
  /\ UNCHANGED <<clock, crashes, damages, profile, note, life, made, ver, lifeOf, posts, buried, key, evs, call, del, q, w, ret, audit, owedPosts, bad>>

Next ==
  \/ \E c \in C : (\E k \in K : Read(c, k)) \/ Draw(c) \/ Put(c) \/ Send(c) \/ Bind(c) \/ Publish(c) \/ Write(c) \/ CallDies(c)
  \/ \E e \in evs : WorkerReads(e) \/ WorkerWrites(e)
  \/ \E d \in D : Asks(d) \/ Sends(d) \/ Removes(d) \/ Notes(d) \/ DelDies(d)
                  \/ Take(d) \/ Looks(d) \/ Judges(d) \/ Takes(d) \/ Ends(d) \/ SweepDies(d)
  \/ Comes \/ Makes \/ Finds \/ Mends \/ Loses \/ Expires \/ YearEnds

Spec == Init /\ [][Next]_vars

\* -------------------------------------------------------------- invariants
\* The record of an answered call that began after the creation of the profile exists at rest.
Kept == Quiet => /\ \A k \in K : owed[k] => rec[k] # 0
                 /\ \A v \in owedPosts : \E p \in posts : p.v = v

\* No record of a former life exists at rest.
Gone == Quiet /\ damages = 0 =>
  /\ \A k \in K \ {"block"} : rec[k] # 0 => profile.there /\ lifeOf[k] = profile.life
  /\ \A p \in posts : profile.there /\ p.life = profile.life

\* The block of the other user exists at all times.
Held == "block" \in K /\ owed["block"] => rec["block"] # 0

\* The audit finds only damage, and its repair brings no removed user back.
True == "false" \notin bad
Removed == "raised" \notin bad

\* A removal of a former life removes no new profile.
Stands == "old" \notin bad

Counted == Quiet => \A k \in K : cnt[k] = IF rec[k] # 0 THEN 1 ELSE 0
=============================================================================
