package otelstint

// Families returns the names in Prometheus of what has an instrument.
func Families() (names []string) {
	for _, d := range definitions {
		names = append(names, d.family)
	}
	return names
}
