package server

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lockmw/go/internal/test/redisserver"
)

// nobody is an address without a server: servers never get its port.
const nobody = "127.0.0.1:1"

// StartNodes starts n servers on this machine that do not know one another.
func StartNodes(ctx context.Context, n int) (*Server, error) {
	s := new(Server)
	for range n {
		if err := s.start(ctx, redisserver.Start); err != nil {
			return nil, errors.Join(fmt.Errorf("%d servers: %w", n, err), s.Close())
		}
		s.Independent = append(s.Independent, s.rdbs[len(s.rdbs)-1].Options().Addr)
	}
	return s, nil
}

// First returns the first n of the servers that StartNodes has started, the last dead of which are unreachable. Do not close
// it.
func (s *Server) First(n, dead int) *Server {
	alive := n - dead
	return &Server{
		Addr: s.Addr, Version: s.Version, rdbs: s.rdbs[:alive], own: s.own[:alive],
		Independent: append(slices.Clone(s.Independent[:alive]), slices.Repeat([]string{nobody}, dead)...),
	}
}
