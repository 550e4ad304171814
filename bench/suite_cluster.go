package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/stint-limiter/stint/bench/internal/contest"
)

// clusterNodes is how many masters the Cluster has.
const clusterNodes = 3

// cluster is masters of our own that share the slots.
type cluster []*redisServer

func (c cluster) Close() {
	for _, node := range c {
		node.Close()
	}
}

// addr is all nodes as a URL wants them.
func (c cluster) addr() string {
	var others []string
	for _, node := range c[1:] {
		others = append(others, "addr="+node.addr)
	}
	return c[0].addr + "?" + strings.Join(others, "&")
}

// startCluster starts a Cluster of so many masters without replicas.
func startCluster(ctx context.Context, nodes int) (c cluster, err error) {
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	const slots = 16384
	for i := range nodes {
		node, err := startRedis(ctx, "--cluster-enabled", "yes", "--cluster-require-full-coverage", "no")
		if err != nil {
			return c, err
		}
		c = append(c, node)
		first, last := i*slots/nodes, (i+1)*slots/nodes-1
		if err := node.do(ctx, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first),
			strconv.Itoa(last)).Error(); err != nil {
			return c, err
		}
		host, port, _ := net.SplitHostPort(c[0].addr)
		if err := node.do(ctx, "CLUSTER", "MEET", host, port).Error(); err != nil {
			return c, err
		}
	}
	for range 200 {
		together := true
		for _, node := range c {
			info, err := node.do(ctx, "CLUSTER", "INFO").ToString()
			if err != nil {
				return c, err
			}
			together = together && strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, fmt.Sprintf("cluster_size:%d\r", nodes)) &&
				strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", nodes))
		}
		if together {
			return c, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return c, errors.New("the Cluster did not come together")
}

// clusterPeers are the contenders that know Clusters by a URL.
var clusterPeers = []int{plain, stack}

// runCluster repeats the load on a Cluster. Two cores carry it all.
func runCluster(ctx context.Context, s contest.Settings, r *contest.Report) error {
	c, err := startCluster(ctx, clusterNodes)
	if err != nil {
		return err
	}
	defer c.Close()
	const callers = 64
	var rates [][]string
	for _, w := range workloads() {
		for _, node := range c { // a subject with other limits would be rewritten
			if err := node.do(ctx, "FLUSHALL").Error(); err != nil {
				return err
			}
		}
		var samples []func() (float64, error)
		for _, i := range clusterPeers {
			peer := redisPeers[i]
			d, err := peer.open(ctx, c.addr(), callers, w.limits...)
			if err != nil {
				return fmt.Errorf("%s: %w", peer.name, err)
			}
			defer d.close()
			walkers := pattern{w.keys, 1}.walkers(callers)
			if _, err := press(ctx, c[0], d, walkers, settling/20); err != nil { // connects
				return fmt.Errorf("%s: %w", peer.name, err)
			}
			samples = append(samples, func() (float64, error) {
				l, err := press(ctx, c[0], d, walkers, contest.Pick(s, 400*time.Millisecond, 200*time.Millisecond))
				return l.perSecond, err
			})
		}
		time.Sleep(settling)
		all, err := alternate(ctx, min(s.Rounds, 5), samples...)
		if err != nil {
			return err
		}
		r.AtMost(1, "×", "cluster: "+w.name+", time per decision to the plain store").Judge(
			all[plain].Median() / all[stack].Median())
		row := []string{w.name}
		for _, perSecond := range all {
			row = append(row, fmt.Sprintf("%s ±%.0f%%", contest.Count(int64(perSecond.Median())),
				100*perSecond.Spread()))
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
	return nil
}
