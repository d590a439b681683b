package server

import (
	"net"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"vcsd/cache"
	"vcsd/outgoing"
	"vcsd/store"
)

// counters are what a process counts. Labels are few and fixed: no repository,
// user or node is among them.
type counters struct {
	registry *prometheus.Registry
	pushes   *prometheus.CounterVec   // by result
	pushTime *prometheus.HistogramVec // seconds, by result
	requests *prometheus.CounterVec   // by command
	refused  *prometheus.CounterVec   // logins, by status
}

func newCounters(filelogs *store.FilelogCache, a *admission, pulls *outgoing.Pulls) *counters {
	m := &counters{
		registry: prometheus.NewRegistry(),
		pushes:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "vcsd_pushes_total", Help: "Pushes answered."}, []string{"result"}),
		pushTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "vcsd_push_seconds", Help: "Time of a push, from its slot to its answer.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 10)}, []string{"result"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "vcsd_requests_total", Help: "Commands of the wire protocol."}, []string{"command"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "vcsd_logins_refused_total",
			Help: "Requests whose credentials were not taken: wrong (401), guessed too fast (429), or not checked (503)."}, []string{"status"}),
	}
	m.registry.MustRegister(m.pushes, m.pushTime, m.requests, m.refused,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, c := range []struct {
		name, help string
		value      func(cache.Stats) float64
	}{
		{"hits_total", "Requests answered by an entry.", func(s cache.Stats) float64 { return float64(s.Hits) }},
		{"misses_total", "Requests that waited for a load.", func(s cache.Stats) float64 { return float64(s.Misses) }},
		{"loads_total", "Loads started.", func(s cache.Stats) float64 { return float64(s.Loads) }},
		{"extends_total", "Entries brought to a later seq.", func(s cache.Stats) float64 { return float64(s.Extends) }},
		{"evictions_total", "Entries dropped for want of room.", func(s cache.Stats) float64 { return float64(s.Evictions) }},
	} {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "vcsd_cache_" + c.name, Help: c.help},
			func() float64 { return c.value(filelogs.Stats()) }))
	}
	for _, c := range []struct {
		source string
		value  func(outgoing.PullStats) uint64
	}{
		{"computed", func(s outgoing.PullStats) uint64 { return s.Computed }},
		{"joined", func(s outgoing.PullStats) uint64 { return s.Joined }},
		{"prepared", func(s outgoing.PullStats) uint64 { return s.Prepared }},
		{"single", func(s outgoing.PullStats) uint64 { return s.Single }},
	} {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "vcsd_pulls_total",
			Help:        "Answers to getbundle: computed for all who want the same, joined to one of these, prepared before, or made for a single request.",
			ConstLabels: prometheus.Labels{"source": c.source}}, func() float64 { return float64(c.value(pulls.Stats())) }))
	}
	m.registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "vcsd_cache_bytes", Help: "Size of what is cached."},
			func() float64 { return float64(filelogs.Stats().Cost) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "vcsd_push_queue", Help: "Pushes that wait for a slot."},
			func() float64 { return float64(a.queued()) }),
	)
	return m
}

// pushed counts a push that took d.
func (m *counters) pushed(err error, d time.Duration) {
	result := pushResult(err)
	m.pushes.WithLabelValues(result).Inc()
	m.pushTime.WithLabelValues(result).Observe(d.Seconds())
}

// serveAdmin serves metrics and health at address until the returned server is
// closed. It is for those who run the server: there is no access control.
func (h *handler) serveAdmin(address string) (*http.Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	r := chi.NewRouter()
	r.Use(middleware.GetHead)
	r.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(h.registry.counters.registry, promhttp.HandlerOpts{}))
	r.Get("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if h.registry.admit.isDraining() {
			http.Error(w, "draining", http.StatusServiceUnavailable)
		}
	})
	srv := &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	go func() {
		if err := srv.Serve(l); err != http.ErrServerClosed {
			h.log.Error("admin listener ended", "error", err)
		}
	}()
	return srv, nil
}
