package report

import "math"

// A sized is one of several workloads that differ only in a number.
type sized struct {
	name string
	n    float64
}

// growth measures the exponent with which a value grows with the size. Sizes that were not measured are left out.
func growth(sizes []sized, value func(t table, w sized) float64) func(table) float64 {
	return func(t table) float64 {
		var n, values []float64
		for _, w := range sizes {
			if v := value(t, w); v > 0 { // not NaN
				n, values = append(n, w.n), append(values, v)
			}
		}
		return exponent(n, values)
	}
}

// exponent returns the x for which values grow as n^x, by least squares; NaN if there are fewer than two.
func exponent(n, values []float64) float64 {
	var sx, sy, sxx, sxy float64
	for i := range n {
		x, y := math.Log(n[i]), math.Log(values[i])
		sx, sy, sxx, sxy = sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	if len(n) < 2 {
		return math.NaN()
	}
	k := float64(len(n))
	return (k*sxy - sx*sy) / (k*sxx - sx*sx)
}
