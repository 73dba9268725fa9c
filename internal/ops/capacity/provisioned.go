package capacity

import (
	"math"
	"slices"
)

// Reservation is a number of units that are paid day and night for a year, at a lower price.
type Reservation struct {
	WCU float64 `json:"wcu"`
	RCU float64 `json:"rcu"`
	// Saves is the money that the reservation saves in a month.
	Saves float64 `json:"saves_per_month"`
}

// throughput returns the lines for the table's writes and reads, and the cheapest
// reservation of provisioned units.
func throughput(e *Estimate, p Prices) ([]Line, *Reservation) {
	d, t := e.Deployment, e.Total
	if d.Billing != Provisioned {
		perMonth := daysAMonth / million
		return []Line{{"table writes", t.Writes * perMonth * p.of("table_write")}, {"table reads", t.Reads * perMonth * p.of("table_read")}}, nil
	}
	day := dayOf(e.Load.Peak)
	writes := hourly{day, t.Writes / secondsADay / d.TableUse, p.of("provisioned_write"), p.of("reserved_discount")}
	reads := hourly{day, t.Reads / secondsADay / d.ReadUse, p.of("provisioned_read"), p.of("reserved_discount")}
	best := Reservation{WCU: writes.cheapest(), RCU: reads.cheapest()}
	best.Saves = writes.dollars(0) - writes.dollars(best.WCU) + reads.dollars(0) - reads.dollars(best.RCU)
	return []Line{{"table writes", writes.dollars(d.ReservedWCU)}, {"table reads", reads.dollars(d.ReservedRCU)}}, &best
}

// hourly has the provisioned units of each hour of a day as a day with the mean 1 and the mean of the
// units, the price of a unit in an hour, and the discount for reserved units.
type hourly struct {
	day                   [hoursADay]float64
	mean, price, discount float64
}

// dollars returns the monthly price with a number of reserved units.
func (h hourly) dollars(reserved float64) float64 {
	beyond := 0.
	for _, share := range h.day {
		beyond += math.Max(0, share*h.mean-reserved)
	}
	return daysAMonth * h.price * (beyond + hoursADay*reserved*(1-h.discount))
}

// cheapest returns the number of reserved units with the lowest price.
func (h hourly) cheapest() float64 {
	best := 0.
	for _, share := range slices.Sorted(slices.Values(h.day[:])) {
		if h.dollars(share*h.mean) < h.dollars(best) {
			best = share * h.mean
		}
	}
	return best
}

// dayOf returns the load of each hour of a day. The busiest minute has peak times the mean.
// The load is a curve e^(k cos t), which has one maximum like the days of people.
func dayOf(peak float64) (day [hoursADay]float64) {
	at := func(k float64) (minutes [minutesADay]float64) {
		sum := 0.
		for i := range minutes {
			minutes[i] = math.Exp(k * (math.Cos(2*math.Pi*float64(i)/minutesADay) - 1))
			sum += minutes[i]
		}
		for i := range minutes {
			minutes[i] *= minutesADay / sum
		}
		return minutes
	}
	low, high := 0., 1e8
	for range 100 {
		if k := (low + high) / 2; at(k)[0] < peak {
			low = k
		} else {
			high = k
		}
	}
	for i, units := range at(high) {
		day[i*hoursADay/minutesADay] += units * hoursADay / minutesADay
	}
	return day
}
