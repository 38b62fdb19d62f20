package main

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/test/usertest"
	"github.com/lockmw/go/lockmw"
)

func TestURLsOfAllKindsAreRead(t *testing.T) {
	for text, want := range map[string]place{
		"redis.internal:6380":                          {hosts: []string{"redis.internal:6380"}},
		"redis.internal":                               {hosts: []string{"redis.internal:6379"}},
		"[::1]:6380":                                   {hosts: []string{"[::1]:6380"}},
		"redis://h:1/3":                                {hosts: []string{"h:1"}},
		"redis+cluster://u:p@a:1,b:2":                  {hosts: []string{"a:1", "b:2"}, cluster: true},
		"rediss+cluster://a":                           {hosts: []string{"a:6379"}, cluster: true},
		"redis+sentinel://u:p@a:1,b/orders/3":          {hosts: []string{"a:1", "b:26379"}, sentinel: true, master: "orders"},
		"rediss+sentinel://a/m?sentinel_password=pass": {hosts: []string{"a:26379"}, sentinel: true, master: "m", sentinelPassword: "pass"},
	} {
		a := address{URL: text}
		p, err := a.parse()
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if !slices.Equal(p.hosts, want.hosts) || p.cluster != want.cluster || p.sentinel != want.sentinel || p.master != want.master || p.sentinelPassword != want.sentinelPassword {
			t.Errorf("%s is %+v", text, p)
		}
		o := p.options
		if strings.Contains(text, "u:p@") != (o.Username == "u" && o.Password == "p") || strings.HasPrefix(text, "rediss") != (o.TLSConfig != nil) ||
			strings.HasSuffix(text, "/3") != (o.DB == 3) {
			t.Errorf("%s: user %q, database %d, TLS %t", text, o.Username, o.DB, o.TLSConfig != nil)
		}
		if strings.Contains(p.shown, "p@") || strings.Contains(p.shown, "pass") {
			t.Errorf("%s is shown as %s", text, p.shown)
		}
	}
}

func TestInvalidURLsAreRefused(t *testing.T) {
	for _, text := range []string{
		"http://h", "redis+ring://h", "redis://u:hush@h:port/0", "redis://u:hush%zz@h", "redis://h/x", "redis://a:1,b:2", "redis+sentinel://h", "redis+cluster://h/1",
		"redis://u:hush@h?x=%zz", "redis://u:hush@h?unknown=1", "redis://:6379#hush@h", "redis://:6379/hush@h",
	} {
		r := call{args: []string{"ls", "--redis", text}}.run(t.Context())
		if r.want(t, statusUsage, "--redis"); strings.Contains(r.out+r.err, "hush") {
			t.Errorf("%s: the password is printed: %s", text, r.err)
		}
	}
}

func TestTheErrorOfAnUnreachableServerNamesTheVariable(t *testing.T) {
	s := redistest.Redis(t)
	s.Kill()
	lockmwOn(t, s, "ls").want(t, statusFailed, "connection refused", "LOCKMW_REDIS")
}

func TestPasswordsComeFromVariablesAndFiles(t *testing.T) {
	s := redistest.Redis(t, "--requirepass", "hush")
	lockmwOn(t, s, "ls").want(t, statusFailed, "LOCKMW_PASSWORD")
	env := map[string]string{"LOCKMW_REDIS": s.Addr(), "LOCKMW_PASSWORD": "hush"}
	call{args: []string{"ls"}, env: env}.run(t.Context()).want(t, statusNothing, "nobody has used the prefix")
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lockmwOn(t, s, "ls", "--password-file", file).want(t, statusNothing)
	r := call{args: []string{"ls", "--redis", "redis://:wrong@" + s.Addr()}}.run(t.Context())
	if r.want(t, statusFailed, "WRONGPASS", "password is wrong"); strings.Contains(r.err, ":wrong@") {
		t.Error("the password is printed")
	}
	call{args: []string{"ls"}, env: map[string]string{"LOCKMW_TIMEOUT": "soon"}}.run(t.Context()).want(t, statusUsage, "LOCKMW_TIMEOUT")
}

func TestAUserWithoutTheRightToScanGetsAHint(t *testing.T) {
	s := redistest.Redis(t)
	admin := s.NewClient(t)
	if err := redistest.SetUser(t.Context(), admin, "oncall", "reset", "on", ">hush", "~*", "&*", "+@all", "-scan"); err != nil {
		t.Fatal(err)
	}
	take(t, newClient(t, s), "user:42")
	env := map[string]string{"LOCKMW_USER": "oncall", "LOCKMW_PASSWORD": "hush", "LOCKMW_REDIS": s.Addr()}
	call{args: []string{"ls"}, env: env}.run(t.Context()).want(t, statusFailed, "NOPERM", "may not run SCAN", "access-rights")
	call{args: []string{"show", "user:42"}, env: env}.run(t.Context()).want(t, statusDone, "user:42: 1 hold", "kept places are not shown")
}

func TestTLSTakesCertificatesFromFiles(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	m := miniredis.NewMiniRedis()
	if err := m.StartTLS(&tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS12}); err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	url := "rediss://" + m.Addr()
	call{args: []string{"ls", "--redis", url, "--tls-ca", ca}}.run(t.Context()).want(t, statusNothing, "nobody has used the prefix")
	call{args: []string{"ls", "--redis", url}}.run(t.Context()).want(t, statusFailed, "--tls-ca")
	for _, args := range [][]string{{"--tls-ca", ca + "x"}, {"--tls-cert", ca}, {"--tls-ca", ca, "--redis", m.Addr()}} {
		call{args: append([]string{"ls", "--redis", url}, args...)}.run(t.Context()).want(t, statusUsage, "--tls")
	}
}

func TestAClusterAndSentinelsAreFound(t *testing.T) {
	suite.NeedsFull(t, "several servers take seconds to form")
	t.Parallel()
	t.Run("cluster", func(t *testing.T) {
		c := redistest.NewCluster(t, 3, 0)
		locks, err := lockmw.New(c.Client(t))
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()
		keys := []string{c.KeyAt(0), c.KeyAt(1), c.KeyAt(2)}
		for _, key := range keys {
			take(t, locks, key)
		}
		for _, url := range []string{"redis+cluster://" + strings.Join(c.Addrs(), ","), c.Nodes[1].Addr()} {
			call{args: []string{"ls", "--redis", url}}.run(t.Context()).want(t, statusDone, keys...)
			call{args: []string{"show", keys[0], "--redis", url}}.run(t.Context()).want(t, statusDone, keys[0])
		}
	})
	t.Run("sentinel", func(t *testing.T) {
		s := redistest.NewSentinel(t, 1, 1)
		o := s.Options()
		locks, err := lockmw.New(s.Universal(t))
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()
		take(t, locks, "user:42")
		url := "redis+sentinel://" + strings.Join(o.Addrs, ",") + "/" + o.MasterName
		call{args: []string{"ls", "--redis", url}}.run(t.Context()).want(t, statusDone, "user:42")
		call{args: []string{"ls", "--redis", o.Addrs[0]}}.run(t.Context()).want(t, statusFailed, "Sentinel")
		call{args: []string{"ls", "--redis", "redis+sentinel://" + o.Addrs[0] + "/other"}}.run(t.Context()).want(t, statusFailed, `named "other"`, "the Sentinels monitor "+o.MasterName)
	})
}

func TestErrorsHidePasswords(t *testing.T) {
	c := &command{secrets: secrets{"", "hush"}}
	if got := c.secrets.hide(errors.New("dial redis://u:hush@h: hush").Error()); got != "dial redis://u:…@h: …" {
		t.Errorf("the text is %q", got)
	}
}

func TestNoPasswordIsShown(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	at := s.Addr()
	for _, text := range []string{
		":s3cret@" + at, "u:s3cret@" + at, "redis://:s3cret@" + at, "redis://u:s3cret@" + at + "/1?read_timeout=1s", "rediss://u:s3cret@" + at,
		"redis://:s3c/ret@" + at, "redis://:s3c?ret@" + at, "redis://:s3c?ret=1@" + at, "redis://:s3c#ret@" + at, "redis://:6379#s3cret@" + at, ":s3c/ret@" + at,
		":6379/s3cret@" + at, ":6379?s3cret@" + at, ":6379?s3cret=@" + at, "redis://:s3c%72et@" + at, "redis://:s3c%zzret@" + at, "redis://:s3c@ret@" + at,
		"redis+sentinel://u:s3cret@" + at + "/m", "redis+sentinel://" + at + "/m?sentinel_password=s3cret", "redis+sentinel://" + at + "/m?sentinel_password=s3c%zzret",
		"redis+cluster://u:s3cret@" + at, "redis+cluster://u:s3cret@" + at + ",u:s3cret@" + at, "redis://u:s3cret@" + at + ",other",
		"redis://u:s3cret@" + at + "/no-number", "redis://u:s3cret@" + at + "?s=1", "redis://u:s3cret@127.0.0.1:1", "redis://u:s3cret@[::1", "redis://u:s3cret@h:port",
	} {
		for _, args := range [][]string{
			{"ls", "--redis", text}, {"top", "--json", "--for", "1ms", "--redis", text}, {"doctor", "--read-only", "--redis", text}, {text}, {"ls", text}, {"show", "k", text},
			{"ls", "--address=" + text}, {"ls", "-redis=" + text}, {"ls", "-r" + text}, {"ls", "-r", text}, {"ls", "--redis", at, "--timeout", "5s", text},
		} {
			r := call{args: append(args, "--timeout", "300ms")}.run(t.Context())
			for _, part := range []string{"s3c", "ret@", "ret=", "%72"} {
				if strings.Contains(r.out+r.err, part) {
					t.Errorf("%q shows the password: %s%s", args, r.out, r.err)
					break
				}
			}
		}
		a := address{URL: text}
		if p, err := a.parse(); err == nil && (strings.Contains(p.shown, "s3c") || strings.Contains(p.shown, "ret")) {
			t.Errorf("top shows %s as %s", text, p.shown)
		}
	}
	for text, want := range map[string]string{
		":s3cret@h:1": "h:1", "h": "h:6379", "redis://u:s3cret@h:1/3?read_timeout=1s": "redis://h:1/3", "rediss://h": "rediss://h:6379",
		"redis+sentinel://u:s3cret@a:1,b/m/3": "redis+sentinel://a:1,b:26379/m/3",
	} {
		a := address{URL: text}
		if p, err := a.parse(); err != nil || p.shown != want {
			t.Errorf("%s is shown as %+v, %v; want %s", text, p, err, want)
		}
	}
	for _, text := range []string{"redis+sentinel://a:1/m?sentinel_password=p@ss", "redis://u:p%40%2F%3F%23@h", "redis://h?client_name=a%40b"} {
		a := address{URL: text}
		if _, err := a.parse(); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// sentinelOf returns a fake Sentinel that monitors masters of these names, all at one address.
func sentinelOf(t *testing.T, at string, masters ...string) (addr string) {
	t.Helper()
	s := redistest.Mini(t)
	host, port, _ := net.SplitHostPort(at)
	err := s.Mini.Server().Register("SENTINEL", func(c *server.Peer, _ string, args []string) {
		switch what := strings.ToLower(args[0]); {
		case what == "masters":
			c.WriteLen(len(masters))
			for _, name := range masters {
				c.WriteStrings([]string{"name", name, "ip", host, "port", port})
			}
		case what == "get-master-addr-by-name" && slices.Contains(masters, args[1]):
			c.WriteStrings([]string{host, port})
		case what == "get-master-addr-by-name":
			c.WriteNull()
		default:
			c.WriteLen(0)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return s.Addr()
}

func TestAnUnknownMasterIsNamedWithTheKnownOnes(t *testing.T) {
	s := redistest.Mini(t)
	at := sentinelOf(t, s.Addr(), "orders", "us\u202eers")
	ls := func(url string) result {
		return call{args: []string{"ls", "--redis", url, "--timeout", "1s"}}.run(t.Context())
	}
	ls("redis+sentinel://"+at+"/orders").want(t, statusNothing, "nobody has used the prefix")
	for _, hosts := range []string{at, "127.0.0.1:1," + at} {
		r := ls("redis+sentinel://" + hosts + "/ord\u202eer")
		r.want(t, statusFailed, `no master is named "ord\u202eer"`, `the Sentinels monitor orders, us\u202eers`)
		if strings.Contains(r.err, "unreachable") || len(unsafeRunes(r.err)) > 0 {
			t.Errorf("the error is %q", r.err)
		}
	}
	ls("redis+sentinel://"+sentinelOf(t, s.Addr())+"/orders").want(t, statusFailed, "the Sentinels monitor no master")
	ls("redis+sentinel://"+s.Addr()+"/orders").want(t, statusFailed, s.Addr()+" is not a Sentinel")
	ls("redis+sentinel://127.0.0.1:1/orders").want(t, statusFailed, "127.0.0.1:1", "no Redis answers at this address")
}

func TestTheErrorNamesAServerThatIsNotACluster(t *testing.T) {
	s := redistest.Redis(t)
	call{args: []string{"ls", "--redis", "redis+cluster://" + s.Addr()}}.run(t.Context()).want(t, statusFailed, s.Addr(), "is not a Cluster", "redis://"+s.Addr())
}

// The server reports a Cluster and wants the keys of a script in one slot. With the flag the command takes it for a proxy.
func TestSlottedKeysAreSeenWithTheirFlag(t *testing.T) {
	t.Parallel()
	s := redistest.Slotted(t)
	take(t, newClient(t, s, lockmw.WithSlottedKeys()), "user:42")
	status, err := usertest.Inspector(t, s.NewClient(t), lockmw.WithSlottedKeys()).Get(t.Context(), "user:42")
	if err != nil || len(status.Holders) != 1 {
		t.Fatalf("%+v %v", status, err)
	}
	id := idOf(status.Holders[0])
	lockmwOn(t, s, "ls", "--slotted-keys").want(t, statusDone, "user:42")
	lockmwOn(t, s, "doctor", "--slotted-keys", "--lease", "1m").want(t, statusDone, "the proxy answers", "all locks have a fencing counter for each slot")
	lockmwOn(t, s, "unlock", "user:42", "--holder", id, "--yes", "--slotted-keys").want(t, statusDone, "released")
	verifyArgs := []string{"verify", "--yes", "--for", "1s", "--lease", "500ms", "--share", "0.3", "--processes", "2", "--slotted-keys"}
	lockmwOn(t, s, verifyArgs...).want(t, statusDone, "holds: no promise was broken")
	lockmwOn(t, s, append(verifyArgs, "--replicas", "1")...).want(t, statusUsage, "--slotted-keys")
}

// Without a password go-redis does not log in, and commands run as the default user: doctor then tries the wrong user's rights.
func TestNoCommandRunsAsAnotherUserThanTheOneGiven(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	if err := redistest.SetUser(t.Context(), s.NewClient(t), "app", "reset", "on", ">hush", "~*", "&*", "+@all", "-evalsha"); err != nil {
		t.Fatal(err)
	}
	doctor := func(user, password, url string) result {
		return call{args: []string{"doctor", "--redis", url}, env: map[string]string{"LOCKMW_USER": user, "LOCKMW_PASSWORD": password}}.run(t.Context())
	}
	doctor("app", "hush", s.Addr()).want(t, statusUnfit, "+evalsha")
	doctor("app", "", s.Addr()).want(t, statusUsage, "the user has no password: set LOCKMW_PASSWORD")
	doctor("", "", "redis://app@"+s.Addr()).want(t, statusUsage, "the user has no password")
	lockmwOn(t, s, "ls", "--user", "default").want(t, statusNothing)
}
