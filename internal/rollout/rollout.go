// Package rollout chooses the subjects for which a rule is enforced.
package rollout

import (
	"hash/fnv"
	"io"
)

// All is the number that stands for all subjects.
const All = 1 << 20

// Chosen reports whether a rule is enforced for a subject, if it is enforced for number of [All]
// subjects. It chooses the same subjects in all processes and at all times, and a larger number
// only adds subjects.
func Chosen(rule, subject string, number uint32) bool {
	if number == All || number == 0 {
		return number != 0
	}
	h := fnv.New64a()
	_, _ = io.WriteString(h, rule+"\x00"+subject)
	// Mix the bits: the last byte hardly affects FNV's high bits, so that names that differ only in
	// their last letter would be chosen together.
	sum := h.Sum64()
	sum = (sum ^ sum>>33) * 0xff51afd7ed558ccd
	return uint32(sum>>44) < number
}
