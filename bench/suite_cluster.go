package main

import (
	"context"
	"net"
	"strconv"
	"strings"

	"github.com/stint-limiter/stint/bench/internal/contest"
)

// clusterNodes is the number of masters in the Cluster.
const clusterNodes = 3

// servers holds several servers of the bench: a Cluster, or a master and its replica.
type servers []*redisServer

func (c servers) Close() {
	for _, node := range c {
		node.Close()
	}
}

// addr returns all nodes in the form that a URL requires.
func (c servers) addr() string {
	var others []string
	for _, node := range c[1:] {
		others = append(others, "addr="+node.addr)
	}
	return c[0].addr + "?" + strings.Join(others, "&")
}

// startServers calls a function that starts servers. If the function fails, the servers it has
// started are closed.
func startServers(start func(*servers)) (c servers) {
	if err := contest.Catch(func() { start(&c) }); err != nil {
		c.Close()
		contest.OK(err)
	}
	return c
}

// startCluster starts a Cluster with that number of masters and no replicas.
func startCluster(ctx context.Context, nodes int) servers {
	return startServers(func(c *servers) {
		const slots = 16384
		for i := range nodes {
			node := startRedis(ctx, "--cluster-enabled", "yes", "--cluster-require-full-coverage", "no")
			*c = append(*c, node)
			first, last := i*slots/nodes, (i+1)*slots/nodes-1
			contest.OK(node.do(ctx, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last)).Error())
			host, port, _ := net.SplitHostPort((*c)[0].addr)
			contest.OK(node.do(ctx, "CLUSTER", "MEET", host, port).Error())
		}
		await("the Cluster did not come together", func() bool {
			together := true
			for _, node := range *c {
				info := node.fields(ctx, "CLUSTER", "INFO")
				together = together && info["cluster_state"] == "ok" &&
					info["cluster_size"] == strconv.Itoa(nodes) && info["cluster_known_nodes"] == strconv.Itoa(nodes)
			}
			return together
		})
	})
}

// clusterPeers lists the contenders that support a Cluster in a URL.
var clusterPeers = []int{plain, stack}

// runCluster repeats the load on a Cluster. Two cores carry all of it.
func runCluster(ctx context.Context, s contest.Settings, r *contest.Report) {
	c := startCluster(ctx, clusterNodes)
	defer c.Close()
	const callers = 64
	var rates [][]string
	for _, w := range workloads() {
		for _, node := range c { // otherwise, a subject with other limits would be rewritten
			contest.OK(node.do(ctx, "FLUSHALL").Error())
		}
		var samples []func() float64
		for _, i := range clusterPeers {
			d := redisPeers[i].connect(ctx, c.addr(), callers, w.limits...)
			defer d.close()
			walkers := pattern{w.keys, 1}.walkers(callers)
			press(ctx, c[0], d, walkers, warmUp)
			samples = append(samples, func() float64 {
				return press(ctx, c[0], d, walkers, pressTime(s)).perSecond
			})
		}
		all := alternate(ctx, s.Rounds, samples...)
		r.AtLeast(1, "×", "cluster: "+w.name+", decisions a second to the plain store").Judge(
			ratios(all[stack], all[plain]).Median())
		row := []string{w.name}
		for _, rates := range all {
			row = append(row, counted(rates))
		}
		rates = append(rates, row)
	}
	r.Heading("Cluster of three masters, decisions a second, "+plural(callers, "caller"),
		"One host with two cores carries the callers and all three servers.")
	header := []string{""}
	for _, i := range clusterPeers {
		header = append(header, redisPeers[i].name)
	}
	r.Table(header, rates)
}
