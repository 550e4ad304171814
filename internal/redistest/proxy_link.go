package redistest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"time"
)

// link is a connection from a client, with the corresponding connection to Redis.
type link struct {
	proxy    *Proxy
	client   *net.TCPConn
	server   *net.TCPConn // nil until dialed
	lines    [2]*line     // indexed by Direction
	closed   bool
	scripts  []bool // whether each unanswered request is a script, in order
	previous []byte // the last reply to a script, while replies are swapped
}

// run connects to Redis and starts to move bytes in both directions.
func (l *link) run() {
	if err := l.connect(); err != nil {
		// To the client, this looks like a server that has just gone away.
		l.proxy.mu.Lock()
		l.close()
		l.proxy.mu.Unlock()
		return
	}
	for _, line := range l.lines {
		l.proxy.wg.Go(line.read)
		l.proxy.wg.Go(line.write)
	}
}

func (l *link) connect() error {
	p := l.proxy
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	conn, err := net.DialTimeout("tcp", target, doTimeout)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l.server = conn.(*net.TCPConn)
	if l.closed {
		l.server.Close()
		return net.ErrClosed
	}
	to, err := newAlarm()
	if err == nil {
		var back *alarm
		if back, err = newAlarm(); err == nil {
			l.lines = [2]*line{
				Requests: {link: l, way: Requests, from: l.client, to: l.server, alarm: to},
				Replies:  {link: l, way: Replies, from: l.server, to: l.client, alarm: back},
			}
			return nil
		}
		to.close()
	}
	p.t.Errorf("redistest: proxy: %v", err)
	return err
}

// close and wake must be called with proxy.mu held.
func (l *link) close() {
	l.closed = true
	l.client.Close()
	if l.server != nil {
		l.server.Close()
	}
	delete(l.proxy.links, l)
	l.wake()
}

func (l *link) wake() {
	for _, line := range l.lines {
		if line != nil && line.alarm != nil {
			line.alarm.set(0)
		}
	}
}

// line is one direction of a link. Its reader never waits for its writer, so that a delay does not
// reduce throughput.
type line struct {
	link  *link
	way   Direction
	from  *net.TCPConn
	to    *net.TCPConn
	queue []message
	sent  time.Time // time at which the last bytes were forwarded
	free  time.Time // time from which the bandwidth allows more bytes
	out   []byte    // the bytes being written
	alarm *alarm    // wakes the writer; nil after the writer has ended
}

type message struct {
	data    []byte
	read    time.Time
	luck    float64 // the message's share of the jitter, from 0 to 1
	stalled bool
	begun   bool // part of the message has been forwarded
	end     bool // no messages follow
}

// due returns the time at which a message may be forwarded. It is called again when the faults
// change.
func (f *faults) due(m *message) time.Time {
	d := f.roundTrip/2 + time.Duration(m.luck*float64(f.jitter/2))
	if m.stalled {
		d += f.stall
	}
	return m.read.Add(d)
}

func (l *line) read() {
	r := bufio.NewReaderSize(l.from, 64<<10)
	for {
		data, err := readMessage(r)
		switch {
		case errors.Is(err, errNotRESP):
			l.push(message{data: data})
			l.copyAll(r)
			return
		case err != nil:
			l.push(message{data: data}) // an incomplete message
			l.push(message{end: true})
			return
		}
		m := message{data: data}
		if l.way == Requests {
			m = l.link.request(m)
		} else {
			m = l.link.reply(m)
		}
		l.push(m)
		if m.end {
			_, _ = io.Copy(io.Discard, r) // read until the link is closed
			return
		}
	}
}

func (l *line) copyAll(r io.Reader) {
	for {
		buf := make([]byte, 64<<10)
		n, err := r.Read(buf)
		l.push(message{data: buf[:n]})
		if err != nil {
			l.push(message{end: true})
			return
		}
	}
}

// request records whether a request is a script, and turns a dropped request into the end of the
// connection.
func (l *link) request(m message) message {
	name := commandName(m.data)
	script := bytes.HasPrefix(name, []byte("EVAL"))
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	if script && l.proxy.faults.drops(Requests) {
		return message{end: true}
	}
	// Redis answers a subscription with push messages, which [link.reply] does not count.
	if !bytes.HasSuffix(name, []byte("SUBSCRIBE")) {
		l.scripts = append(l.scripts, script)
	}
	return m
}

// reply applies the faults that affect single messages to m, if m is the reply to a script.
func (l *link) reply(m message) message {
	if m.data[0] == '>' {
		return m
	}
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	if len(l.scripts) == 0 { // in RESP2, this is a message that was published on a channel
		return m
	}
	script := l.scripts[0]
	l.scripts = l.scripts[1:]
	if !script {
		return m
	}
	f := &l.proxy.faults
	if f.drops(Replies) {
		return message{end: true}
	}
	m.stalled = f.stalls()
	switch {
	case !f.swap:
		l.previous = nil
	case l.previous == nil:
		l.previous = m.data
	default:
		m.data, l.previous = l.previous, m.data
	}
	return m
}

func (l *line) push(m message) {
	if len(m.data) == 0 && !m.end {
		return
	}
	m.read = time.Now()
	m.luck = rand.Float64()
	l.link.proxy.mu.Lock()
	defer l.link.proxy.mu.Unlock()
	l.queue = append(l.queue, m)
	if len(l.queue) == 1 && l.alarm != nil {
		l.alarm.set(0)
	}
}

func (l *line) write() {
	p := l.link.proxy
	broken := false
	for {
		data, open := l.next()
		if !open {
			break
		}
		if broken {
			continue
		}
		if _, err := l.to.Write(data); err != nil {
			// The reader of the other direction notices that the connection is closed. Its writer
			// may still have to deliver data that was received before.
			broken = true
			l.to.Close()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l.alarm.close()
	l.alarm = nil
	if l.way == Replies {
		l.link.close()
	} else {
		_ = l.to.CloseWrite() // Redis answers the requests it has read, then closes
	}
}

// next returns the next bytes to forward, waiting until they are due. open is false if there are no
// more.
func (l *line) next() (data []byte, open bool) {
	p := l.link.proxy
	for {
		p.mu.Lock()
		if l.link.closed {
			p.mu.Unlock()
			return nil, false
		}
		data, end, wait := l.pop(time.Now())
		if wait > 0 {
			l.alarm.set(wait)
		}
		p.mu.Unlock()
		if wait == 0 {
			return data, !end
		}
		l.alarm.wait()
	}
}

// pop removes and returns the data that is due now, or returns how long to wait. end means that no
// more data follows.
func (l *line) pop(now time.Time) (data []byte, end bool, wait time.Duration) {
	f := &l.link.proxy.faults
	if f.silent || len(l.queue) == 0 {
		return nil, false, never
	}
	head := &l.queue[0]
	due := f.due(head)
	n := len(head.data)
	if f.slice > 0 && l.way == Replies {
		n = min(n, f.slice)
		if head.begun {
			due = later(due, l.sent.Add(f.gap))
		}
	}
	if f.bandwidth > 0 {
		n = min(n, max(1, f.bandwidth/100)) // small pieces, so that bytes arrive at a steady rate
		due = later(due, l.free).Add(time.Duration(n) * time.Second / time.Duration(f.bandwidth))
	}
	if now.Before(due) {
		return nil, false, due.Sub(now)
	}
	if head.end {
		return nil, true, 0
	}
	l.sent = now
	l.free = later(due, now.Add(-20*time.Millisecond)) // compensates for a late wake-up, but not for a pause
	l.out = append(l.out[:0], head.data[:n]...)
	if head.data = head.data[n:]; len(head.data) > 0 {
		head.begun = true
		return l.out, false, 0
	}
	l.queue = l.queue[1:]
	// Put all other due messages into the same packet, unless pieces must stay separate.
	for f.slice == 0 && f.bandwidth == 0 && len(l.queue) > 0 && !l.queue[0].end && !now.Before(f.due(&l.queue[0])) {
		l.out = append(l.out, l.queue[0].data...)
		l.queue = l.queue[1:]
	}
	return l.out, false, 0
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// errNotRESP means that a stream cannot be divided into messages.
var errNotRESP = errors.New("not RESP")

// readMessage reads one message of RESP2 or RESP3 and returns its bytes. On an error, it also
// returns the bytes read so far.
func readMessage(r *bufio.Reader) ([]byte, error) {
	// Check this before reading a line: bytes of another protocol may never contain the end of a
	// line.
	if first, err := r.Peek(1); err != nil {
		return nil, err
	} else if bytes.IndexByte([]byte("+-:_,#($=!*~>%|"), first[0]) < 0 {
		return nil, errNotRESP
	}
	var b bytes.Buffer
	err := copyValue(&b, r)
	return b.Bytes(), err
}

func copyValue(b *bytes.Buffer, r *bufio.Reader) error {
	line, err := r.ReadBytes('\n')
	b.Write(line)
	if err != nil {
		return err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return errNotRESP
	}
	if bytes.IndexByte([]byte("+-:_,#("), line[0]) >= 0 {
		return nil
	}
	n, err := strconv.Atoi(string(line[1 : len(line)-2]))
	if err != nil {
		return errNotRESP
	}
	switch line[0] {
	case '$', '=', '!':
		if n >= 0 { // a negative length means nil
			_, err = io.CopyN(b, r, int64(n)+2)
		}
		return err
	case '*', '~', '>':
	case '%':
		n *= 2
	case '|': // attributes, and the value they belong to
		n = 2*n + 1
	default:
		return errNotRESP
	}
	for range n {
		if err := copyValue(b, r); err != nil {
			return err
		}
	}
	return nil
}

// commandName returns the name of a request's command in uppercase.
func commandName(request []byte) []byte {
	// *3\r\n$7\r\nEVALSHA\r\n...
	parts := bytes.SplitN(request, []byte("\r\n"), 4)
	if len(parts) < 4 {
		return nil
	}
	return bytes.ToUpper(parts[2])
}
