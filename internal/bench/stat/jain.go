// Package stat summarises samples: latencies, and how evenly work was shared.
package stat

// Jain returns the fairness index of Jain, Chiu and Hawe (1984): 1 if all shares are equal, 1/n if one share is everything, and
// 0 if all shares are 0.
func Jain(counts []int64) float64 {
	var sum, squares float64
	for _, n := range counts {
		sum += float64(n)
		squares += float64(n) * float64(n)
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(counts)) * squares)
}
