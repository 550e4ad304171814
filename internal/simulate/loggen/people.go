package loggen

import (
	"math/rand/v2"
	"net/netip"
	"time"
)

type event struct {
	at     time.Duration // time since the beginning of the minute
	who    person
	method string
	path   string
	number int // number appended to the path, unless it is negative
	status int
	bytes  int
}

// person is a client that sends requests. All addresses are in ranges that are reserved for
// documentation or carrier-grade NAT, so none belongs to a real site.
type person struct {
	client netip.Addr
	number int  // user number; negative for the crawler and the attacker
	member bool // whether the user is signed in
	agent  string
}

// plan returns the plan of a member: one in ten has a paid plan.
func (p *person) plan() string {
	if p.number%10 == 3 {
		return "pro"
	}
	return "free"
}

const (
	crawlerAgent  = "Mozilla/5.0 (compatible; shelfbot/2.1; +https://shelfbot.example/about)"
	attackerAgent = "python-requests/2.32.3"
)

type people struct {
	options *Options
	random  *rand.Rand
	often   *rand.Zipf
	crawled int // number of pages that the crawler has read
}

func newPeople(o *Options, random *rand.Rand) *people {
	return &people{options: o, random: random, often: rand.NewZipf(random, 1.2, 8, uint64(o.Users-1))}
}

func (c *people) minute(events []event, n counts) []event {
	for range n.attack {
		attacker := person{client: netip.AddrFrom4([4]byte{198, 51, 100, byte(1 + c.random.IntN(8))}), number: -1,
			agent: attackerAgent}
		events = append(events, event{at: c.within(time.Minute), who: attacker, method: "POST", path: "/login",
			number: -1, status: 401, bytes: 64})
	}
	crawler := person{client: netip.AddrFrom4([4]byte{192, 0, 2, 66}), number: -1, agent: crawlerAgent}
	for i := range n.crawl {
		c.crawled++
		at := time.Minute * time.Duration(i) / time.Duration(n.crawl)
		events = append(events, event{at: at, who: crawler, method: "GET", path: "/products/", number: c.crawled,
			status: 200, bytes: 9000 + c.random.IntN(9000)})
	}
	for left := n.people; left > 0; {
		visit := min(left, 1+int(c.random.ExpFloat64()*2.5))
		left -= visit
		events = c.visit(events, visit)
	}
	return events
}

// visit appends the requests of one click: usually one for a page, followed by the API calls that
// the page makes.
func (c *people) visit(events []event, requests int) []event {
	who := c.person(int(c.often.Uint64()))
	at := c.within(time.Minute)
	for i := range requests {
		e := event{at: at, who: who, method: "GET", path: "/products/", number: c.random.IntN(5000), status: 200,
			bytes: 4000 + c.random.IntN(20000)}
		if i > 0 || who.member && c.random.IntN(3) == 0 {
			e.method, e.path, e.number, e.bytes = c.call(who.member)
		}
		switch c.random.IntN(50) {
		case 0:
			e.status, e.bytes = 404, 150
		case 1, 2, 3:
			e.status, e.bytes = 304, 0
		}
		events = append(events, e)
		at = min(at+c.within(700*time.Millisecond), time.Minute-1)
	}
	return events
}

// call chooses an API call at random.
func (c *people) call(member bool) (method, path string, number, bytes int) {
	switch n := c.random.IntN(10); {
	case n < 4:
		return "GET", "/api/v1/search?q=item", c.random.IntN(300), 500 + c.random.IntN(3000)
	case n < 7 || !member:
		return "GET", "/api/v1/products/", c.random.IntN(5000), 300 + c.random.IntN(900)
	case n < 9:
		return "GET", "/api/v1/cart", -1, 200
	default:
		return "POST", "/api/v1/orders", -1, 90
	}
}

// person returns the user with the given number. The same number always gives the same user.
func (c *people) person(number int) person {
	traits := mix(c.options.Seed, uint64(number))
	p := person{number: number, member: traits%5 < 2, agent: browsers()[traits>>8%4]}
	if traits>>16%5 == 0 {
		a := [16]byte{0x20, 0x01, 0x0d, 0xb8, byte(traits >> 24), byte(traits >> 32), byte(traits >> 40),
			byte(traits >> 48), 15: 1}
		p.client = netip.AddrFrom16(a)
	} else {
		p.client = netip.AddrFrom4([4]byte{100, 64 + byte(traits>>24)%64, byte(traits >> 32), byte(traits >> 40)})
	}
	return p
}

func browsers() [4]string {
	return [...]string{
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/146.0.0.0 Safari/537.36",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 19_2 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/19.2 Mobile/15E148 Safari/604.1",
		"Mozilla/5.0 (X11; Linux x86_64; rv:148.0) Gecko/20100101 Firefox/148.0",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/19.2 Safari/605.1.15",
	}
}

func (c *people) within(d time.Duration) time.Duration {
	return time.Duration(c.random.Int64N(int64(d)))
}

// mix returns pseudorandom bits that depend only on its arguments.
func mix(seed, n uint64) uint64 { return rand.NewPCG(seed, n).Uint64() }
