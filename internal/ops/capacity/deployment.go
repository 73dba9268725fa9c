package capacity

import "errors"

// The ways to pay for the table, and the ways to reach the table and the queues.
const (
	OnDemand    = "on-demand"
	Provisioned = "provisioned"
	// Addresses gives each task a public address. NAT gives all tasks two gateways.
	Addresses = "addresses"
	NAT       = "nat"
)

// Deployment describes how the network is deployed and paid for. Its tags are like the tags of Load.
type Deployment struct {
	// Billing is OnDemand or Provisioned. The next four fields are for Provisioned.
	Billing      string  `json:"billing"`
	TableUse     float64 `json:"table_use" flag:"table-use 0.61 0.01 1" help:"share of provisioned write units that is used, from 0.01 to 1"`
	ReadUse      float64 `json:"table_use_reads" flag:"table-use-reads 0.52 0.01 1" help:"share of provisioned read units that is used, from 0.01 to 1"`
	ReservedWCU  float64 `json:"reserved_wcu" flag:"reserved-wcu 0 0 1e11" help:"write units a second that are reserved for a year"`
	ReservedRCU  float64 `json:"reserved_rcu" flag:"reserved-rcu 0 0 1e11" help:"read units a second that are reserved for a year"`
	MaxWrite     float64 `json:"max_write_units" flag:"max-write 0 0 1e11" help:"the table's own ceiling of write units a second (0: none)"`
	MaxRead      float64 `json:"max_read_units" flag:"max-read 0 0 1e11" help:"the table's own ceiling of read units a second (0: none)"`
	Network      string  `json:"network"`
	Endpoint     bool    `json:"endpoint"`
	Recovery     bool    `json:"point_in_time_recovery"`
	Support      bool    `json:"support"`
	ScrapeEvery  float64 `json:"scrape_seconds" flag:"scrape-seconds 30 0 86400" help:"seconds between two scrapes of a process, each of which asks SQS (0: none)"`
	givenUse     bool
	givenReserve bool
}

// DefaultDeployment returns the deployment of deploy/cloudformation, but with public addresses
// instead of NAT gateways.
func DefaultDeployment() Deployment {
	d := Deployment{Billing: OnDemand, Network: Addresses, Endpoint: true, Recovery: true}
	setDefaults(d.Settings())
	return d
}

// Settings returns the numbers of d that flags set.
func (d *Deployment) Settings() []Setting { return settings(d) }

// Given records which flags were given, so that Check refuses flags without an effect.
func (d *Deployment) Given(changed func(flag string) bool) {
	d.givenUse = changed("table-use") || changed("table-use-reads")
	d.givenReserve = changed("reserved-wcu") || changed("reserved-rcu")
}

// Check returns an error for each impossible value of d, and for values that contradict each other.
func (d Deployment) Check() error {
	f := checkAll(d.Settings())
	f.add(d.Billing != OnDemand && d.Billing != Provisioned, "--billing: %q is neither %s nor %s", d.Billing, OnDemand, Provisioned)
	f.add(d.Network != Addresses && d.Network != NAT, "--network: %q is neither %s nor %s", d.Network, Addresses, NAT)
	f.add(d.Billing == OnDemand && d.givenUse, "--table-use and --table-use-reads are for --billing provisioned: a table on demand has no units that nobody uses")
	f.add(d.Billing == OnDemand && (d.givenReserve || d.ReservedWCU+d.ReservedRCU > 0), "--reserved-wcu and --reserved-rcu are for --billing provisioned: units on demand cannot be reserved")
	f.add(d.Billing == Provisioned && d.MaxWrite+d.MaxRead > 0, "--max-write and --max-read are for --billing on-demand: with provisioned the policies of the table have a maximum")
	f.add(d.Network == Addresses && !d.Endpoint, "--endpoint=false is for --network nat: with addresses the traffic of the table costs nothing")
	return errors.Join(f...)
}
