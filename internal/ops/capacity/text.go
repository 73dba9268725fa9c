package capacity

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// String returns the text that `fanfare capacity` prints.
func (e Estimate) String() string {
	var s strings.Builder
	l := e.Load
	fmt.Fprintf(&s, "%s users, %s followers each; each day %s posts, %s home pages, %s likes each; peak %s x the average\n\n",
		Number(l.Users), Number(l.Followers), Number(l.PostsPerDay), Number(l.ReadsPerDay), Number(l.LikesPerDay), Number(l.Peak))
	fmt.Fprintf(&s, "%-25s %16s %16s %16s %16s %10s %10s\n", "in a day", "number", "WCU", "RCU", "SQS requests", "egress GB", "stored GB")
	for _, r := range append(e.Rows, e.Total) {
		count := Number(math.Round(r.Count))
		if r.Name == e.Total.Name {
			count = ""
		}
		fmt.Fprintf(&s, "  %-23s %16s %16s %16s %16s %10s %10s\n", r.Name, count, Number(math.Round(r.Writes)), Number(math.Round(r.Reads)),
			Number(math.Round(r.Requests)), Number(r.Egress), Number(r.Stored))
	}
	fmt.Fprintf(&s, "  at the peak %s WCU/s and %s RCU/s; tasks: %s api, %s fanout, %s likeagg\n\n",
		Number(e.PeakWrites), Number(e.PeakReads), Number(e.Tasks.API), Number(e.Tasks.FanOut), Number(e.Tasks.LikeAgg))
	fmt.Fprintf(&s, "a month on AWS, %s, %s\n", e.Region, e.Deployment.Billing)
	for _, line := range e.Lines {
		fmt.Fprintf(&s, "  %-23s %16s\n", line.Name, dollars(line.Dollars))
	}
	fmt.Fprintf(&s, "  %-23s %16s\n", "all", dollars(e.Dollars))
	if r := e.Reservation; r != nil {
		fmt.Fprintf(&s, "  reserving %s WCU and %s RCU for a year, the cheapest number, saves %s of the whole\n", Number(math.Round(r.WCU)), Number(math.Round(r.RCU)), dollars(r.Saves))
	}
	fmt.Fprintf(&s, "\nother ways, by arithmetic: none of them was run beside this one\n")
	for _, a := range e.Alternatives {
		fmt.Fprintf(&s, "  %-35s %10s  %s\n", a.Name, a.cost(), a.Note)
	}
	fmt.Fprintf(&s, "  %s\n\n", e.verdict())
	for _, w := range e.Warnings {
		fmt.Fprintf(&s, "limit, %s: %s\n", w.Limit, w.Text)
	}
	if e.PullCheaper == "always" {
		s.WriteString("pulling an author is cheaper at any number of followers: followers read too seldom for the posts\n")
	} else {
		fmt.Fprintf(&s, "pulling an author is cheaper below %s followers, pushing above\n", Number(e.Crossover))
	}
	fmt.Fprintf(&s, "prices: the oldest is of %s", e.OldestPrice)
	if len(e.FromMemory) > 0 {
		fmt.Fprintf(&s, "; from memory: %s", strings.Join(e.FromMemory, ", "))
	}
	return s.String() + "\n"
}

// dollars formats dollars. From 10 dollars on, it omits the cents.
func dollars(v float64) string {
	if math.Abs(v) >= 10 {
		v = math.Round(v)
	}
	return "$" + Number(v)
}

// Number formats three significant digits of v, and groups the digits of large numbers by three.
func Number(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "?"
	case v == 0:
		return "0"
	case math.Abs(v) < 1000:
		digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
		text := strconv.FormatFloat(v, 'f', max(0, digits), 64)
		if strings.Contains(text, ".") {
			text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
		}
		return text
	}
	text := strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
