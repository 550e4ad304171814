// Package rollout chooses the subjects for whom a rule has consequences.
package rollout

import (
	"hash/fnv"
	"io"
)

// All is the number that stands for all subjects.
const All = 1 << 20

// Chosen reports whether a rule has consequences for a subject, if it has for so many of [All]. It
// is always the same ones who are chosen, in all processes, and raising the number adds to them.
func Chosen(rule, subject string, number uint32) bool {
	if number == All || number == 0 {
		return number != 0
	}
	h := fnv.New64a()
	_, _ = io.WriteString(h, rule+"\x00"+subject)
	// What differs in their last letter only would be chosen together: FNV's high bits know of it
	// late.
	sum := h.Sum64()
	sum = (sum ^ sum>>33) * 0xff51afd7ed558ccd
	return uint32(sum>>44) < number
}
