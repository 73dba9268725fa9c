package histories

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"

	"fanfare/internal/sim"
)

// register is the state of an edge or of a reaction. version is the version of the newest action on a
// reaction.
type register struct {
	on      bool
	version string
}

// model is a reference model of one register. An action that is older than the newest action on a
// reaction changes nothing.
func model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return register{} },
		Step: func(state, input, _ any) (bool, any) {
			is, call := state.(register), input.(sim.Call)
			switch {
			case !call.Write:
				return call.On == is.on, is
			case call.Reaction() && call.Version < is.version:
				return true, is
			default:
				return true, register{call.On, call.Version}
			}
		},
	}
}

// linearizable reports whether the calls of one register have an order that explains their answers.
func linearizable(calls []sim.Call) bool {
	var ops []porcupine.Operation
	for _, c := range calls {
		if c.Write && c.Reaction() && c.Version == "" {
			return false // the call was answered, but its event is lost
		}
		ops = append(ops, porcupine.Operation{ClientId: c.Client + 1, Input: c, Call: c.Began, Return: c.Ended})
	}
	return porcupine.CheckOperationsTimeout(model(), ops, 5*time.Minute) == porcupine.Ok
}

// byRegister returns the calls of each register.
func byRegister(calls []sim.Call) map[string][]sim.Call {
	of := map[string][]sim.Call{}
	for _, c := range calls {
		of[c.Register] = append(of[c.Register], c)
	}
	return of
}

func TestAModelOfARegister(t *testing.T) {
	write := func(register string, on bool, version string, began, ended int64) sim.Call {
		return sim.Call{Register: register, Write: true, On: on, Version: version, Began: began, Ended: ended}
	}
	read := func(register string, on bool, began, ended int64) sim.Call {
		return sim.Call{Register: register, On: on, Began: began, Ended: ended}
	}
	const edge, like = "follow a b", "like a p"
	for name, of := range map[string]struct {
		calls []sim.Call
		ok    bool
	}{
		"fresh answers":                            {[]sim.Call{write(edge, true, "", 1, 2), read(edge, true, 3, 4), write(edge, false, "", 5, 6), read(edge, false, 7, 8)}, true},
		"a stale answer":                           {[]sim.Call{write(edge, true, "", 1, 2), read(edge, false, 3, 4)}, false},
		"a read beside the write":                  {[]sim.Call{write(edge, true, "", 1, 4), read(edge, false, 2, 3)}, true},
		"the old state after the new one":          {[]sim.Call{write(edge, true, "", 1, 8), read(edge, true, 2, 3), read(edge, false, 4, 5)}, false},
		"a write without an answer that happened":  {[]sim.Call{write(edge, true, "", 1, sim.Never), read(edge, false, 2, 3), read(edge, true, 4, 5)}, true},
		"a write without an answer happened twice": {[]sim.Call{write(edge, true, "", 1, sim.Never), read(edge, true, 2, 3), write(edge, false, "", 4, 5), read(edge, true, 6, 7)}, false},
		"a state that nobody wrote":                {[]sim.Call{read(edge, true, 1, 2)}, false},
		"the newest reaction wins":                 {[]sim.Call{write(like, true, "1", 1, 9), write(like, false, "2", 2, 9), read(like, false, 10, 11)}, true},
		"an older reaction wins":                   {[]sim.Call{write(like, true, "1", 1, 9), write(like, false, "2", 2, 9), read(like, true, 10, 11)}, false},
		"an answered reaction without an event":    {[]sim.Call{write(like, false, "", 1, 2)}, false},
	} {
		assert.Equal(t, of.ok, linearizable(of.calls), name)
	}
}
