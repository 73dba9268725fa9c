package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"fanfare/internal/capacity"
)

// Cost is the time and memory that a measurement took.
type Cost struct {
	WallSeconds float64 `json:"wall_s"`
	// CPUSeconds are user and system time of the process that did the work.
	CPUSeconds float64 `json:"cpu_s"`
	// Allocs and AllocBytes count the Go heap of that process.
	Allocs     uint64 `json:"allocs"`
	AllocBytes uint64 `json:"alloc_bytes"`
	// Units is the number of things done: deliveries, likes, messages.
	Units int64 `json:"units"`
	// LoadCPUSeconds are user and system time of the load generator, where it is a process
	// of its own: it takes them from the server on the same cores.
	LoadCPUSeconds float64 `json:"load_cpu_s,omitempty"`
}

func (c Cost) String() string {
	n := float64(max(1, c.Units))
	text := fmt.Sprintf("%s in %.2f s wall, %.2f s CPU; each %s µs CPU, %s allocations, %s bytes",
		capacity.Number(float64(c.Units)), c.WallSeconds, c.CPUSeconds,
		capacity.Number(c.cpuEach()), capacity.Number(float64(c.Allocs)/n), capacity.Number(float64(c.AllocBytes)/n))
	if c.LoadCPUSeconds > 0 {
		text += fmt.Sprintf("; the load generator %s µs CPU each", capacity.Number(c.LoadCPUSeconds*1e6/n))
	}
	return text
}

// cpuEach is the CPU time of one thing, in microseconds.
func (c Cost) cpuEach() float64 { return c.CPUSeconds * 1e6 / float64(max(1, c.Units)) }

// rate is the number of things done in a second.
func (c Cost) rate() float64 { return float64(c.Units) / c.WallSeconds }

// plus sums up two measurements made one after the other.
func (c Cost) plus(d Cost) Cost {
	return Cost{
		c.WallSeconds + d.WallSeconds, c.CPUSeconds + d.CPUSeconds,
		c.Allocs + d.Allocs, c.AllocBytes + d.AllocBytes, c.Units + d.Units,
		c.LoadCPUSeconds + d.LoadCPUSeconds,
	}
}

// usage is the CPU time and memory that a process has used since its start.
type usage struct {
	at         time.Time
	cpu        time.Duration
	allocs     uint64
	allocBytes uint64
}

// since returns the cost of n things that were done between before and u.
func (u usage) since(before usage, n int64) Cost {
	return Cost{
		WallSeconds: u.at.Sub(before.at).Seconds(), CPUSeconds: (u.cpu - before.cpu).Seconds(),
		Allocs: u.allocs - before.allocs, AllocBytes: u.allocBytes - before.allocBytes, Units: n,
	}
}

// ownUsage returns the usage of this process.
func ownUsage() usage {
	var r syscall.Rusage
	var cpu time.Duration
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err == nil { // else the CPU time is 0
		cpu = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{time.Now(), cpu, m.Mallocs, m.TotalAlloc}
}

// cpuOf returns the CPU time of another process.
func cpuOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may hold spaces. Of the fields after it, utime is the
	// 12th and stime the 13th, in hundredths of a second.
	_, rest, ok := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: %q", pid, text)
	}
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// peakMemory returns the most resident memory that a process has had, in bytes.
func peakMemory(pid int) (int64, error) { return memoryOf(pid, "VmHWM") }

// memoryOf returns a size that the kernel keeps of a process, in bytes.
func memoryOf(pid int, name string) (int64, error) {
	file := fmt.Sprintf("/proc/%d/status", pid)
	kb, _, _ := strings.Cut(procField(file, name), " ")
	n, err := strconv.ParseInt(kb, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read %s in %s: %w", name, file, err)
	}
	return n * 1024, nil
}

// Latency is the distribution of times, in milliseconds.
type Latency struct {
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
	Count int64   `json:"count"`
}

// newHistogram takes times from 1 microsecond to a minute, to three digits.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, time.Minute.Microseconds(), 3)
}

// record adds a time; one above a minute counts as a minute.
func record(h *hdrhistogram.Histogram, d time.Duration) {
	// The value is within the range, so there is no error.
	_ = h.RecordValue(min(max(d.Microseconds(), 1), time.Minute.Microseconds()))
}

func latencyOf(h *hdrhistogram.Histogram) *Latency {
	ms := func(us int64) float64 { return float64(us) / 1000 }
	return &Latency{
		P50: ms(h.ValueAtQuantile(50)), P90: ms(h.ValueAtQuantile(90)), P99: ms(h.ValueAtQuantile(99)),
		Max: ms(h.Max()), Count: h.TotalCount(),
	}
}
