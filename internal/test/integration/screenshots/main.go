// Command screenshots takes the pictures of the inspector's page in docs/inspector.md.
//
//	go run ./internal/test/integration/screenshots -o docs
//
// It only needs a Chromium on the PATH.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/lockmw/go/internal/test/integration/browser"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "screenshots: %v\n", err)
		os.Exit(1)
	}
}

// A shot is one picture.
type shot struct {
	file   string
	path   string // of the page
	ready  string // what to wait for, as a selector
	window browser.Window
}

var shots = []shot{
	{"inspector.png", "", `tr.lingering`, browser.Window{Width: 1180, Height: 890}},
	{"inspector-dark.png", "", `tr.lingering`, browser.Window{Width: 1180, Height: 890, Dark: true}},
	{"inspector-key.png", "key?key=order:10023", `table.queue`, browser.Window{Width: 1180, Height: 590}},
	{"inspector-phone.png", "", `tr.lingering`, browser.Window{Width: 390, Height: 1034, Phone: true}},
}

// run is the program; messages about flags go to stderr.
func run(ctx context.Context, args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("screenshots", flag.ContinueOnError)
	flags.SetOutput(stderr)
	out := flags.String("o", "docs", "put the pictures into this `folder`")
	rest := flags.Duration("wait", 2*time.Minute, "how long the page has been open in the pictures")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	scene, err := newScene(ctx, *rest)
	if err != nil {
		return err
	}
	defer scene.close()
	tab, stop, err := browser.Start(ctx)
	if err != nil {
		return err
	}
	defer stop()
	for began := time.Now(); time.Since(began) < *rest; time.Sleep(time.Second) { // the trends need an open page
		if err := chromedp.Do(tab, chromedp.Navigate(scene.site.URL)); err != nil {
			return err
		}
	}
	if err := scene.arrive(ctx, min(time.Second, *rest)); err != nil {
		return err
	}
	for _, s := range shots {
		err := chromedp.Do(tab, s.window.Set(), chromedp.Navigate(scene.site.URL+"/"+s.path),
			chromedp.WaitVisible(chromedp.CSS(s.ready)), chromedp.WaitVisible(chromedp.CSS(".pulse.on")))
		if err != nil {
			return fmt.Errorf("%s: %w", s.file, err)
		}
		png, err := chromedp.Run(tab, chromedp.CaptureScreenshot())
		if err != nil {
			return fmt.Errorf("%s: %w", s.file, err)
		}
		if err := os.WriteFile(filepath.Join(*out, s.file), png, 0o644); err != nil {
			return err
		}
	}
	return nil
}
