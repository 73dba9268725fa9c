//go:build e2e

package e2e

import (
	"flag"
	mathrand "math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var bothRounds = flag.Int("both-rounds", 1, "kills of both machines of a pair")

// split returns a running pair, the cable between its machines, the network of each machine to the register, and
// callers.
func split(t *testing.T) (one, two *upright, p, s *process, c cable, registers [2]*toxiproxy.Proxy, l *callers) {
	t.Helper()
	one, two, registers = registered(t)
	c = wired(t, one, two)
	p, s = one.start(t), two.standby(t)
	one.paired(t, "primary")
	two.paired(t, "standby")
	l = callBoth(t, one, two)
	l.more(one)
	return one, two, p, s, c, registers, l
}

// unreached cuts a machine off from the register, or lets it reach the register again.
func unreached(t *testing.T, register *toxiproxy.Proxy, is bool) {
	t.Helper()
	if is {
		addFault(t, register, fault{kind: "timeout", attributes: `"timeout": 0`}, "upstream")
		return
	}
	require.NoError(t, register.Toxics.RemoveToxic(t.Context(), "fault"))
}

// stays expects that a machine stays the standby of a primary that answers alone, although the standby fails over by itself, and
// that operators see what a promotion would lose.
func (u *upright) stays(t *testing.T) {
	t.Helper()
	u.sees(t, "/admin/pair", `"mode":"alone"`)
	began := time.Now()
	await(t, "two times of a failover", func() bool { return time.Since(began) > 6*time.Second })
	_, stderr, err := fanfare(t, u.env, "promote", "--primary-is-gone", "--yes", "--admin", u.admin)
	require.Error(t, err, "a standby that lacks answered writes is promoted")
	assert.Contains(t, stderr, "its primary has not paired with it")
	assert.Contains(t, stderr, "--accept-loss")
	_, asked, err := fanfare(t, u.env, "promote", "--accept-loss", "--admin", u.admin) // nobody confirms
	require.Error(t, err)
	status, _, err := fanfare(t, u.env, "pair", "status", "--admin", u.admin)
	require.NoError(t, err)
	for _, text := range []string{asked, status} {
		assert.Contains(t, text, "the register, read ")
		assert.Contains(t, text, ", alone since ")
	}
}

// TestAPrimaryAloneKeepsItsPlace cuts the link of a pair while both machines reach the register: the primary answers alone. Then
// the primary does not reach the register either, and answers nothing after the promise of the register.
func TestAPrimaryAloneKeepsItsPlace(t *testing.T) {
	t.Parallel()
	one, two, p, s, c, registers, l := split(t)
	c.spoil(t, "timeout", `"timeout": 0`, "upstream", "downstream")
	p.logs(t, "alone: this machine has the only copy of new writes")
	l.more(one)
	one.sees(t, "/readyz", "this machine has the only copy")
	two.stays(t)
	l.more(one)

	unreached(t, registers[0], true)
	one.sees(t, "/readyz", "the register is away")
	one.sees(t, "/readyz", "not ready")
	const refused = `fanfare_pair_refused_total{reason="unpromised"}`
	refuses := func() {
		before := readings(t.Context(), one.admin)[refused]
		await(t, "refusals", func() bool { return readings(t.Context(), one.admin)[refused] > before+20 })
	}
	refuses() // then the callers have noted the last answers
	before := l.count(one)
	refuses()
	assert.Equal(t, before, l.count(one), "a primary without a promise answers")
	unreached(t, registers[0], false)
	l.more(one)
	c.mend()
	one.paired(t, "primary")
	two.paired(t, "standby")
	l.more(one)
	assert.Zero(t, l.count(two), "a standby answers nothing")
	l.end()
	l.kept(one)
	p.stop(t)
	s.stop(t)
}

// TestAPrimaryWithoutTheRegisterIsReplaced cuts the primary of a pair off from its standby and from the register: the standby takes
// over by itself. Then the new primary is stopped for longer than its lease, and the other machine takes over.
func TestAPrimaryWithoutTheRegisterIsReplaced(t *testing.T) {
	t.Parallel()
	one, two, p, s, c, registers, l := split(t)
	term := two.paired(t, "standby")
	l.promoted(two)
	unreached(t, registers[0], true)
	c.spoil(t, "timeout", `"timeout": 0`, "upstream", "downstream")
	l.more(two)
	one.sees(t, "/readyz", "promise of the standby")
	s.logs(t, "the primary does not answer: this standby becomes the primary")
	unreached(t, registers[0], false)
	c.mend()
	p.logs(t, "the other machine has become the primary")
	p.logs(t, "gets a new copy of all data") // it may have writes that nobody confirmed
	next := two.paired(t, "primary")
	assert.Greater(t, next, term)
	assert.Equal(t, next, one.paired(t, "standby"))

	l.promoted(one)
	s.signal(t, syscall.SIGSTOP)
	l.more(one)
	s.signal(t, syscall.SIGCONT)
	s.logs(t, "the other machine has become the primary")
	last := one.paired(t, "primary")
	assert.Greater(t, last, next)
	assert.Equal(t, last, two.paired(t, "standby"))
	l.more(one)
	l.end()
	l.kept(one)
	p.stop(t)
	s.stop(t)
}

// TestAPrimaryIsLostWhileItIsAlone stops the standby of a pair in order, kills both machines, and then loses the primary while it
// answers alone: the standby takes over only when an operator gives up the writes since then.
func TestAPrimaryIsLostWhileItIsAlone(t *testing.T) {
	t.Parallel()
	one, two, p, s, _, _, l := split(t)
	disk := two.disk(t)
	s.stop(t)
	p.logs(t, "alone: this machine has the only copy of new writes")
	l.more(one)
	s = two.standby(t)
	one.paired(t, "primary")
	two.paired(t, "standby")
	assert.Equal(t, disk, two.disk(t), "a standby that was away gets a copy of all data")

	p.kill(t)
	s.kill(t)
	p = one.again(t)
	s = two.standby(t)
	one.paired(t, "primary")
	two.paired(t, "standby")
	l.more(one)

	known := l.known()
	s.kill(t)
	p.logs(t, "alone: this machine has the only copy of new writes")
	l.more(one)
	p.kill(t)
	s = two.standby(t)
	two.stays(t)
	assert.Greater(t, l.known(), known)
	l.forget(known)
	two.fanfare(t, "promote", "--accept-loss", "--yes", "--admin", two.admin)
	l.promoted(two)
	l.more(two)
	p = one.again(t)
	p.logs(t, "gets a new copy of all data")
	two.paired(t, "primary")
	one.paired(t, "standby")
	l.more(two)
	l.end()
	l.kept(two)
	p.stop(t)
	s.stop(t)
}

// TestBothMachinesOfAPairAreKilled kills both machines of a pair, at drawn moments and in a drawn order. The second
// machine may have taken over meanwhile. Half of the kills come before the two are a pair again. No answered write is ever lost.
func TestBothMachinesOfAPairAreKilled(t *testing.T) {
	t.Parallel()
	one, two, p, s, _, _, l := split(t)
	machines, processes := []*upright{one, two}, []*process{p, s}
	random := mathrand.New(mathrand.NewPCG(3, 3))
	until := func(most int) {
		due := time.Now().Add(time.Duration(random.IntN(most)) * time.Millisecond)
		await(t, "the moment", func() bool { return time.Now().After(due) })
	}
	for round := range *bothRounds {
		until(2000)
		for _, i := range random.Perm(2) {
			processes[i].kill(t)
			until(1 + 5000*random.IntN(2))
		}
		known := l.known()
		for _, i := range random.Perm(2) {
			processes[i] = machines[i].standby(t)
			until(1 + 5000*random.IntN(2))
		}
		await(t, "answered writes", func() bool { return l.known() > known })
		if round < *bothRounds-1 && random.IntN(2) == 0 {
			continue
		}
		primary := one
		await(t, "a pair", func() bool {
			primary = one
			if readings(t.Context(), two.admin)["fanfare_pair_primary"] == 1 {
				primary = two
			}
			values := readings(t.Context(), primary.admin)
			return values["fanfare_pair_primary"] == 1 && values["fanfare_pair_paired"] == 1
		})
		l.more(primary)
		l.kept(primary)
	}
	l.end()
	for _, p := range processes {
		p.stop(t)
	}
}
