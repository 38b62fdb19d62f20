package collector

import (
	"fmt"
	"time"

	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
)

// A Point is one data point of a sum, a gauge or a histogram with explicit bounds; other kinds of metrics are ignored.
type Point struct {
	Resource    map[string]any
	Scope       Scope
	Metric      string
	Description string
	Unit        string
	Kind        string // sum, gauge or histogram
	Monotonic   bool   // of a sum
	Cumulative  bool   // otherwise since the last export
	Attributes  map[string]any
	Start, Time time.Time
	Value       float64 // of a sum or gauge; the sum of a histogram's values
	Count       uint64  // of a histogram's values
	Bounds      []float64
	Buckets     []uint64 // one more than Bounds
	Exemplars   []Exemplar
}

// An Exemplar is one of the measurements behind a point, with the span that was active then.
type Exemplar struct {
	ID         ID
	Value      float64
	Time       time.Time
	Attributes map[string]any // those that the point does not have
}

// Latest returns the last cumulative point of each series, in the order in which the series appeared. A series has one
// resource, scope, metric and set of attributes.
func Latest(points []Point) []Point {
	var latest []Point
	index := make(map[string]int)
	for _, p := range points {
		series := fmt.Sprintf("%v %v %q %v", p.Resource, p.Scope, p.Metric, p.Attributes) // maps are printed in order
		i, ok := index[series]
		if !ok {
			i = len(latest)
			index[series] = i
			latest = append(latest, p)
		}
		if !p.Time.Before(latest[i].Time) {
			latest[i] = p
		}
	}
	return latest
}

// Points converts metrics from the form of the protocol.
func Points(resources []*metricspb.ResourceMetrics) []Point {
	var points []Point
	for _, r := range resources {
		resource := attributes(r.GetResource().GetAttributes())
		for _, s := range r.GetScopeMetrics() {
			scope := Scope{s.GetScope().GetName(), s.GetScope().GetVersion()}
			for _, m := range s.GetMetrics() {
				points = append(points, pointsOf(m, Point{
					Resource: resource, Scope: scope,
					Metric: m.GetName(), Description: m.GetDescription(), Unit: m.GetUnit(),
				})...)
			}
		}
	}
	return points
}

// pointsOf returns m's points; all have the fields of common.
func pointsOf(m *metricspb.Metric, common Point) []Point {
	switch data := m.GetData().(type) {
	case *metricspb.Metric_Sum:
		common.Kind, common.Monotonic = "sum", data.Sum.GetIsMonotonic()
		common.Cumulative = cumulative(data.Sum.GetAggregationTemporality())
		return numbers(data.Sum.GetDataPoints(), common)
	case *metricspb.Metric_Gauge:
		common.Kind = "gauge"
		return numbers(data.Gauge.GetDataPoints(), common)
	case *metricspb.Metric_Histogram:
		common.Kind = "histogram"
		common.Cumulative = cumulative(data.Histogram.GetAggregationTemporality())
		return histograms(data.Histogram.GetDataPoints(), common)
	}
	return nil
}

func cumulative(t metricspb.AggregationTemporality) bool {
	return t == metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE
}

func numbers(data []*metricspb.NumberDataPoint, common Point) []Point {
	points := make([]Point, 0, len(data))
	for _, d := range data {
		p := common
		p.Attributes = attributes(d.GetAttributes())
		p.Start, p.Time = moment(d.GetStartTimeUnixNano()), moment(d.GetTimeUnixNano())
		p.Value = d.GetAsDouble() + float64(d.GetAsInt()) // one of them is set
		p.Exemplars = exemplars(d.GetExemplars())
		points = append(points, p)
	}
	return points
}

func histograms(data []*metricspb.HistogramDataPoint, common Point) []Point {
	points := make([]Point, 0, len(data))
	for _, d := range data {
		p := common
		p.Attributes = attributes(d.GetAttributes())
		p.Start, p.Time = moment(d.GetStartTimeUnixNano()), moment(d.GetTimeUnixNano())
		p.Value, p.Count = d.GetSum(), d.GetCount()
		p.Bounds, p.Buckets = d.GetExplicitBounds(), d.GetBucketCounts()
		p.Exemplars = exemplars(d.GetExemplars())
		points = append(points, p)
	}
	return points
}

func exemplars(list []*metricspb.Exemplar) []Exemplar {
	var exemplars []Exemplar
	for _, e := range list {
		exemplars = append(exemplars, Exemplar{
			ID:         id(e.GetTraceId(), e.GetSpanId()),
			Value:      e.GetAsDouble() + float64(e.GetAsInt()), // one of them is set
			Time:       moment(e.GetTimeUnixNano()),
			Attributes: attributes(e.GetFilteredAttributes()),
		})
	}
	return exemplars
}
