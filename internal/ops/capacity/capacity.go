// Package capacity estimates the monthly bill of a network on AWS, line by line: capacity units,
// queue requests, storage, processes and traffic of a load. The estimate also has the limits that
// the load reaches and the cost of alternatives. Package capacity multiplies the load of the caller
// by units, which tests measure on the product's own code. `fanfare capacity` prints the result.
//
// Package capacity must never measure, nor call another system: the same load, deployment and prices
// give the same estimate on every machine and every day. No invariant depends on package capacity.
package capacity

// Estimate is the monthly bill of a load.
type Estimate struct {
	Load       Load       `json:"load"`
	Deployment Deployment `json:"deployment"`
	Region     string     `json:"region"`
	// OldestPrice is the month of the oldest price. FromMemory has the names of the prices
	// that no source confirmed.
	OldestPrice string   `json:"oldest_price"`
	FromMemory  []string `json:"prices_from_memory"`
	// Rows are the flows of one day of all users, and Total is the sum of Rows.
	Rows  []Row `json:"rows"`
	Total Row   `json:"total"`
	// PeakWrites and PeakReads are the units in the busiest second.
	PeakWrites float64 `json:"peak_wcu_per_s"`
	PeakReads  float64 `json:"peak_rcu_per_s"`
	Tasks      Tasks   `json:"tasks"`
	// Lines are the lines of the bill, and Dollars is the sum of Lines.
	Lines   []Line  `json:"lines"`
	Dollars float64 `json:"dollars_per_month"`
	// Reservation is the cheapest reservation for a year. It is nil on demand.
	Reservation *Reservation `json:"cheapest_reservation,omitempty"`
	// PullCheaper names the authors for whom pulling costs less than pushing: "always", or
	// "below" Crossover followers.
	PullCheaper string  `json:"pull_cheaper"`
	Crossover   float64 `json:"crossover_followers"`
	// Warnings are the limits that the load reaches.
	Warnings     []Warning     `json:"warnings"`
	Alternatives []Alternative `json:"alternatives"`
}

// New estimates the bill of the load l with the deployment d and the prices p. The caller must
// have checked l, d and p.
func New(l Load, d Deployment, p Prices) Estimate {
	e := Estimate{
		Load: l, Deployment: d, Region: p.Region, OldestPrice: p.Oldest(), FromMemory: p.FromMemory(),
		Rows: rows(l), Total: Row{Name: "all"},
	}
	for _, r := range e.Rows {
		e.Total = e.Total.plus(1, r)
	}
	e.Tasks = tasks(l, e.Total)
	if l.Streams > 0 { // each api process has its own tail
		tails := tailRow(l, e.Tasks.API)
		e.Rows, e.Total = append(e.Rows, tails), e.Total.plus(1, tails)
	}
	e.PeakWrites, e.PeakReads = e.Total.Writes*l.Peak/secondsADay, e.Total.Reads*l.Peak/secondsADay
	e.Lines, e.Reservation = bill(&e, p)
	for _, line := range e.Lines {
		e.Dollars += line.Dollars
	}
	if d.Support {
		line := Line{"support", support(e.Dollars, p)}
		e.Lines, e.Dollars = append(e.Lines, line), e.Dollars+line.Dollars
	}
	e.PullCheaper, e.Crossover = crossover(l, p)
	e.Warnings = warnings(&e)
	e.Alternatives = alternatives(&e, p)
	return e
}

// crossover returns the authors for whom pulling is cheaper. Pushing costs the entries and one
// delivery record for each post. Pulling costs a query of the author's posts in each read.
func crossover(l Load, p Prices) (cheaper string, followers float64) {
	entry := (p.of("table_write")+p.of("table_read")*followerBytes/readBytes)/million + p.of("storage")*entryBytes/gigabyte*l.TimelineDays/daysAMonth
	push := l.PostsPerDay * entry
	record := p.of("storage") * (planBytes + lastChunkBytes) / gigabyte * l.recordDays() / daysAMonth
	fixed := l.PostsPerDay * ((2*p.of("table_write")+p.of("table_read"))/million + record)
	if pull := l.ReadsPerDay * followeeRCU * p.of("table_read") / million; pull > push {
		return "below", fixed / (pull - push)
	}
	return "always", 0
}
