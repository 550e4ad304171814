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

// cluster holds the servers of a Cluster.
type cluster []*redisServer

func (c cluster) Close() {
	for _, node := range c {
		node.Close()
	}
}

// addr returns all nodes in the form that a URL requires.
func (c cluster) addr() string {
	var others []string
	for _, node := range c[1:] {
		others = append(others, "addr="+node.addr)
	}
	return c[0].addr + "?" + strings.Join(others, "&")
}

// startCluster starts a Cluster without replicas.
func startCluster(ctx context.Context) (c cluster) {
	const slots = 16384
	err := contest.Catch(func() {
		for i := range clusterNodes {
			node := startRedis(ctx, "--cluster-enabled", "yes", "--cluster-require-full-coverage", "no")
			c = append(c, node)
			first, last := i*slots/clusterNodes, (i+1)*slots/clusterNodes-1
			contest.OK(node.do(ctx, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last)).Error())
			host, port, _ := net.SplitHostPort(c[0].addr)
			contest.OK(node.do(ctx, "CLUSTER", "MEET", host, port).Error())
		}
		await("the Cluster did not form in time", func() bool {
			together, nodes := true, strconv.Itoa(clusterNodes)
			for _, node := range c {
				info := node.fields(ctx, "CLUSTER", "INFO")
				together = together && info["cluster_state"] == "ok" && info["cluster_size"] == nodes &&
					info["cluster_known_nodes"] == nodes
			}
			return together
		})
	})
	if err != nil {
		c.Close()
		contest.OK(err)
	}
	return c
}

// clusterPeers lists the contenders that accept the URL of a Cluster.
var clusterPeers = []int{plain, stack}

// runCluster runs the workloads on a Cluster whose servers all run on this machine.
func runCluster(ctx context.Context, s contest.Settings, r *contest.Report) {
	c := startCluster(ctx)
	defer c.Close()
	const callers = 64
	var rates [][]string
	for _, w := range workloads() {
		for _, node := range c { // otherwise, decisions would also convert states with other limits
			contest.OK(node.do(ctx, "FLUSHALL").Error())
		}
		var samples []func() load
		for _, i := range clusterPeers {
			d := redisPeers[i].connect(ctx, c.addr(), callers, w.limits...)
			defer d.close()
			walkers := pattern{w.keys, 1}.walkers(callers)
			press(ctx, c[0], d, walkers, warmUp)
			samples = append(samples, func() load { return press(ctx, c[0], d, walkers, pressTime(s)) })
		}
		all := alternate(ctx, s.Rounds, samples...)
		r.AtLeast(1, "×", "cluster: "+w.name+", decisions a second to the plain store").Judge(
			ratios(over(all[stack], perSecond), over(all[plain], perSecond)).Median())
		row := []string{w.name}
		for _, loads := range all {
			row = append(row, counted(over(loads, perSecond)))
		}
		rates = append(rates, row)
	}
	r.Heading("Cluster of three masters, decisions a second, "+plural(callers, "caller"),
		"The callers and all three servers run on one host with two cores.")
	header := []string{""}
	for _, i := range clusterPeers {
		header = append(header, redisPeers[i].name)
	}
	r.Table(header, rates)
}
