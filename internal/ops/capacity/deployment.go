package capacity

import (
	"errors"
	"fmt"
)

// The ways to pay for the table, and the ways to reach the table and the queues.
const (
	OnDemand    = "on-demand"
	Provisioned = "provisioned"
	// Addresses gives each task a public address. NAT gives all tasks two gateways.
	Addresses = "addresses"
	NAT       = "nat"
)

// Deployment describes how the network is deployed and paid for.
type Deployment struct {
	// Billing is OnDemand or Provisioned. The next four fields are for Provisioned: the used share
	// of the provisioned units, and the units that are reserved for a year and paid day and night.
	Billing      string  `json:"billing"`
	TableUse     float64 `json:"table_use"`
	ReadUse      float64 `json:"table_use_reads"`
	ReservedWCU  float64 `json:"reserved_wcu"`
	ReservedRCU  float64 `json:"reserved_rcu"`
	MaxWrite     float64 `json:"max_write_units"`
	MaxRead      float64 `json:"max_read_units"`
	Network      string  `json:"network"`
	Endpoint     bool    `json:"endpoint"`
	Recovery     bool    `json:"point_in_time_recovery"`
	Support      bool    `json:"support"`
	ScrapeEvery  float64 `json:"scrape_seconds"`
	givenUse     bool
	givenReserve bool
}

// DefaultDeployment returns the deployment of deploy/cloudformation, but with public addresses
// instead of NAT gateways.
func DefaultDeployment() Deployment {
	return Deployment{
		Billing: OnDemand, TableUse: 0.61, ReadUse: 0.52, Network: Addresses, Endpoint: true, Recovery: true, ScrapeEvery: 30,
	}
}

// Settings returns the numbers of d that flags set.
func (d *Deployment) Settings() []Setting {
	return []Setting{
		{"table-use", &d.TableUse, 0.01, 1, "share of provisioned write units that is used, from 0.01 to 1"},
		{"table-use-reads", &d.ReadUse, 0.01, 1, "share of provisioned read units that is used, from 0.01 to 1"},
		{"reserved-wcu", &d.ReservedWCU, 0, mostMany, "write units a second that are reserved for a year"},
		{"reserved-rcu", &d.ReservedRCU, 0, mostMany, "read units a second that are reserved for a year"},
		{"max-write", &d.MaxWrite, 0, mostMany, "the table's own ceiling of write units a second (0: none)"},
		{"max-read", &d.MaxRead, 0, mostMany, "the table's own ceiling of read units a second (0: none)"},
		{"scrape-seconds", &d.ScrapeEvery, 0, secondsADay, "seconds between two scrapes of a process, each of which asks SQS (0: none)"},
	}
}

// Given records which flags were given, so that Check refuses flags without an effect.
func (d *Deployment) Given(changed func(flag string) bool) {
	d.givenUse = changed("table-use") || changed("table-use-reads")
	d.givenReserve = changed("reserved-wcu") || changed("reserved-rcu")
}

// Check returns an error for each impossible value of d, and for values that contradict each other.
func (d Deployment) Check() error {
	faults := checkAll(d.Settings())
	if d.Billing != OnDemand && d.Billing != Provisioned {
		faults = append(faults, fmt.Errorf("--billing: %q is neither %s nor %s", d.Billing, OnDemand, Provisioned))
	}
	if d.Network != Addresses && d.Network != NAT {
		faults = append(faults, fmt.Errorf("--network: %q is neither %s nor %s", d.Network, Addresses, NAT))
	}
	if d.Billing == OnDemand && d.givenUse {
		faults = append(faults, errors.New("--table-use and --table-use-reads are for --billing provisioned: a table on demand has no units that nobody uses"))
	}
	if d.Billing == OnDemand && (d.givenReserve || d.ReservedWCU+d.ReservedRCU > 0) {
		faults = append(faults, errors.New("--reserved-wcu and --reserved-rcu are for --billing provisioned: units on demand cannot be reserved"))
	}
	if d.Billing == Provisioned && d.MaxWrite+d.MaxRead > 0 {
		faults = append(faults, errors.New("--max-write and --max-read are for --billing on-demand: with provisioned the policies of the table have a maximum"))
	}
	if d.Network == Addresses && !d.Endpoint {
		faults = append(faults, errors.New("--endpoint=false is for --network nat: with addresses the traffic of the table costs nothing"))
	}
	return errors.Join(faults...)
}
