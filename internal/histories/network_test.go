package histories

import (
	"container/heap"
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
	at  time.Time
	nth int
	do  func() // does not wait
}

type letters []letter

func (l letters) Len() int      { return len(l) }
func (l letters) Swap(i, j int) { l[i], l[j] = l[j], l[i] }
func (l letters) Less(i, j int) bool {
	if c := l[i].at.Compare(l[j].at); c != 0 {
		return c < 0
	}
	return l[i].nth < l[j].nth
}
func (l *letters) Push(x any) { *l = append(*l, x.(letter)) }
func (l *letters) Pop() any {
	last := (*l)[len(*l)-1]
	(*l)[len(*l)-1] = letter{}
	*l = (*l)[:len(*l)-1]
	return last
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
	heap.Push(&n.queue, letter{time.Now().Add(d), n.sent, do})
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
		for now := time.Now(); len(n.queue) > 0 && !n.queue[0].at.After(now); {
			l := heap.Pop(&n.queue).(letter)
			n.mu.Unlock()
			l.do()
			n.mu.Lock()
		}
		if len(n.queue) > 0 {
			timer.Reset(time.Until(n.queue[0].at))
		}
		n.mu.Unlock()
	}
}

// crew runs functions in goroutines that it keeps, for the same reason.
type crew struct {
	work sync.WaitGroup // what is under way
	mu   sync.Mutex
	idle []chan func()
}

// Go runs a function in a goroutine.
func (c *crew) Go(f func()) {
	c.work.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.idle); n > 0 {
		c.idle[n-1] <- f
		c.idle = c.idle[:n-1]
		return
	}
	next := make(chan func(), 1)
	next <- f
	go func() {
		for f := range next {
			f()
			c.mu.Lock()
			c.idle = append(c.idle, next)
			c.mu.Unlock()
			c.work.Done()
		}
	}()
}

// Wait waits until all of them have returned.
func (c *crew) Wait() { c.work.Wait() }

// end ends the goroutines, when nothing is under way.
func (c *crew) end() {
	for _, next := range c.idle {
		close(next)
	}
}
