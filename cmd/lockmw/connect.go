package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/doctor"
)

// An address is the location of Redis with the credentials. The processes of verify get its exported fields as JSON.
type address struct {
	URL, User, Password, CA, Cert, Key string

	passwordFile string // read into Password
	slotted      bool   // it is a proxy that looks like one server: see lockmw.WithSlottedKeys
}

// A connection is a client of the server with the offset of the server's clock.
type connection struct {
	client redis.UniversalClient
	place  *place
	ahead  time.Duration // of the server's clock, compared with this machine's
}

func (c *connection) close() { _ = c.client.Close() } // an error here has no remedy

// now is the time by the server's clock, which also dates holds and waits.
func (c *connection) now() time.Time { return time.Now().Add(c.ahead) }

// A place is a parsed URL.
type place struct {
	sentinel, cluster bool
	hosts             []string
	master            string
	options           *redis.Options // of the server
	shown             string         // the address without credentials
	sentinelUser      string
	sentinelPassword  string
	secrets           secrets
}

// errSpecial refuses a URL in which part of a password may stand where a host, a path or an option belongs.
var errSpecial = usage("--redis: there is an @ after the first /, ? or #; percent-encode special characters of the password")

// parse reads a.URL. No error shows anything that may be a password, or part of one.
func (a *address) parse() (*place, error) {
	p := &place{}
	scheme, rest, given := strings.Cut(a.URL, "://")
	if !given {
		scheme, rest = "redis", a.URL
	}
	base, kind, _ := strings.Cut(scheme, "+")
	p.sentinel, p.cluster = kind == "sentinel", kind == "cluster"
	if base != "redis" && base != "rediss" || kind != "" && !p.sentinel && !p.cluster {
		return nil, usage("--redis: use host:port, or a URL that begins with redis://, redis+sentinel:// or redis+cluster:// (rediss for TLS)")
	}
	rest, query, _ := strings.Cut(rest, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, usage("--redis: the options after the ? cannot be parsed")
	}
	p.sentinelUser, p.sentinelPassword = values.Get("sentinel_username"), values.Get("sentinel_password")
	values.Del("sentinel_username")
	values.Del("sentinel_password")
	rest, path, found := strings.Cut(rest, "/")
	if found {
		p.shown = "/" + path
	}
	who := ""
	if i := strings.LastIndex(rest, "@"); i >= 0 {
		who, rest = rest[:i+1], rest[i+1:]
	}
	if strings.Contains(path, "@") || isPassword(query) || strings.Contains(who, "#") {
		return nil, errSpecial
	}
	_, password, _ := strings.Cut(strings.TrimSuffix(who, "@"), ":")
	p.secrets = secrets{password, p.sentinelPassword, url.QueryEscape(p.sentinelPassword)}
	p.hosts = strings.Split(rest, ",")
	switch {
	case p.sentinel:
		if p.master, path, _ = strings.Cut(path, "/"); p.master == "" {
			return nil, usage("--redis: the master's name is missing: redis+sentinel://host:26379/name")
		}
	case p.cluster && path != "":
		return nil, usage("--redis: a Cluster has only one database")
	case !p.cluster && len(p.hosts) > 1:
		return nil, usage("--redis: several hosts need redis+cluster:// or redis+sentinel://")
	}
	port := "6379"
	if p.sentinel {
		port = "26379"
	}
	for i, host := range p.hosts {
		if !strings.Contains(host[strings.LastIndex(host, "]")+1:], ":") {
			p.hosts[i] = host + ":" + port
		}
	}
	p.shown = strings.Join(p.hosts, ",") + p.shown
	if given {
		p.shown = scheme + "://" + p.shown
	}
	parsed := base + "://" + who + p.hosts[0] + "/" + path
	if len(values) > 0 {
		parsed += "?" + values.Encode()
	}
	if p.options, err = redis.ParseURL(parsed); err != nil {
		if _, ok := errors.AsType[*url.Error](err); ok {
			err = errors.New("the URL cannot be parsed; percent-encode special characters of the password")
		}
		return nil, usage("--redis: %v", err)
	}
	p.secrets = append(p.secrets, p.options.Password)
	return p, nil
}

// isPassword reports whether the text after a ? is probably part of a password: it contains an @.
func isPassword(query string) bool {
	for option := range strings.SplitSeq(query, "&") {
		if strings.Contains(option, "@") && !strings.HasPrefix(option, "sentinel_") {
			return true
		}
	}
	return false
}

// tlsFiles loads the certificates into o.
func (a *address) tlsFiles(o *redis.Options) error {
	if a.CA == "" && a.Cert == "" && a.Key == "" {
		return nil
	}
	if o.TLSConfig == nil {
		return usage("--tls-ca, --tls-cert and --tls-key need a URL that begins with rediss")
	}
	if a.CA != "" {
		pem, err := os.ReadFile(a.CA)
		if err != nil {
			return usage("--tls-ca: %v", err)
		}
		o.TLSConfig.RootCAs = x509.NewCertPool()
		if !o.TLSConfig.RootCAs.AppendCertsFromPEM(pem) {
			return usage("--tls-ca: there is no certificate in %s", a.CA)
		}
	}
	if a.Cert != "" || a.Key != "" {
		cert, err := tls.LoadX509KeyPair(a.Cert, a.Key)
		if err != nil {
			return usage("--tls-cert and --tls-key: %v", err)
		}
		o.TLSConfig.Certificates = []tls.Certificate{cert}
	}
	return nil
}

// place returns the place with the credentials, certificates and timeouts.
func (a *address) place(timeout time.Duration, s *secrets) (*place, error) {
	p, err := a.parse()
	if err != nil {
		return nil, err
	}
	o := p.options
	if a.User != "" {
		o.Username = a.User
	}
	if a.passwordFile != "" {
		text, err := os.ReadFile(a.passwordFile)
		if err != nil {
			return nil, usage("--password-file: %v", err)
		}
		a.Password = strings.TrimRight(string(text), "\r\n")
	}
	if a.Password != "" {
		o.Password = a.Password
	}
	*s = append(append(*s, o.Password), p.secrets...)
	if o.Username != "" && o.Username != "default" && o.Password == "" {
		// go-redis would log in as nobody, and so run all commands as the default user. The name may be a misplaced password.
		return nil, usage("the user has no password: set LOCKMW_PASSWORD or --password-file (any text, if the server wants none)")
	}
	if err := a.tlsFiles(o); err != nil {
		return nil, err
	}
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.DialerRetries, o.MaxRetries = timeout, timeout, timeout, 1, 1
	o.ContextTimeoutEnabled = true // Ctrl-C ends a command immediately
	return p, nil
}

// connect connects to the server, detects a Cluster, and measures the offset of the server's clock.
func (a *address) connect(ctx context.Context, timeout time.Duration, s *secrets) (*connection, error) {
	p, err := a.place(timeout, s)
	if err != nil {
		return nil, err
	}
	conn := &connection{client: p.client(), place: p}
	if !p.sentinel && !p.cluster && !a.slotted {
		if err := conn.lookAtServer(ctx); err != nil {
			conn.close()
			return nil, err
		}
	}
	if conn.ahead, _, err = doctor.ReadClock(ctx, conn.client); err != nil && !redis.IsPermissionError(err) {
		conn.close()
		return nil, p.explain(ctx, err)
	}
	return conn, nil
}

// explain returns a clearer error for a wrong address where it can find the reason; otherwise it returns met.
func (p *place) explain(ctx context.Context, met error) error {
	switch {
	case p.cluster && strings.Contains(met.Error(), "cluster support disabled"):
		return fmt.Errorf("%s is not a Cluster: use redis://%s", strings.Join(p.hosts, ","), p.hosts[0])
	case !p.sentinel:
		return met
	}
	for _, host := range p.hosts {
		names, err := p.mastersOf(ctx, host)
		switch {
		case err != nil && strings.Contains(err.Error(), "unknown command"):
			return fmt.Errorf("%s is not a Sentinel: use redis://%s", host, host)
		case err != nil || slices.Contains(names, p.master): // the name is not the problem
		case len(names) == 0:
			return errors.New("the Sentinels monitor no master")
		default:
			return fmt.Errorf("no master is named \"%s\": the Sentinels monitor %s", p.master, strings.Join(names, ", "))
		}
	}
	return met
}

// mastersOf returns the names of the masters that a Sentinel monitors.
func (p *place) mastersOf(ctx context.Context, host string) (names []string, err error) {
	o := p.options
	sentinel := redis.NewSentinelClient(&redis.Options{
		Addr: host, Username: p.sentinelUser, Password: p.sentinelPassword, TLSConfig: o.TLSConfig, DialTimeout: o.DialTimeout,
		ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout, ContextTimeoutEnabled: true, DialerRetries: 1, MaxRetries: -1,
		Protocol: 2, // RESP2 returns maps as lists
	})
	defer sentinel.Close()
	masters, err := sentinel.Masters(ctx).Result()
	for _, master := range masters {
		fields, _ := master.([]any)
		for i := 0; i+1 < len(fields); i += 2 {
			if name, ok := fields[i+1].(string); ok && fields[i] == "name" {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names, err
}

// client returns a client for a place.
func (p *place) client() redis.UniversalClient {
	o := p.options
	if !p.cluster && !p.sentinel {
		return redis.NewClient(o)
	}
	several := &redis.UniversalOptions{
		Addrs: p.hosts, IsClusterMode: p.cluster, MasterName: p.master, SentinelUsername: p.sentinelUser, SentinelPassword: p.sentinelPassword,
		Username: o.Username, Password: o.Password, DB: o.DB, TLSConfig: o.TLSConfig, Dialer: o.Dialer,
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout,
		ContextTimeoutEnabled: o.ContextTimeoutEnabled, DialerRetries: o.DialerRetries,
	}
	if p.sentinel { // a client of a Cluster repeats commands by itself
		several.MaxRetries = o.MaxRetries
	}
	return redis.NewUniversalClient(several)
}

// lookAtServer detects the kind of server at a single address. For a node of a Cluster it switches to a Cluster client.
func (c *connection) lookAtServer(ctx context.Context) error {
	p := c.place
	info := c.client.Info(ctx, "server").Val() // INFO may be denied; then the address is taken for a single server
	switch {
	case strings.Contains(info, "_mode:cluster"): // redis_mode, or server_mode of Valkey
		c.close()
		p.cluster = true
		c.client = p.client()
	case strings.Contains(info, "_mode:sentinel"):
		return fmt.Errorf("%s is a Sentinel: use redis+sentinel://%s/ followed by the master's name", p.hosts[0], p.hosts[0])
	}
	return nil
}
