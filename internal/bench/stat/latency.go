package stat

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	longest = time.Hour
	digits  = 3 // significant digits of each value
)

// Latency is a set of durations up to an hour, kept to three digits. It is not safe for concurrent use. The zero value is empty
// and ready to use.
type Latency struct {
	h *hdrhistogram.Histogram
}

func (l *Latency) histogram() *hdrhistogram.Histogram {
	if l.h == nil {
		l.h = hdrhistogram.New(1, longest.Nanoseconds(), digits)
	}
	return l.h
}

// Record adds durations; those beyond an hour count as one.
func (l *Latency) Record(ds ...time.Duration) {
	h := l.histogram()
	for _, d := range ds {
		_ = h.RecordValue(int64(min(max(d, 0), longest))) // fails only out of range
	}
}

// Merge adds all of other's durations.
func (l *Latency) Merge(other *Latency) {
	if other.h != nil {
		l.histogram().Merge(other.h)
	}
}

// Count returns the number of durations.
func (l *Latency) Count() int64 {
	if l.h == nil {
		return 0
	}
	return l.h.TotalCount()
}

// Percentile returns the duration that p percent do not exceed; 0 if the set is empty.
func (l *Latency) Percentile(p float64) time.Duration {
	if l.Count() == 0 {
		return 0
	}
	return time.Duration(l.h.ValueAtPercentile(p))
}

// Max returns the longest duration.
func (l *Latency) Max() time.Duration { return l.Percentile(100) }

// MarshalJSON encodes l in the exchange format of HdrHistogram.
func (l *Latency) MarshalJSON() ([]byte, error) {
	if l.h == nil {
		return []byte("null"), nil
	}
	encoded, err := l.h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, fmt.Errorf("encoding latencies: %w", err)
	}
	return json.Marshal(encoded)
}

// UnmarshalJSON is the reverse of MarshalJSON.
func (l *Latency) UnmarshalJSON(b []byte) error {
	var encoded []byte
	if err := json.Unmarshal(b, &encoded); err != nil {
		return err
	}
	l.h = nil
	if encoded == nil {
		return nil
	}
	h, err := hdrhistogram.Decode(encoded)
	if err != nil {
		return fmt.Errorf("decoding latencies: %w", err)
	}
	l.h = h
	return nil
}
