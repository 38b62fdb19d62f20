package server

import (
	"fmt"
	"strings"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// A Relay is a slow connection to a server.
type Relay struct {
	Addr string

	proxy *toxiproxy.Proxy
}

// Relay puts a connection in front of s that delays answers, in whole milliseconds.
func (s *Server) Relay(delay time.Duration) (*Relay, error) {
	silent := zerolog.Nop()
	proxy := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), silent), "relay", "127.0.0.1:0", s.Addr)
	if err := proxy.Start(); err != nil {
		return nil, fmt.Errorf("starting a relay: %w", err)
	}
	toxic := fmt.Sprintf(`{"type":"latency","stream":"downstream","attributes":{"latency":%d}}`, delay.Milliseconds())
	if _, err := proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		proxy.Stop()
		return nil, fmt.Errorf("slowing the relay down: %w", err)
	}
	return &Relay{Addr: proxy.Listen, proxy: proxy}, nil
}

// Close ends the relay's connections and the relay.
func (r *Relay) Close() { r.proxy.Stop() }
