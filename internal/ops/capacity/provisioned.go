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
		return []Line{{LineWrites, t.Writes * perMonth * p.of(priceWrite)}, {LineReads, t.Reads * perMonth * p.of(priceRead)}}, nil
	}
	day := dayOf(e.Load.Peak)
	writes := capacityOf(day, t.Writes/secondsADay/d.TableUse)
	reads := capacityOf(day, t.Reads/secondsADay/d.ReadUse)
	discount := p.of(priceReserved)
	lines := []Line{
		{LineWrites, writes.dollars(p.of(priceProvisionedWrite), d.ReservedWCU, discount)},
		{LineReads, reads.dollars(p.of(priceProvisionedRead), d.ReservedRCU, discount)},
	}
	best := Reservation{WCU: writes.cheapest(p.of(priceProvisionedWrite), discount), RCU: reads.cheapest(p.of(priceProvisionedRead), discount)}
	best.Saves = writes.dollars(p.of(priceProvisionedWrite), 0, 0) - writes.dollars(p.of(priceProvisionedWrite), best.WCU, discount) +
		reads.dollars(p.of(priceProvisionedRead), 0, 0) - reads.dollars(p.of(priceProvisionedRead), best.RCU, discount)
	return lines, &best
}

// hourly has the provisioned units of each hour of a day.
type hourly [hoursADay]float64

// dollars returns the monthly price with a number of reserved units.
func (h hourly) dollars(perHour, reserved, discount float64) float64 {
	beyond := 0.
	for _, units := range h {
		beyond += math.Max(0, units-reserved)
	}
	return daysAMonth * perHour * (beyond + hoursADay*reserved*(1-discount))
}

// cheapest returns the number of reserved units with the lowest price.
func (h hourly) cheapest(perHour, discount float64) float64 {
	best := 0.
	for _, units := range slices.Sorted(slices.Values(h[:])) {
		if h.dollars(perHour, units, discount) < h.dollars(perHour, best, discount) {
			best = units
		}
	}
	return best
}

// capacityOf multiplies the load of each hour of a day by mean. The mean of day is 1.
func capacityOf(day hourly, mean float64) hourly {
	for i := range day {
		day[i] *= mean
	}
	return day
}

// dayOf returns the load of each hour of a day. The busiest minute has peak times the mean.
// The load is a curve e^(k cos t), which has one maximum like the days of people.
func dayOf(peak float64) (day hourly) {
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
