package redistest

import (
	"os"
	"syscall"
	"time"
	"unsafe"
)

// alarm wakes one goroutine at a set time, which other goroutines may change. It is a kernel timer
// because Go's timers are up to a millisecond late in a process that is otherwise idle.
type alarm struct {
	fd   int
	file *os.File
}

func newAlarm() (*alarm, error) {
	const monotonic = 1
	fd, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, monotonic, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return nil, os.NewSyscallError("timerfd_create", errno)
	}
	return &alarm{int(fd), os.NewFile(fd, "alarm")}, nil
}

// set makes [alarm.wait] return after d, and replaces any earlier setting. It must not run
// concurrently with [alarm.close].
func (a *alarm) set(d time.Duration) {
	spec := [2]syscall.Timespec{ // interval, first expiry
		1: syscall.NsecToTimespec(max(1, d.Nanoseconds())),
	}
	_, _, errno := syscall.Syscall6(syscall.SYS_TIMERFD_SETTIME, uintptr(a.fd), 0, uintptr(unsafe.Pointer(&spec)), 0,
		0, 0)
	if errno != 0 {
		panic("redistest: timerfd_settime: " + errno.Error())
	}
}

func (a *alarm) wait() {
	var times [8]byte
	if _, err := a.file.Read(times[:]); err != nil {
		panic("redistest: " + err.Error())
	}
}

func (a *alarm) close() { a.file.Close() }
