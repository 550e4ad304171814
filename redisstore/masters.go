package redisstore

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"

	"github.com/redis/rueidis"
)

// slotOwner is a master of a Cluster and the first slot of one of its ranges.
type slotOwner struct {
	first int64
	addr  string
}

// ownerOf returns the address of the master of a slot, or "" if it is not known.
func ownerOf(masters []slotOwner, slot uint16) string {
	i, exact := slices.BinarySearchFunc(masters, int64(slot), func(o slotOwner, slot int64) int {
		return cmp.Compare(o.first, slot)
	})
	if !exact {
		i--
	}
	if i < 0 {
		return ""
	}
	return masters[i].addr
}

// mastersOf returns the owners of all slots, in slot order, as the first node to answer reports
// them, and the address of that node. It asks all nodes at once, so that a silent node does not use
// up the time.
func mastersOf(ctx context.Context, client rueidis.Client) (owners []slotOwner, addr string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type view struct {
		owners []slotOwner
		addr   string
		err    error
	}
	nodes := client.Nodes()
	views := make(chan view, len(nodes))
	for addr, node := range nodes {
		go func() {
			ranges, err := node.Do(ctx, node.B().ClusterSlots().Build().ToPipe()).ToArray()
			views <- view{ownersOf(ranges), addr, err}
		}()
	}
	err = errors.New("no node of the Cluster is known")
	for range nodes {
		select {
		case v := <-views:
			if v.err == nil {
				return v.owners, v.addr, nil
			}
			err = v.err
		case <-ctx.Done(): // dialing a node may not honor the context
			return nil, "", ctx.Err()
		}
	}
	return nil, "", err
}

// ownersOf reads the reply to CLUSTER SLOTS.
func ownersOf(ranges []rueidis.RedisMessage) (owners []slotOwner) {
	for i := range ranges { // a range has its first slot, last slot, master and replicas
		fields, _ := ranges[i].ToArray()
		if len(fields) < 3 {
			continue
		}
		first, _ := fields[0].AsInt64()
		master, _ := fields[2].ToArray()
		if len(master) >= 2 {
			host, _ := master[0].ToString()
			port, _ := master[1].AsInt64()
			owners = append(owners, slotOwner{first, net.JoinHostPort(host, strconv.FormatInt(port, 10))})
		}
	}
	slices.SortFunc(owners, func(a, b slotOwner) int { return cmp.Compare(a.first, b.first) })
	return owners
}
