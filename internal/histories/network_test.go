package histories

import (
	"sync"
	"time"
)

// network delivers messages, one after the other, in the order of their arrival. One goroutine does
// it: a goroutine for each message would grow its stack each time.
type network struct {
	mu    sync.Mutex
	queue letters
	sent  int
	wake  chan struct{} // has room for one
	done  chan struct{}
}

// letter is something to be done at an instant. Of those of one instant, the first that was sent is
// the first.
type letter struct {
	at  time.Duration // since the epoch
	nth int
	do  func() // does not wait
}

func (l *letter) before(m *letter) bool { return l.at < m.at || l.at == m.at && l.nth < m.nth }

// letters are a heap. Package container/heap would allocate each letter.
type letters []letter

func (l *letters) push(x letter) {
	q := append(*l, x)
	for i := len(q) - 1; i > 0 && q[i].before(&q[(i-1)/2]); i = (i - 1) / 2 {
		q[i], q[(i-1)/2] = q[(i-1)/2], q[i]
	}
	*l = q
}

func (l *letters) pop() letter {
	q := *l
	first, n := q[0], len(q)-1
	q[0], q[n] = q[n], letter{}
	q = q[:n]
	for i, least := 0, 0; ; i = least {
		for _, below := range [...]int{2*i + 1, 2*i + 2} {
			if below < n && q[below].before(&q[least]) {
				least = below
			}
		}
		if least == i {
			break
		}
		q[i], q[least] = q[least], q[i]
	}
	*l = q
	return first
}

func newNetwork() *network {
	n := &network{wake: make(chan struct{}, 1), done: make(chan struct{})}
	go n.deliver()
	return n
}

// after does something after some time.
func (n *network) after(d time.Duration, do func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sent++
	n.queue.push(letter{time.Since(epoch) + d, n.sent, do})
	if n.queue[0].nth == n.sent {
		select {
		case n.wake <- struct{}{}:
		default:
		}
	}
}

func (n *network) deliver() {
	timer := time.NewTimer(0)
	for {
		select {
		case <-timer.C:
		case <-n.wake:
		case <-n.done:
			timer.Stop()
			return
		}
		n.mu.Lock()
		for now := time.Since(epoch); len(n.queue) > 0 && n.queue[0].at <= now; {
			l := n.queue.pop()
			n.mu.Unlock()
			l.do()
			n.mu.Lock()
		}
		if len(n.queue) > 0 {
			timer.Reset(n.queue[0].at - time.Since(epoch))
		}
		n.mu.Unlock()
	}
}
