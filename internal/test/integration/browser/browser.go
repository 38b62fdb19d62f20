// Package browser looks at pages with a headless Chromium.
package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// ErrNotInstalled means that no Chromium is on the PATH.
var ErrNotInstalled = errors.New("no chromium, chromium-headless-shell or google-chrome on the PATH")

// Start starts a browser without a window. It ends with the returned context, or when stop is called. Each chromedp.NewContext
// of that context is a tab.
func Start(ctx context.Context) (browser context.Context, stop func(), err error) {
	path := ""
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		return nil, nil, ErrNotInstalled
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.DisableGPU,
		chromedp.WSURLReadTimeout(2*time.Minute))
	if os.Geteuid() == 0 { // Chromium refuses to sandbox root
		options = append(options, chromedp.NoSandbox)
	}
	allocator, end := chromedp.NewExecAllocator(ctx, options...)
	browser, cancel := chromedp.NewContext(allocator)
	if err := chromedp.Do(browser); err != nil {
		cancel()
		end()
		return nil, nil, fmt.Errorf("starting %s: %w", path, err)
	}
	return browser, func() { _ = chromedp.Cancel(browser); cancel(); end() }, nil
}

// A Window is the window that shows a page.
type Window struct {
	Width, Height int64
	Phone         bool // on a phone
	Dark          bool // in the dark colour scheme
}

// Set applies the window to a tab.
func (w Window) Set() chromedp.Action[chromedp.Void] {
	scheme := "light"
	if w.Dark {
		scheme = "dark"
	}
	viewport := chromedp.EmulateViewport(w.Width, w.Height)
	if w.Phone {
		viewport = chromedp.EmulateViewport(w.Width, w.Height, chromedp.EmulatePortrait, chromedp.EmulateMobile, chromedp.EmulateTouch)
	}
	colours := chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	})
	return chromedp.Steps(viewport, colours)
}
