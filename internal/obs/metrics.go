package obs

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"fanfare/internal/disk"
	"fanfare/internal/table"
)

// Flow is a part of the product that calls the table.
type Flow string

// The flows of the table calls.
const (
	FlowAPI    Flow = "api"
	FlowFanout Flow = "fanout"
	FlowLikes  Flow = "likes"
	// FlowNotices is the flow of the notifier, which is a part of the process fanout.
	FlowNotices Flow = "notices"
	// FlowAudit is the flow of the auditor. Metrics.Units does not count it.
	FlowAudit Flow = "audit"
)

// Metrics are the metrics of a process. A label has few values, which come from the code. A
// label is never a user, a post or a request.
type Metrics struct {
	posts       prometheus.Counter
	deliveries  prometheus.Counter
	skipped     prometheus.Counter
	likes       prometheus.Counter
	likeWrites  prometheus.Counter
	visible     prometheus.Histogram
	units       *prometheus.CounterVec
	calls       *prometheus.CounterVec
	throttles   *prometheus.CounterVec
	lostWindows prometheus.Counter
	fences      prometheus.Counter
	pruned      prometheus.Counter
	ledgers     prometheus.Histogram
	heads       prometheus.Gauge
	requests    *prometheus.CounterVec
	requestTime *prometheus.HistogramVec
	streams     prometheus.Gauge
	events      *prometheus.CounterVec
	polls       *prometheus.CounterVec
	tailAge     prometheus.Gauge
	unlisted    prometheus.Gauge
	ended       *prometheus.CounterVec
	likeLag     prometheus.Histogram
	notices     *prometheus.CounterVec
	noticesHeld prometheus.Gauge
	unreadReads prometheus.Counter
	noticeLag   prometheus.Histogram
	handled     *prometheus.HistogramVec
	age         *prometheus.HistogramVec
	dead        *prometheus.CounterVec
	overdue     *overdues
	answers     *series[answer, answerSeries]
	// halves counts half capacity units, because the smallest call takes half a unit.
	halves atomic.Int64
}

// answer names the series of an answered request.
type answer struct {
	route, method string
	status        int
}

type answerSeries struct {
	requests prometheus.Counter
	time     prometheus.Observer
}

// NewMetrics registers the metrics with reg.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		posts:      prometheus.NewCounter(prometheus.CounterOpts{Name: "fanfare_posts_total", Help: "Posts accepted."}),
		deliveries: prometheus.NewCounter(prometheus.CounterOpts{Name: "fanfare_deliveries_total", Help: "Timeline entries written for followers, redeliveries included."}),
		skipped:    prometheus.NewCounter(prometheus.CounterOpts{Name: "fanfare_deliveries_skipped_total", Help: "Followers without an entry because they were away, redeliveries included."}),
		likes:      prometheus.NewCounter(prometheus.CounterOpts{Name: "fanfare_likes_total", Help: "Likes and unlikes accepted."}),
		likeWrites: prometheus.NewCounter(prometheus.CounterOpts{Name: "fanfare_like_flushes_total", Help: "Writes of like counts."}),
		lostWindows: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fanfare_like_windows_lost_total", Help: "Windows of likes that ended without their flush; their messages come again.",
		}),
		fences: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fanfare_like_fences_total", Help: "Like aggregators that were taken for dead on a post.",
		}),
		pruned: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "fanfare_like_ledger_pruned_total", Help: "Entries dropped from the ledgers of like counts.",
		}),
		ledgers: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "fanfare_like_ledger_bytes", Help: "Size of a like count with its ledger at each flush. One above 65536 needs a look, at 409600 its post's likes become dead letters.",
			Buckets: []float64{1024, 2048, 4096, 16384, 65536, 262144},
		}),
		heads: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "fanfare_shared_heads_bytes", Help: "Memory of the lists of pulled authors' newest posts that homes share for a second, at most 16 MiB.",
		}),
		visible: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "fanfare_post_visible_seconds", Help: "Time from a post to its entry in a follower's home.",
			Buckets: waits(),
		}),
		units: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fanfare_table_capacity_units_total", Help: "Capacity units consumed, by flow, kind of call, and read or write.",
		}, []string{"flow", "op", "kind"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fanfare_table_calls_total", Help: "Calls to the table, a query counted once a page, by result: ok, condition (it did not hold), throttled (after the retries) or error.",
		}, []string{"flow", "op", "result"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fanfare_http_requests_total", Help: "Requests answered.",
		}, []string{"route", "method", "status"}),
		requestTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "fanfare_http_request_seconds", Help: "Time to answer a request.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"route", "method"}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{Name: "fanfare_streams", Help: "Open streams of homes."}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fanfare_stream_events_total", Help: "Events handed to streams of homes, by kind.",
		}, []string{"event"}),
		polls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fanfare_stream_polls_total", Help: "Looks at homes for their streams.",
		}, []string{"result"}),
		tailAge: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "fanfare_stream_tail_age_seconds", Help: "Age of the last read of all new posts, while there are streams. Without it their events come up to a minute late.",
		}),
		unlisted: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "fanfare_streams_unlisted", Help: "Homes with streams whose followees are too many to be kept in memory: they are looked at each 10 s.",
		}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "fanfare_streams_ended_total", Help: "Streams that the server ended: slow for a client that did not keep up, stop for a stop of the process, removed for a user who has no profile any more.",
		}, []string{"reason"}),
	}
	m.throttles = newThrottles()
	m.addMessages()
	for _, c := range []prometheus.Collector{
		m.posts, m.deliveries, m.skipped, m.likes, m.likeWrites, m.lostWindows, m.fences, m.pruned, m.ledgers, m.heads, m.visible, m.units, m.calls, m.throttles, m.requests, m.requestTime,
		m.streams, m.events, m.polls, m.tailAge, m.unlisted, m.ended, m.likeLag, m.notices, m.noticesHeld, m.noticeLag, m.unreadReads, m.handled, m.age, m.dead, m.overdue, buildInfo(),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	m.answers = newSeries(func(a answer) answerSeries {
		return answerSeries{m.requests.WithLabelValues(a.route, a.method, strconv.Itoa(a.status)), m.requestTime.WithLabelValues(a.route, a.method)}
	})
	return m, nil
}

func buildInfo() prometheus.Collector {
	build := ReadBuild()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "fanfare_build_info", Help: "1, with the version of the program as labels.",
		ConstLabels: prometheus.Labels{"version": build.Version, "commit": build.Commit, "go": build.Go},
	})
	info.Set(1)
	return info
}

// waits returns the buckets for times that grow with a backlog. The buckets from 1 to 2.5 are
// close to each other, because a like waits for its window of one second and a little longer.
func waits() []float64 {
	return []float64{.005, .01, .025, .05, .1, .25, .5, 1, 1.1, 1.25, 1.5, 2, 2.5, 5, 10, 30, 60, 300, 1800}
}

// Post counts an accepted post.
func (m *Metrics) Post() { m.posts.Inc() }

// Like counts an accepted like or unlike.
func (m *Metrics) Like() { m.likes.Inc() }

// Flush counts a write of a like count. bytes is the size of the item.
func (m *Metrics) Flush(bytes int) {
	m.likeWrites.Inc()
	m.ledgers.Observe(float64(bytes))
}

// LikeWindow counts the outcomes of a window of likes: whether the window was lost, the
// number of fenced aggregators, and the number of dropped ledger entries.
func (m *Metrics) LikeWindow(lost bool, fences, pruned int) {
	if lost {
		m.lostWindows.Inc()
	}
	m.fences.Add(float64(fences))
	m.pruned.Add(float64(pruned))
}

// LikeLag records the time for which likes waited for their count.
func (m *Metrics) LikeLag(lag time.Duration) { m.likeLag.Observe(lag.Seconds()) }

// Heads sets the size of the shared lists with the newest posts of pulled authors.
func (m *Metrics) Heads(bytes int) { m.heads.Set(float64(bytes)) }

// Delivered counts entries written for followers, and records the time since the post was made.
func (m *Metrics) Delivered(entries int, sincePost time.Duration) {
	m.deliveries.Add(float64(entries))
	m.visible.Observe(sincePost.Seconds())
}

// Skipped counts followers who were away.
func (m *Metrics) Skipped(followers int) { m.skipped.Add(float64(followers)) }

// Request counts an answered request. route is the pattern that the request matched.
func (m *Metrics) Request(route, method string, status int, took time.Duration) {
	s := m.answers.of(answer{route, method, status})
	s.requests.Inc()
	s.time.Observe(took.Seconds())
}

// Streams adds change to the number of open streams.
func (m *Metrics) Streams(change int) { m.streams.Add(float64(change)) }

// StreamEvents counts events that were sent to streams.
func (m *Metrics) StreamEvents(kind string, n int) { m.events.WithLabelValues(kind).Add(float64(n)) }

// StreamPoll counts a look at a home with open streams.
func (m *Metrics) StreamPoll(err error) { m.polls.WithLabelValues(result(err)).Inc() }

// StreamTail sets the age of the last read of new posts.
func (m *Metrics) StreamTail(age time.Duration) { m.tailAge.Set(age.Seconds()) }

// StreamsUnlisted adds change to the number of homes whose followees are not listed.
func (m *Metrics) StreamsUnlisted(change int) { m.unlisted.Add(float64(change)) }

// StreamEnded counts a stream that the server has ended.
func (m *Metrics) StreamEnded(reason string) { m.ended.WithLabelValues(reason).Inc() }

// Units returns the capacity units of all flows except FlowAudit.
func (m *Metrics) Units() float64 { return float64(m.halves.Load()) / 2 }

// Table returns an observer for table.Measure.
func (m *Metrics) Table(flow Flow) func(table.Op, table.Units, error) {
	type labels struct {
		op   table.Op
		last string
	}
	of := func(vec *prometheus.CounterVec) *series[labels, prometheus.Counter] {
		return newSeries(func(l labels) prometheus.Counter { return vec.WithLabelValues(string(flow), string(l.op), l.last) })
	}
	consumed, calls := of(m.units), of(m.calls)
	return func(op table.Op, units table.Units, err error) {
		if flow != FlowAudit {
			m.halves.Add(int64(2 * (units.Read + units.Write)))
		}
		if units.Read > 0 {
			consumed.of(labels{op, "read"}).Add(units.Read)
		}
		if units.Write > 0 {
			consumed.of(labels{op, "write"}).Add(units.Write)
		}
		calls.of(labels{op, result(err)}).Inc()
	}
}

func result(err error) string {
	if err == nil {
		return "ok"
	}
	if cancelled, ok := errors.AsType[*table.CancelledError](err); ok {
		if slices.ContainsFunc(cancelled.Reasons, func(r table.CancelledOp) bool { return r.Reason == table.CancelThrottled }) {
			return "throttled"
		}
		return "condition"
	}
	if _, condition := errors.AsType[*table.ConditionError](err); condition {
		return "condition"
	}
	if unavailable, away := errors.AsType[*table.UnavailableError](err); away && unavailable.Throttled() {
		return "throttled"
	}
	return "error"
}

// figures are the metrics of one embedded store. All values of a scrape come from the same moment.
type figures struct {
	stats func() disk.Stats
	descs [len(storeFigures)]*prometheus.Desc
}

// storeFigures are the descriptions of the metrics in figures.
var storeFigures = [...]struct { //nolint:gochecknoglobals // a table that does not change
	name, help, waitsFor string
	value                func(disk.Stats) float64
}{
	{"fanfare_write_stalls_total", stallsHelp, "flush", func(s disk.Stats) float64 { return float64(s.FlushStalls) }},
	{"fanfare_write_stalls_total", stallsHelp, "compaction", func(s disk.Stats) float64 { return float64(s.CompactionStalls) }},
	{"fanfare_failed_compactions_total", "Compactions of an embedded store that met a full disk or damaged data.", "", func(s disk.Stats) float64 { return float64(s.FailedCompactions) }},
	{"fanfare_disk_nearly_full", "1 while less than a tenth of the disk of an embedded store, or less than 512 MiB, is free; 10 GiB are enough on any disk.", "", func(s disk.Stats) float64 { return map[bool]float64{true: 1}[s.NearlyFull] }},
	{"fanfare_store_damaged", "1 once a read of an embedded store met damaged data.", "", func(s disk.Stats) float64 { return map[bool]float64{true: 1}[s.Damaged] }},
	{"fanfare_store_bytes", "Room that the files of an embedded store take on its disk, as du counts it.", "", func(s disk.Stats) float64 { return float64(s.DiskBytes) }},
	{"fanfare_store_log_bytes", "Log of an embedded store that a start reads again.", "", func(s disk.Stats) float64 { return float64(s.LogBytes) }},
	{"fanfare_store_memtable_bytes", "Writes of an embedded store that are in no sorted file yet.", "", func(s disk.Stats) float64 { return float64(s.MemtableBytes) }},
	{"fanfare_store_item_bytes", "Decoded items and pages of an embedded store that are in memory.", "", func(s disk.Stats) float64 { return float64(s.ItemBytes) }},
	{"fanfare_store_l0_files", "Sorted files of an embedded store that are not merged yet.", "", func(s disk.Stats) float64 { return float64(s.L0Files) }},
	{"fanfare_store_l0_sublevels", "Unmerged sorted files that one read of an embedded store may look into.", "", func(s disk.Stats) float64 { return float64(s.L0Sublevels) }},
	{"fanfare_store_compaction_debt_bytes", "Bytes of an embedded store that compactions still have to move.", "", func(s disk.Stats) float64 { return float64(s.DebtBytes) }},
	{"fanfare_disk_free_bytes", "Free bytes of the disk of an embedded store.", "", func(s disk.Stats) float64 { return float64(s.FreeBytes) }},
	{"fanfare_disk_size_bytes", "Size of the disk of an embedded store.", "", func(s disk.Stats) float64 { return float64(s.TotalBytes) }},
}

const stallsHelp = "Times that an embedded store held up writes to wait for a flush or a compaction."

// RegisterStore adds the metrics of an embedded store to reg.
func RegisterStore(reg prometheus.Registerer, store string, stats func() disk.Stats) error {
	f := &figures{stats: stats}
	for i, figure := range storeFigures {
		labels := prometheus.Labels{"store": store}
		if figure.waitsFor != "" {
			labels["waits_for"] = figure.waitsFor
		}
		f.descs[i] = prometheus.NewDesc(figure.name, figure.help, nil, labels)
	}
	return reg.Register(f)
}

// Describe implements prometheus.Collector.
func (f *figures) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range f.descs {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (f *figures) Collect(ch chan<- prometheus.Metric) {
	stats := f.stats()
	for i, figure := range storeFigures {
		kind := prometheus.GaugeValue
		if strings.HasSuffix(figure.name, "_total") {
			kind = prometheus.CounterValue
		}
		ch <- prometheus.MustNewConstMetric(f.descs[i], kind, figure.value(stats))
	}
}

// RegisterClock adds the metric of the clock's offset to reg.
func RegisterClock(reg prometheus.Registerer, ahead func() time.Duration) error {
	return reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fanfare_clock_offset_seconds", Help: "How far the clock of the process is ahead, by the replies of AWS or by its own steps. Above 300, or below -300, nothing is taken for too old.",
	}, func() float64 { return ahead().Seconds() }))
}

// RegisterThrottle adds the metrics of the write limit and the hot keys to reg.
func RegisterThrottle(reg prometheus.Registerer, limit func() float64, hotKeys func() int) error {
	return errors.Join(
		reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fanfare_table_write_limit", Help: "Write units a second that this process allows itself while the table throttles, 0 for no limit.",
		}, limit)),
		reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "fanfare_table_hot_keys", Help: "Partition keys whose chunks and backfills this process limits, because the table refuses many of their writes.",
		}, func() float64 { return float64(hotKeys()) })))
}

// RegisterKeys adds the metrics of fetches of the issuer's keys to reg.
func RegisterKeys(reg prometheus.Registerer, fetches func() (done, failed int64)) error {
	const help = "Fetches of the token issuer's keys."
	number := func(result string, value func() int64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "fanfare_key_fetches_total", Help: help, ConstLabels: prometheus.Labels{"result": result},
		}, func() float64 { return float64(value()) })
	}
	return errors.Join(
		reg.Register(number("ok", func() int64 { done, _ := fetches(); return done })),
		reg.Register(number("error", func() int64 { _, failed := fetches(); return failed })))
}

// RegisterTokens adds the metric of the memory for verified tokens to reg.
func RegisterTokens(reg prometheus.Registerer, remembered func() int64) error {
	return reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fanfare_remembered_token_bytes", Help: "Memory for tokens whose signature was verified.",
	}, func() float64 { return float64(remembered()) }))
}

// RegisterAuthors adds the metric of the memory for known authors to reg.
func RegisterAuthors(reg prometheus.Registerer, known func() int64) error {
	return reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "fanfare_known_author_bytes", Help: "Memory for the authors of new posts, at most 4 MiB.",
	}, func() float64 { return float64(known()) }))
}
