package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockmw/go/internal/test/leak"
	"github.com/lockmw/go/internal/test/redistest"
	"github.com/lockmw/go/internal/test/suite"
	"github.com/lockmw/go/internal/test/usertest"
)

func TestMain(m *testing.M) {
	leak.VerifyMain(m.Run)
}

const nobody = "127.0.0.1:1" // nothing listens at this address

// runs runs the program and returns its output, and its figures if it printed any.
func runs(t *testing.T, want int, args string) (stdout string, figures report) {
	t.Helper()
	var out, stderr bytes.Buffer
	if code := run(t.Context(), strings.Fields(args), &out, &stderr); code != want {
		t.Fatalf("exit status %d, want %d\n%s%s", code, want, &out, &stderr)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if last := lines[len(lines)-1]; strings.HasPrefix(last, "{") {
		if err := json.Unmarshal([]byte(last), &figures); err != nil {
			t.Fatalf("%v: %s", err, last)
		}
	}
	return out.String(), figures
}

func TestGuardedWaysConserveMoneyAndItems(t *testing.T) {
	t.Parallel()
	out, figures := runs(t, exitOK, "-seconds 0.2 -loads 1x1,3x3 -ways watch,coarse,rw,fine,lua -json")
	if len(figures.Cells) != 10 {
		t.Fatalf("%d cells, want 10", len(figures.Cells))
	}
	for _, c := range figures.Cells {
		if c.MoneyOff != 0 || c.SoldTwice != 0 || c.Vanished != 0 {
			t.Errorf("%s: %+v", c.Way, c)
		}
		if c.Way != "watch" && (c.Retries != 0 || c.RetriesPerPurchase != nil && *c.RetriesPerPurchase != 0) {
			t.Errorf("%s retried: %+v", c.Way, c)
		}
		longest := 1010 * c.Seconds // waits are rounded up
		if c.Bought > 0 && !(c.WaitMean > 0 && c.WaitP99 > 0 && c.WaitMean < longest && c.WaitP99 < longest) {
			t.Errorf("%s: impossible waits: %+v", c.Way, c)
		}
		if c.Seconds < 0.2 || !c.Guarded {
			t.Errorf("%s: %+v", c.Way, c)
		}
	}
	for _, says := range []string{"1 seller × 1 buyer", "3 sellers × 3 buyers", "a lock for each item", "all there", "Every guarded way kept"} {
		if !strings.Contains(out, says) {
			t.Errorf("the output lacks %q:\n%s", says, out)
		}
	}
}

// Several buyers of the same sellers are sure to lose money: each overwrites the accounts that others have just written.
func TestWithoutAGuardMoneyIsLost(t *testing.T) {
	t.Parallel()
	out, figures := runs(t, exitOK, "-seconds 1 -loads 2x8 -ways none -json")
	if c := figures.Cells[0]; c.MoneyOff >= 0 || c.Guarded || !strings.Contains(out, " lost") {
		t.Errorf("%+v\n%s", c, out)
	}
}

func TestAGuardThatBreaksIsFound(t *testing.T) {
	t.Parallel()
	bad := *wayCalled(t, "none")
	bad.guarded = true
	var stdout bytes.Buffer
	cfg := settings{ways: []*way{&bad}, loads: []load{{2, 8}}, length: time.Second}
	broken, err := compare(t.Context(), cfg, &stdout, io.Discard)
	if !broken || err != nil || !strings.Contains(stdout.String(), "a guarded way broke its promise: ") {
		t.Errorf("%v, %v\n%s", broken, err, &stdout)
	}
	if code := exitStatus(t.Context(), broken, err, io.Discard); code != exitBroken {
		t.Errorf("exit status %d, want %d", code, exitBroken)
	}
}

func TestInvalidSettingsAreReportedInOneLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for args, says := range map[string]string{
		"-way fine":                   "-way",
		"-ways fine,coarser":          `-ways has "coarser", must be among none,watch,coarse,rw,fine,lua`,
		"-ways fine,fine":             `-ways has "fine" twice`,
		"-ways ,":                     `-ways has ""`,
		"-loads 5":                    `-loads has "5", must be like 5x1`,
		"-loads 5x0":                  `-loads has "5x0"`,
		"-loads 1x1,101x1":            `-loads has "101x1"`,
		"-loads 1x1x1":                `-loads has "1x1x1"`,
		"-loads 2x2,2x2":              `-loads has "2x2" twice`,
		"-seconds 0":                  "-seconds is 0",
		"-seconds NaN":                "-seconds is NaN",
		"-seconds 4000":               "-seconds is 4000",
		"-seconds two":                "two",
		"now":                         `"now"`,
		"-redis localhost":            `-redis is "localhost"`,
		"-redis localhost:1,":         `-redis is "localhost:1,"`,
		"-redis " + nobody:            "no redis at " + nobody,
		"-svg " + dir:                 "-svg: " + dir + " is not a regular file",
		"-svg " + dir + "/none/a.svg": "-svg: ",
		"-redis " + nobody + " -svg " + dir + "/a.svg": "no redis at " + nobody,
	} {
		t.Run(args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(t.Context(), strings.Fields(args), &stdout, &stderr); code != exitUsage {
				t.Errorf("exit status %d, want %d", code, exitUsage)
			}
			line := stderr.String()
			if strings.Count(line, "\n") != 1 || !strings.HasPrefix(line, "market: ") || !strings.Contains(line, says) {
				t.Errorf("stderr is %q, want one line about %q", line, says)
			}
			if stdout.Len() > 0 {
				t.Errorf("stdout: %q", &stdout)
			}
		})
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"-h"}, &stdout, &stderr); code != exitOK || !strings.Contains(stderr.String(), "-seconds") {
		t.Errorf("exit status %d: %s", code, &stderr)
	}
}

func TestPictureIsDrawn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "market.svg")
	runs(t, exitOK, "-seconds 0.1 -loads 1x1,1x2 -ways none,lua -svg "+path)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	checkPicture(t, text, "1 seller × 1 buyer", "1 seller × 2 buyers", "no guard", "a Lua script")
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("files next to the picture: %v, %v", left, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// checkPicture checks that a picture is well-formed, has all figures, and contains these texts.
func checkPicture(t *testing.T, svg []byte, says ...string) {
	t.Helper()
	var written []string
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		if s, ok := token.(xml.CharData); ok {
			written = append(written, string(s))
		}
	}
	for _, s := range append(says, "retries per purchase") {
		if !slices.Contains(written, s) {
			t.Errorf("the picture lacks %q: %q", s, written)
		}
	}
	if strings.Contains(string(svg), "NaN") || strings.Contains(string(svg), "Inf") {
		t.Error("the picture has coordinates that are not numbers")
	}
}

func TestPictureOfPoorFigures(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "poor.svg"))
	if err != nil {
		t.Fatal(err)
	}
	some := 250.5
	r := report{}
	for i, c := range []result{
		{Listed: 12_345, PerSecond: 12_345, Retries: 99, right: true},                    // nothing bought
		{Bought: 1, PerSecond: 1, RetriesPerPurchase: &some, WaitMean: 0.01, WaitP99: 0}, // below the beginning of the scale
		{},
	} {
		c.way, c.load, c.Seconds = &ways[i], load{5, 5}, 1
		r.Cells = append(r.Cells, c)
	}
	p := &picture{path: file.Name(), file: file}
	if err := errors.Join(p.write(&r), p.discard()); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(p.path)
	if err != nil {
		t.Fatal(err)
	}
	checkPicture(t, svg, "nothing bought", "12,345", "1 broken", "250", "0.01 to 0")
}

// started runs the program until its market exists.
func started(t *testing.T, ctx context.Context, s *redistest.Server, args string) (exit <-chan int, stdout, stderr *usertest.Output) {
	t.Helper()
	stdout, stderr = new(usertest.Output), new(usertest.Output)
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, strings.Fields(args+" -redis "+s.Addr()), stdout, stderr)
	}()
	rdb := s.NewClient(t)
	usertest.Eventually(t, "something bought", 20*time.Second, func() bool {
		keys, err := rdb.Keys(t.Context(), "*:inventory:buyer-1").Result()
		return err == nil && len(keys) > 0
	})
	return code, stdout, stderr
}

func TestInterruptedRunLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s := redistest.Mini(t)
	ctx, interrupt := context.WithCancel(t.Context())
	dir := t.TempDir()
	exit, stdout, stderr := started(t, ctx, s, "-seconds 600 -ways fine -loads 3x3 -svg "+filepath.Join(dir, "a.svg"))
	interrupt()
	if code := usertest.Receive(t, "the end", exit); code != exitInterrupted {
		t.Errorf("exit status %d, want %d", code, exitInterrupted)
	}
	if !strings.HasSuffix(stderr.String(), "\nmarket: interrupted\n") || stdout.Len() > 0 {
		t.Errorf("stderr is %q, stdout is %q", stderr, stdout)
	}
	if keys := s.Mini.Keys(); len(keys) > 0 {
		t.Errorf("keys are left: %q", keys)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
}

func TestADeadServerIsReportedInOneLine(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	exit, stdout, stderr := started(t, t.Context(), s, "-seconds 600 -ways watch -loads 1x1")
	s.Kill()
	if code := usertest.Receive(t, "the end", exit); code != exitUsage {
		t.Errorf("exit status %d, want %d", code, exitUsage)
	}
	_, line, _ := strings.Cut(stderr.String(), "market: ")
	if strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") || stdout.Len() > 0 {
		t.Errorf("stderr is %q, stdout is %q", stderr, stdout)
	}
}

func TestNoKeysRemainInARealRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Redis(t)
	rdb := s.NewClient(t)
	if err := rdb.Set(t.Context(), "somebody:else", "1", 0).Err(); err != nil {
		t.Fatal(err)
	}
	out, _ := runs(t, exitOK, "-seconds 0.1 -loads 2x2 -redis "+s.Addr())
	if !strings.HasPrefix(out, "Redis ") && !strings.HasPrefix(out, "Valkey ") {
		t.Errorf("the output lacks the server's version:\n%s", out)
	}
	if keys, err := rdb.Keys(t.Context(), "*").Result(); err != nil || !slices.Equal(keys, []string{"somebody:else"}) {
		t.Errorf("keys afterwards: %q, %v", keys, err)
	}
}

func TestMarketInACluster(t *testing.T) {
	suite.NeedsFull(t, "starts a Cluster")
	t.Parallel()
	cluster := redistest.NewCluster(t, 3, 0)
	runs(t, exitOK, "-seconds 0.2 -loads 2x2 -redis "+cluster.Nodes[0].Addr())
	err := cluster.Client(t).ForEachMaster(t.Context(), func(ctx context.Context, rdb *redis.Client) error {
		keys, err := rdb.Keys(ctx, "*").Result()
		if err == nil && len(keys) > 0 {
			err = fmt.Errorf("keys are left: %q", keys)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
