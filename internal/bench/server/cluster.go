package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/lockmw/go/internal/test/redisserver"
)

const (
	masters = 3
	slots   = 16384
)

// StartCluster starts a Cluster of three masters on this machine, without replicas and without persistence.
func StartCluster(ctx context.Context) (*Server, error) {
	s := new(Server)
	if err := s.form(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("a Cluster: %w", err), s.Close())
	}
	return s, nil
}

// form starts the nodes, and returns when all of them see all slots.
func (s *Server) form(ctx context.Context) error {
	for i := range masters {
		if err := s.start(ctx, redisserver.StartNode); err != nil {
			return err
		}
		s.Nodes = append(s.Nodes, s.own[i].Addr())
		first, last := slots*i/masters, slots*(i+1)/masters-1
		if err := errors.Join(
			s.rdbs[i].Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(),
			s.rdbs[i].ClusterAddSlotsRange(ctx, first, last).Err(),
		); err != nil {
			return err
		}
	}
	for i, node := range s.own {
		host, port, err := net.SplitHostPort(node.Addr())
		if err != nil {
			return err
		}
		for j := range i {
			if err := s.rdbs[j].Do(ctx, "CLUSTER", "MEET", host, port, node.BusPort()).Err(); err != nil {
				return err
			}
		}
	}
	return s.awaitSlots(ctx)
}

// awaitSlots waits until each node knows all slots and nodes.
func (s *Server) awaitSlots(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for _, rdb := range s.rdbs {
		for {
			info, err := fieldsOf(rdb.ClusterInfo(ctx))
			if err != nil {
				return err
			}
			if info["cluster_state"] == "ok" && info["cluster_slots_ok"] == fmt.Sprint(slots) && info["cluster_size"] == fmt.Sprint(masters) {
				break
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return fmt.Errorf("its nodes do not agree: %v: %w", info, ctx.Err())
			}
		}
	}
	return nil
}
