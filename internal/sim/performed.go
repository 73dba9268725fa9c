package sim

import (
	"runtime"
	"strings"

	"fanfare/messages"
)

// performed counts the operations of the product that the storms of a world perform: the functions
// of the product on the stack of each call of a port, the handled messages, and the sent events.
// The calls of an operation or a message count once it has ended without an error. performed is nil
// if Options.Watch is not set.
type performed struct {
	done Counters
	// open has, by name, the functions of operations and messages that have not ended.
	open map[string]Counters
	// names has the functions at a place in the program.
	names map[uintptr][]string
}

func newPerformed(o Options) *performed {
	if !o.Watch {
		return nil
	}
	return &performed{done: Counters{}, open: map[string]Counters{}, names: map[uintptr][]string{}}
}

// stack returns the callers of the function that calls a port.
func (p *performed) stack() []uintptr {
	if p == nil {
		return nil
	}
	var places [80]uintptr
	return append([]uintptr(nil), places[:runtime.Callers(3, places[:])]...)
}

// called records a call that is answered while faults are on.
func (w *World) called(c *call) {
	p := w.performed
	if p == nil || w.faults == (Rates{}) {
		return
	}
	of := p.done
	if name, _, _ := strings.Cut(c.op, " beside "); w.opens(name) {
		if of = p.open[name]; of == nil {
			of = Counters{}
			p.open[name] = of
		}
	}
	for _, place := range c.stack {
		for _, function := range p.functions(place) {
			of[function]++
		}
	}
	if c.err == nil && c.kind == "events.send" {
		for _, e := range c.events {
			p.done[sent(messages.KindOf(e))]++
		}
	}
}

// called counts a function that the storms have called. It ignores "".
func (p *performed) called(function string) {
	if p != nil && function != "" {
		p.done[function]++
	}
}

// opens reports whether a call belongs to an operation or a message whose end the world will see.
func (w *World) opens(op string) bool {
	_, message := w.began[op]
	return message || strings.HasPrefix(op, "op")
}

// ended counts the calls of an operation or a message that ended without an error.
func (p *performed) ended(op string, err error) {
	if p == nil {
		return
	}
	if err == nil {
		for function, n := range p.open[op] {
			p.done[function] += n
		}
	}
	delete(p.open, op)
}

// answered counts a message that was handled in a storm.
func (w *World) answered(payload []byte, op string) {
	if w.performed == nil {
		return
	}
	w.performed.ended(op, nil)
	if e := decoded(payload); e != nil && w.faults != (Rates{}) {
		w.performed.done[handled(messages.KindOf(e))]++
	}
}

// handled returns the name for a handled message, and sent returns the name for an event that was
// sent to other programs.
func handled(kind messages.Kind) string { return "handled " + string(kind) }
func sent(kind messages.Kind) string    { return "sent " + string(kind) }

// functions returns the functions of the module at a place, with the names that Operation uses.
func (p *performed) functions(place uintptr) []string {
	names, known := p.names[place]
	if known {
		return names
	}
	for frames, more := runtime.CallersFrames([]uintptr{place}), true; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		if strings.Contains(frame.Function, "/internal/") {
			names = append(names, nameOfFunction(frame.Function))
		}
	}
	p.names[place] = names
	return names
}

// nameOfFunction removes the folders of the package, and the number of a function literal.
func nameOfFunction(function string) string {
	function = function[strings.LastIndex(function, "/")+1:]
	for _, inner := range []string{".func", "-range", ".gowrap", "[...]"} {
		function, _, _ = strings.Cut(function, inner)
	}
	return function
}

// performances returns the operations that the world's storms performed, and the faults that
// represent calls of an operator.
func (w *World) performances() Counters {
	if w.performed == nil {
		return nil
	}
	for _, kind := range Faults() {
		if w.Fired[kind] > 0 {
			w.performed.done[kind] += w.Fired[kind]
		}
	}
	return w.performed.done
}
