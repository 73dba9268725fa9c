package capacity

import "strings"

// referenceNetwork is a network of docs/CAPACITY.md.
type referenceNetwork struct {
	name             string
	users, followers float64
}

func referenceNetworks() []referenceNetwork {
	return []referenceNetwork{{"10 k × 50", 1e4, 50}, {"100 k × 100", 1e5, 100}, {"1 M × 100", 1e6, 100}, {"10 M × 200", 1e7, 200}}
}

// load returns the default load with the size of n, and with a share of users with live homes.
func (n referenceNetwork) load(streams float64) Load {
	l := DefaultLoad()
	l.Users, l.Followers, l.Streams = n.users, n.followers, streams
	return l
}

const referenceStreams = 0.01

// Reference returns the table of docs/CAPACITY.md at p, in Markdown: a column for the bill of each network.
func Reference(p Prices) string {
	heading, names, cells := "| $ a month |", []string{}, map[string]string{}
	plain := strings.NewReplacer("$", "", "?", "–")
	add := func(name, cost string) {
		if cells[name] == "" {
			names = append(names, name)
		}
		cells[name] += " " + plain.Replace(cost) + " |"
	}
	for _, n := range referenceNetworks() {
		heading += " " + n.name + " |"
		d := DefaultDeployment()
		e := New(n.load(0), d, p)
		for _, line := range e.Lines {
			name, _, _ := strings.Cut(line.Name, " (")
			add(name, dollars(line.Dollars))
		}
		add("**all, on demand**", dollars(e.Dollars))
		add("and 1 % of the users on live homes", dollars(New(n.load(referenceStreams), d, p).Dollars))
		d.Billing = Provisioned
		provisioned := New(n.load(referenceStreams), d, p)
		add("the same, provisioned", dollars(provisioned.Dollars))
		add("the same, with the cheapest reservation of a year", dollars(provisioned.Dollars-provisioned.Reservation.Saves))
		add("*one fanfare up*", e.Alternatives[0].cost())
	}
	text := heading + "\n" + strings.Repeat("|---", len(referenceNetworks())+1) + "|\n"
	for _, name := range names {
		text += "| " + name + " |" + cells[name] + "\n"
	}
	return text
}
