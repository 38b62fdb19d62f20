package docs

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/test/usertest"
)

// aclLines returns the patterns and commands in the three lines with ACL SETUSER in docs/operations.md: those for every user,
// those that a Cluster also needs, and those that asynq also needs.
func aclLines(t *testing.T) (everywhere, inCluster, forAsynq []string) {
	t.Helper()
	text, err := os.ReadFile(root + "/docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var lines [][]string
	for _, block := range fence.FindAllStringSubmatch(string(text), -1) {
		_, line, found := strings.Cut(block[2], "ACL SETUSER ")
		if !found {
			continue
		}
		var rules []string
		for rule := range strings.FieldsSeq(line) {
			rule = strings.Trim(rule, "'")
			if strings.ContainsRune("~&+", rune(rule[0])) {
				rules = append(rules, rule)
			}
		}
		lines = append(lines, rules)
	}
	if len(lines) != 3 || len(lines[0]) < 3 || len(lines[1]) == 0 || len(lines[2]) < 3 {
		t.Fatalf("docs/operations.md does not have the three lines: %q", lines)
	}
	return lines[0], lines[1], lines[2]
}

// An aclServer is a server with a user for each set of rules.
type aclServer struct {
	*redistest.Server
	admin  *redis.Client
	always []string // further rules that the page names for servers such as this one
}

// noteAll makes a server log everything that it denies.
var noteAll = []string{"--acllog-max-len", "1000"}

func newACLServer(t *testing.T, server *redistest.Server) *aclServer {
	s := &aclServer{Server: server, admin: server.NewClient(t)}
	// Servers reject rules for subcommands that they do not have. Redis 6 accepts them, and logs such a subcommand as denied.
	for _, rule := range []string{"+client|setinfo", "+client|maint_notifications"} {
		if s.has(t, rule) {
			s.always = append(s.always, rule)
		}
	}
	return s
}

const password = "secret"

// allow creates a user with these rules.
func (s *aclServer) allow(t *testing.T, user string, rules []string) {
	t.Helper()
	rules = slices.Concat([]string{"reset", "on", ">" + password}, rules, s.always)
	if err := redistest.SetUser(t.Context(), s.admin, user, rules...); err != nil {
		t.Fatal(err)
	}
}

// user returns a client of a user with these rules.
func (s *aclServer) user(t *testing.T, user string, rules []string) *redis.Client {
	t.Helper()
	s.allow(t, user, rules)
	return s.NewClient(t, func(o *redis.Options) { o.Username, o.Password = user, password })
}

// has reports whether the server has the subject of a rule, such as channels or a command.
func (s *aclServer) has(t *testing.T, rule string) bool {
	t.Helper()
	return s.admin.Do(t.Context(), "ACL", "SETUSER", "probe", rule).Err() == nil
}

// needs skips a test about a rule that the server does not have.
func (s *aclServer) needs(t *testing.T, rule string) {
	t.Helper()
	if !s.has(t, rule) {
		t.Skipf("the server has no rule %s", rule)
	}
}

// denied returns what the server has denied the user so far.
func (s *aclServer) denied(t *testing.T, user string) (what []string) {
	t.Helper()
	entries, err := s.admin.ACLLog(context.Background(), 1000).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Username == user {
			what = append(what, e.Reason+" "+e.Object)
		}
	}
	return what
}

// suffices checks that c's user can make every call without a denial or a log line.
func (s *aclServer) suffices(t *testing.T, user string, c redis.UniversalClient) {
	t.Helper()
	var log usertest.Output
	service, end := newService(t, c, user, slog.New(slog.NewTextHandler(&log, nil)))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := service.everyCall(ctx); err != nil {
		t.Error(err)
	}
	end()
	if denied := s.denied(t, user); len(denied) > 0 {
		t.Errorf("denied: %v", denied)
	}
	for line := range strings.Lines(log.String()) {
		if !strings.Contains(line, "its own process holds") { // both Clients are in this process, and one waits for long
			t.Errorf("logged: %s", line)
		}
	}
}

func TestACLLineSuffices(t *testing.T) {
	t.Parallel()
	rules, _, _ := aclLines(t)
	s := newACLServer(t, redistest.Redis(t, noteAll...))
	s.suffices(t, "orders", s.user(t, "orders", rules))
}

func TestACLLineSufficesInACluster(t *testing.T) {
	suite.NeedsFull(t, "the nodes have to find each other")
	t.Parallel()
	rules, further, _ := aclLines(t)
	cluster := redistest.NewCluster(t, 1, 0, noteAll...)
	s := newACLServer(t, cluster.Nodes[0])
	for _, rule := range further {
		if s.has(t, rule) { // before Redis 7.0 there are no sharded channels
			rules = append(rules, rule)
		}
	}
	s.allow(t, "orders", rules)
	s.suffices(t, "orders", cluster.Client(t, func(o *redis.ClusterOptions) { o.Username, o.Password = "orders", password }))
}

func TestEachRuleOfTheACLLineIsNeeded(t *testing.T) {
	suite.NeedsFull(t, "makes all calls once for each item of the line")
	rules, _, _ := aclLines(t)
	s := newACLServer(t, redistest.Redis(t, noteAll...))
	for i, rule := range rules {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			s.needs(t, rule)
			s.isNeeded(t, rule, append(rules[:i:i], rules[i+1:]...))
		})
	}
}

// isNeeded checks that a call is denied exactly what a missing rule would allow.
func (s *aclServer) isNeeded(t *testing.T, missing string, rules []string) {
	user := "without-" + missing[1:]
	service, end := newService(t, s.user(t, user, rules), user, slog.New(slog.DiscardHandler))
	defer end()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	var result error
	over := make(chan struct{})
	go func() {
		defer close(over)
		result = service.everyCall(ctx)
	}()
	defer func() { cancel(); <-over }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ended := false; !ended; {
		select {
		case <-tick.C:
		case <-over:
			ended = true
		}
		denied := s.denied(t, user)
		for _, what := range denied {
			if !strings.HasPrefix(what, denial(missing)) {
				t.Errorf("without %s a call is denied %s", missing, what)
			}
		}
		if len(denied) > 0 {
			return
		}
	}
	t.Errorf("nothing needs %s (%v)", missing, result)
}

// denial returns the server's log entry for a missing rule.
func denial(rule string) string {
	switch rule[0] {
	case '~':
		return "key "
	case '&':
		return "channel "
	}
	return "command " + rule[1:]
}
